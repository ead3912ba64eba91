// The keys of a call in panels, packed once and read by all threads: by position, by list for the pieces that have
// lists, rounded to 8 bits for the screen, and the codes and points that rules compare.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "memory.h"
#include "panels.h"
#include "parallel.h"
#include "plan.h"
#include "screen.h"
#include "sketching.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Smaller blocks are walked key by key: a tile would be mostly waste.
constexpr int64_t kLeastBlock = 8;
constexpr int64_t kLeastBand = 8;      // and bands of fewer diagonals likewise
constexpr int64_t kPanelsOfTask = 16;  // packed by one thread at a time

inline bool by_panels(const Piece& piece) {
  return piece.kind != Kind::blocks || (piece.query_size >= kLeastBlock && piece.key_size >= kLeastBlock);
}

// Whether some queries of a piece pass over keys by their positions.
inline bool by_positions(const Problem& problem, const Piece& piece) {
  switch (piece.kind) {
    case Kind::columns:
    case Kind::buckets:
    case Kind::near:
      return false;
    case Kind::rule:
      // Without any number to compare, all pairs of a head are in.
      return std::find(piece.ranks, piece.ranks + problem.heads, 0) != piece.ranks + problem.heads;
    default:
      return by_panels(piece);
  }
}

// Pack the keys of a list, as far as they are within the sequence. Returns whether a number was not finite.
inline bool pack_list(const Problem& problem, int64_t b, int64_t h, const Lists& lists, int list, float* dst) {
  const int64_t within = problem.keys_of(b), head = problem.key_head(h);
  const int* keys = lists.keys.data() + lists.begins[list];
  int size = lists.size(list);
  while (size > 0 && keys[size - 1] >= within) --size;
  bool nonfinite = false;
  for (int j = 0; j < size; j += kPanel) {
    const int next = std::min(size, j + 2 * kPanel);
    for (int i = j + kPanel; i < next; ++i) prefetch(problem.k.at(b, head, keys[i]), problem.depth);
    nonfinite |= pack_panel([&](int i) { return problem.k.at(b, head, keys[j + i]); }, std::min(size - j, kPanel),
                            problem.depth, dst + j * problem.depth);
  }
  return nonfinite;
}

// All keys in panels: by position, and by list for the pieces that have lists.
class Packed {
 public:
  // Without `lists_too`, those who need a list pack it themselves.
  Packed(const Problem& problem, const Plan& plan, bool lists_too);

  const float* by_position(int64_t b, int64_t h) const { return data_ + key_head(b, h) * position_stride_; }
  const float* by_list(size_t piece, int64_t b, int64_t h, int list) const {
    return data_ + list_place(piece, b * problem_.heads + h) +
           plan_.pieces[piece].lists(b, h).packed_begins[list] * problem_.depth;
  }
  bool lists_too() const { return lists_too_; }
  // The keys of a rule: panels of 32 codes, by position or, from panel `packed_begins[list] / 16` on, by list.
  const uint8_t* codes(size_t piece, int64_t b, int64_t h) const {
    return reinterpret_cast<const uint8_t*>(data_ + list_place(piece, b * problem_.heads + h));
  }
  // Or panels of 16 points.
  const float* points(size_t piece, int64_t b, int64_t h) const {
    return data_ + list_place(piece, b * problem_.heads + h);
  }
  // The same keys rounded for the screen.
  const uint8_t* screen(int64_t b, int64_t h) const { return screen_panels(key_head(b, h)); }
  const ScreenKeys& screen_keys(int64_t b, int64_t h) const { return screen_keys_[key_head(b, h)]; }
  // Whether there are such: where all keys may have to be looked at, and are worth it.
  bool screens() const { return screens_ && !nonfinite_; }
  bool nonfinite() const { return nonfinite_; }

 private:
  const Problem& problem_;
  const Plan& plan_;
  bool lists_too_;
  // Where everything is, in floats but for the screen's stride.
  int64_t position_stride_ = 0;       // from one key head to the next; 0: no piece needs the keys by position
  std::vector<int64_t> list_places_;  // [pieces, batch, heads]
  int64_t screen_place_ = 0, screen_stride_ = 0;  // the stride in bytes
  bool screens_ = false;
  std::vector<ScreenKeys> screen_keys_;
  std::optional<Shared> shared_;
  float* data_ = nullptr;  // of `shared_`
  std::atomic<bool> nonfinite_{false};

  int64_t key_head(int64_t b, int64_t h) const { return b * problem_.key_heads + problem_.key_head(h); }
  int64_t list_place(size_t piece, int64_t head) const {
    return list_places_[piece * problem_.batch * problem_.heads + head];
  }
  uint8_t* screen_panels(int64_t key_head) const {
    return reinterpret_cast<uint8_t*>(data_ + screen_place_) + key_head * screen_stride_;
  }
  bool packs_lists(const PiecePlan& piece) const {
    const Kind kind = piece.piece->kind;
    return lists_too_ && !piece.tables.empty() && kind != Kind::rule && kind != Kind::diagonals;
  }
  // How many floats the piece's own panels take for a head.
  int64_t floats_of(const PiecePlan& piece, int64_t b, int64_t h) const;

