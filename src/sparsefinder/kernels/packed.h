// The keys of a call in panels, packed once and read by all threads: by position, by list for the pieces that have
// lists, and rounded to 8 bits for the screen.
#pragma once

#include <atomic>

#include "memory.h"
#include "panels.h"
#include "parallel.h"
#include "plan.h"
#include "screen.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Smaller blocks are walked key by key: a tile would be mostly waste.
constexpr int64_t kLeastBlock = 8;

inline bool by_panels(const Piece& piece) {
  return piece.kind != Kind::blocks || (piece.query_size >= kLeastBlock && piece.key_size >= kLeastBlock);
}

// Pack the keys of a list, as far as they are within the sequence. Returns NaN if a number was not finite, else zero.
inline float pack_list(const Problem& problem, int64_t b, int64_t h, const Lists& lists, int list, float* dst) {
  const int64_t within = problem.keys_of(b), head = problem.key_head(h);
  const int* keys = lists.keys.data() + lists.begins[list];
  int size = lists.size(list);
  while (size > 0 && keys[size - 1] >= within) --size;
  float finite = 0.0f;
  for (int j = 0; j < size; j += kPanel) {
    const int next = size < j + 2 * kPanel ? size : j + 2 * kPanel;
    for (int i = j + kPanel; i < next; ++i) prefetch(problem.k.at(b, head, keys[i]), problem.depth);
    finite += pack_panel([&](int i) { return problem.k.at(b, head, keys[j + i]); },
                         size - j < kPanel ? size - j : kPanel, problem.depth, dst + j * problem.depth);
  }
  return finite;
}

// All keys in panels: by position, and by list for the pieces that have lists.
class Packed {
 public:
  // Without `lists_too`, those who need a list pack it themselves.
  Packed(const Problem& problem, const Plan& plan, bool lists_too);
  const float* by_position(int64_t b, int64_t h) const {
    return shared_->data() + (b * problem_.key_heads + problem_.key_head(h)) * position_stride_;
  }
  const float* by_list(size_t piece, int64_t b, int64_t h, int list) const {
    return shared_->data() + list_places_[(piece * problem_.batch + b) * problem_.heads + h] +
           plan_.pieces[piece].lists(b, h).packed_begins[list] * problem_.depth;
  }
  bool lists_too() const { return lists_too_; }
  // The same keys rounded for the screen.
  const uint8_t* screen(int64_t b, int64_t h) const {
    const int64_t head = b * problem_.key_heads + problem_.key_head(h);
    return reinterpret_cast<const uint8_t*>(shared_->data() + screen_place_) + head * screen_stride_;
  }
  const ScreenKeys& screen_keys(int64_t b, int64_t h) const {
    return screen_keys_[b * problem_.key_heads + problem_.key_head(h)];
  }
  bool infinite() const { return infinite_; }
  ~Packed() {
    delete shared_;
    std::free(list_places_);
    std::free(screen_keys_);
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

 private:
  const Problem& problem_;
  const Plan& plan_;
  bool lists_too_;
  int64_t position_stride_ = 0;
  int64_t* list_places_ = nullptr;
  int64_t screen_place_ = 0, screen_stride_ = 0;  // in floats, in bytes
  ScreenKeys* screen_keys_ = nullptr;
  Shared* shared_ = nullptr;
  std::atomic<bool> infinite_{false};

  void round_keys();
};

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
    auto* panels = reinterpret_cast<uint8_t*>(shared_->data() + screen_place_) + head * screen_stride_;
    for (int64_t j = 0; j < keys; j += kScreenPanel)
      pack_screen_panel([&](int i) { return problem_.k.at(b, h, j + i); },
                        static_cast<int>(keys - j < kScreenPanel ? keys - j : kScreenPanel), depth, found,
                        panels + j / kScreenPanel * screen_panel_bytes(depth));
    found.longest = std::sqrt(found.longest) * 1.0001f;
    found.remainder = std::sqrt(found.remainder) * 1.0001f;
  });
}

inline Packed::Packed(const Problem& problem, const Plan& plan, bool lists_too)
    : problem_(problem), plan_(plan), lists_too_(lists_too) {
  const int64_t heads = problem.batch * problem.heads;
  const int64_t depth = problem.depth, panels = (problem.m + kPanel - 1) / kPanel;
  bool positions = problem.screened;
  for (const Piece& piece : problem.pieces)
    positions |= by_panels(piece) && piece.kind != Kind::columns && piece.kind != Kind::buckets;
  if (positions) position_stride_ = panels * kPanel * depth;
  int64_t total = problem.batch * problem.key_heads * position_stride_;
  list_places_ = static_cast<int64_t*>(std::malloc((problem.pieces.size() * heads + 1) * sizeof(int64_t)));
  for (size_t piece = 0; piece < plan.pieces.size(); ++piece)
    for (int64_t head = 0; head < heads; ++head) {
      list_places_[piece * heads + head] = total;
      if (!plan.pieces[piece].tables.empty() && lists_too)
        total += plan.pieces[piece].lists(head / problem.heads, head % problem.heads).packed_begins.back() * depth;
    }
  if (problem.screened) {
    screen_place_ = total;
    screen_stride_ = (problem.m + kScreenPanel - 1) / kScreenPanel * screen_panel_bytes(depth);
    total += (problem.batch * problem.key_heads * screen_stride_ + 3) / 4;
    screen_keys_ = static_cast<ScreenKeys*>(std::malloc(problem.batch * problem.key_heads * sizeof(ScreenKeys) + 1));
  }
  shared_ = new Shared(static_cast<size_t>(total));
  constexpr int64_t kTogether = 16;  // panels
  const int64_t parts = positions ? (panels + kTogether - 1) / kTogether : 0;
  parallel(problem.threads, problem.batch * problem.key_heads * parts, [&](int64_t task) {
    const int64_t head = task / parts, b = head / problem.key_heads, h = head % problem.key_heads;
    const int64_t keys = problem.keys_of(b);
    float finite = 0.0f;
    for (int64_t panel = task % parts * kTogether; panel < (task % parts + 1) * kTogether; ++panel) {
      const int64_t first = panel * kPanel;
      if (first >= keys) break;
      finite += pack_panel([&](int i) { return problem.k.at(b, h, first + i); },
                           static_cast<int>(keys - first < kPanel ? keys - first : kPanel), depth,
                           shared_->data() + head * position_stride_ + first * depth);
    }
    if (finite != 0.0f) infinite_ = true;
  });
  for (size_t piece = 0; piece < plan.pieces.size(); ++piece) {
    if (plan.pieces[piece].tables.empty() || !lists_too) continue;
    parallel(problem.threads, heads, [&](int64_t head) {
      const int64_t b = head / problem.heads, h = head % problem.heads;
      const Lists& lists = plan.pieces[piece].lists(b, h);
      float finite = 0.0f;
      for (int list = 0; list < lists.count(); ++list)
        finite += pack_list(problem, b, h, lists, list,
                            shared_->data() + list_places_[piece * heads + head] + lists.packed_begins[list] * depth);
      if (finite != 0.0f) infinite_ = true;
    });
  }
  if (problem.screened && !infinite_) round_keys();
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