  int64_t lay_out();
  void pack_positions();
  void pack_lists();
  void pack_rules();
  void round_keys();
};

inline Packed::Packed(const Problem& problem, const Plan& plan, bool lists_too)
    : problem_(problem), plan_(plan), lists_too_(lists_too) {
  shared_.emplace(static_cast<size_t>(lay_out()));
  data_ = shared_->data();
  if (position_stride_ > 0) pack_positions();
  pack_lists();
  pack_rules();
  if (screens_ && !nonfinite_) round_keys();
}

// Give everything its place. Returns how many floats it takes.
inline int64_t Packed::lay_out() {
  const int64_t heads = problem_.batch * problem_.heads, key_heads = problem_.batch * problem_.key_heads;
  bool positions = problem_.screened, every_pair = problem_.screened;
  for (const Piece& piece : problem_.pieces) {
    positions |= by_positions(problem_, piece);
    every_pair |= piece.kind == Kind::rule && by_positions(problem_, piece);
  }
  screens_ = every_pair && problem_.m >= kLeastScreened;
  if (positions) position_stride_ = (problem_.m + kPanel - 1) / kPanel * kPanel * problem_.depth;
  int64_t total = key_heads * position_stride_;
  for (const PiecePlan& piece : plan_.pieces)
    for (int64_t head = 0; head < heads; ++head) {
      list_places_.push_back(total);
      total += floats_of(piece, head / problem_.heads, head % problem_.heads);
    }
  if (screens_) {
    screen_place_ = total;
    screen_stride_ = (problem_.m + kScreenPanel - 1) / kScreenPanel * screen_panel_bytes(problem_.depth);
    total += (key_heads * screen_stride_ + 3) / 4;
    screen_keys_.resize(key_heads);
  }
  return total;
}

inline int64_t Packed::floats_of(const PiecePlan& plan, int64_t b, int64_t h) const {
  const Piece& piece = *plan.piece;
  if (piece.kind == Kind::near) return (problem_.m + kPanel - 1) / kPanel * kPanel * piece.rank;
  if (piece.kind == Kind::rule) {
    const int64_t panels = piece.query_buckets ? plan.lists(b, h).packed_begins.back() / kPanel
                                               : (problem_.m + kScreenPanel - 1) / kScreenPanel;
    return panels * screen_panel_bytes(piece.codes(h)) / static_cast<int64_t>(sizeof(float));
  }
  return packs_lists(plan) ? plan.lists(b, h).packed_begins.back() * problem_.depth : 0;
}

inline void Packed::pack_positions() {
  const int64_t panels = (problem_.m + kPanel - 1) / kPanel, parts = (panels + kPanelsOfTask - 1) / kPanelsOfTask;
  parallel(problem_.threads, problem_.batch * problem_.key_heads * parts, [&](int64_t task) {
    const int64_t head = task / parts, b = head / problem_.key_heads, h = head % problem_.key_heads;
    const int64_t keys = problem_.keys_of(b), depth = problem_.depth;
    const int64_t begin = task % parts * kPanelsOfTask * kPanel;
    float* dst = data_ + head * position_stride_;
    bool nonfinite = false;
    const int64_t end = std::min(keys, begin + kPanelsOfTask * kPanel);
    for (int64_t first = begin; first < end; first += kPanel) {
      for (int64_t j = first + kPanel; j < std::min(end, first + 2 * kPanel); ++j)
        prefetch(problem_.k.at(b, h, j), depth);
      nonfinite |= pack_panel([&](int i) { return problem_.k.at(b, h, first + i); },
                              static_cast<int>(std::min<int64_t>(keys - first, kPanel)), depth, dst + first * depth);
    }
    if (nonfinite) nonfinite_ = true;
  });
}

inline void Packed::pack_lists() {
  for (size_t piece = 0; piece < plan_.pieces.size(); ++piece) {
    if (!packs_lists(plan_.pieces[piece])) continue;
    parallel(problem_.threads, problem_.batch * problem_.heads, [&](int64_t head) {
      const int64_t b = head / problem_.heads, h = head % problem_.heads;
      const Lists& lists = plan_.pieces[piece].lists(b, h);
      float* dst = data_ + list_place(piece, head);
      bool nonfinite = false;
      for (int list = 0; list < lists.count(); ++list)
        nonfinite |= pack_list(problem_, b, h, lists, list, dst + lists.packed_begins[list] * problem_.depth);
      if (nonfinite) nonfinite_ = true;
    });
  }
}

// The codes of up to 32 keys, kMostCodes apart: mapped and rounded here. Returns whether a number was not finite.
template <class Key>
inline bool make_key_codes(const Piece& piece, int64_t b, int64_t h, const Key& key_of, int count, int8_t* codes) {
  const int64_t rank = piece.ranks[h], columns = (rank + kLanes - 1) / kLanes * kLanes;
  const float* map = piece.key_maps + h * piece.token_size * piece.width;
  float points[kMappedTogether * (kMostCodes + kLanes)];
  bool nonfinite = false;
  for (int j = 0; j < count; j += kMappedTogether) {
    const float* tokens[kMappedTogether];
    for (int i = 0; i < kMappedTogether; ++i) {
      tokens[i] = piece.key_tokens.at(b, h / piece.token_group, key_of(std::min(j + i, count - 1)));
      const int ahead = j + i + 2 * kMappedTogether;
      if (ahead < count) prefetch(piece.key_tokens.at(b, h / piece.token_group, key_of(ahead)), piece.token_size);
    }
    map_four(tokens, piece.token_size, map, piece.width, columns, points);
    for (int i = 0; i < kMappedTogether && j + i < count; ++i)
      nonfinite |= round_key(points + i * piece.width, rank, codes + (j + i) * kMostCodes);
  }
  return nonfinite;
}

inline void Packed::pack_rules() {
  for (size_t index = 0; index < plan_.pieces.size(); ++index) {
    const PiecePlan& plan = plan_.pieces[index];
    const Piece& piece = *plan.piece;
    if (piece.kind != Kind::rule && piece.kind != Kind::near) continue;
    parallel(problem_.threads, problem_.batch * problem_.heads, [&](int64_t head) {
      const int64_t b = head / problem_.heads, h = head % problem_.heads, keys = problem_.keys_of(b);
      float* dst = data_ + list_place(index, head);
      if (piece.kind == Kind::near) {
        const float* points = piece.key_points + piece.token(b, h, problem_.m, 0);
        for (int64_t j = 0; j < keys; ++j)
          for (int64_t d = 0; d < piece.rank; ++d)
            dst[j / kPanel * kPanel * piece.rank + d * kPanel + j % kPanel] = points[j * piece.rank + d];
        return;
      }
      const int64_t rank = piece.codes(h), bytes = screen_panel_bytes(rank);
      auto* panels = reinterpret_cast<uint8_t*>(dst);
      const auto pack = [&](const auto& key_of, int64_t count, uint8_t* to) {
        int8_t made[kScreenPanel * kMostCodes];
        for (int64_t j = 0; j < count; j += kScreenPanel, to += bytes) {
          const int some = static_cast<int>(std::min<int64_t>(count - j, kScreenPanel));
          if (!piece.key_codes) {
            if (make_key_codes(piece, b, h, [&](int i) { return key_of(j + i); }, some, made)) nonfinite_ = true;
            pack_codes([&](int i) { return made + i * kMostCodes; }, some, rank, to);
            continue;
          }
          const int8_t* codes = piece.key_codes + piece.token(b, h, problem_.m, 0);
          pack_codes([&](int i) { return codes + key_of(j + i) * piece.rank; }, some, rank, to);
        }
      };
      if (!piece.query_buckets) return pack([](int64_t j) { return j; }, keys, panels);
      const Lists& lists = plan.lists(b, h);
      for (int list = 0; list < lists.count(); ++list)
        pack([&](int64_t j) -> int64_t { return lists.keys[lists.begins[list] + j]; }, lists.size(list),
             panels + lists.packed_begins[list] / kPanel * bytes);
    });
  }
}

inline void Packed::round_keys() {
  const int64_t depth = problem_.depth;
  parallel(problem_.threads, problem_.batch * problem_.key_heads, [&](int64_t head) {
    const int64_t b = head / problem_.key_heads, h = head % problem_.key_heads, keys = problem_.keys_of(b);
    Floats top = spread(1e-30f);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < depth; d += kLanes) {
        const Floats x = load(problem_.k.at(b, h, j) + d);
        top = larger(top, larger(x, zeros() - x));
      }
    ScreenKeys& found = screen_keys_[head];
    found = {127.0f / largest(top), 0.0f, 0.0f};
    uint8_t* panels = screen_panels(head);
    static thread_local Buffer<int8_t> memory;
    int8_t* codes = memory.get(kScreenPanel * depth);
    for (int64_t j = 0; j < keys; j += kScreenPanel)
      pack_screen_panel([&](int i) { return problem_.k.at(b, h, j + i); },
                        static_cast<int>(std::min<int64_t>(keys - j, kScreenPanel)), depth, found, codes,
                        panels + j / kScreenPanel * screen_panel_bytes(depth));
    found.longest = std::sqrt(found.longest) * 1.0001f;
    found.remainder = std::sqrt(found.remainder) * 1.0001f;
  });
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
