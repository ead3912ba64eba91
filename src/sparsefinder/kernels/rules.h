// Pieces that are rules: which pairs are in follows from a few numbers of the query and of the key, which are compared
// here, where the pairs are used. What passes is looked at in float32; no list of pairs is ever made.
#pragma once

#include "codes.h"
#include "rows.h"
#include "sketching.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Queries that read the keys' codes together, and keys whose products are kept at a time: all of them in the
// first-level cache.
constexpr int kRuleRows = 8, kRuleChunk = 1024;
constexpr int32_t kNever = 1 << 20;  // no product reaches it
constexpr int32_t kFar = 1 << 17;    // more than any difference of two products

// The keys of a query that passed so far, and their products if the limit may still rise.
struct Passed {
  int* keys;
  int16_t* products;
  int count;

  // Take over the marked keys of two panels: key `ids[bit]`, or first + bit. Mostly a few are marked, and how many
  // cannot be foreseen: up to four are taken without a branch.
  template <bool Rising>
  KERNEL_INLINE void append(uint64_t marks, const int16_t* panels, int first, const int* ids) {
    const int number = __builtin_popcountll(marks);
    if (number == 0) return;
    int* to = keys + count;
    int16_t* values = products + count;
    const auto take = [&](int place) {
      const int bit = __builtin_ctzll(marks | uint64_t{1} << 63);
      to[place] = ids ? ids[bit] : first + bit;
      if (Rising) values[place] = panels[(bit & 32) + screen_place(bit & 31)];
      marks &= marks - 1;
    };
    if (number <= 4)
      for (int place = 0; place < 4; ++place) take(place);
    else
      for (int place = 0; place < number; ++place) take(place);
    count += number;
  }
  // Keep those whose product is above the limit.
  void keep_above(int16_t limit) {
    int kept = 0;
    for (int j = 0; j < count; ++j) {
      const int key = keys[j];
      const int16_t product = products[j];
      keys[kept] = key;
      products[kept] = product;
      kept += product > limit;
    }
    count = kept;
  }
};

// Products of codes against a limit of the row.
template <int Depth>
class RuleWalk {
 public:
  RuleWalk(const Share& share, Rows<Depth>& rows, size_t index)
      : share_(share), rows_(rows), index_(index), piece_(*share.plan.pieces[index].piece),
        rank_(piece_.codes(share.h)), pairs_(rank_ / 2), bytes_(screen_panel_bytes(rank_)),
        panels_(share.packed.codes(index, share.b, share.h)),
        first_row_((share.b * share.problem.heads + share.h) * share.problem.n + share.first) {}

  void run() {
    const int together = piece_.query_buckets ? 1 : rank_ == 0 ? kDenseRows : kRuleRows;
    for (start_ = 0; start_ < share_.size; start_ += together) {
      count_ = static_cast<int>(std::min<int64_t>(share_.size - start_, together));
      if (rank_ == 0 && !piece_.query_buckets) {
        take_all();
        continue;
      }
      prepare();
      piece_.query_buckets ? scan_buckets() : scan();
      for (int r = 0; r < count_; ++r) look(r);
    }
  }

 private:
  const Share& share_;
  Rows<Depth>& rows_;
  const size_t index_;
  const Piece& piece_;
  const int64_t rank_, pairs_, bytes_;
  const uint8_t* panels_;
  const int64_t first_row_;
  int64_t start_ = 0;
  int count_ = 0;  // of the queries that are looked at together
  int32_t* rounded_ = nullptr;
  int16_t* products_ = nullptr;  // [count, kRuleChunk]
  int16_t tops_[kRuleRows];
  int32_t given_[kRuleRows];  // their limits
  int64_t seen_[kRuleRows];   // how many keys each of them may see: none if no key could pass
  Passed passed_[kRuleRows];

  // What a product has to exceed, with the best that was seen so far.
  int16_t limit(int r) const {
    const int64_t reach = piece_.relative ? int64_t{tops_[r]} - given_[r] : given_[r];
    return static_cast<int16_t>(std::clamp<int64_t>(reach - 1, kHidden, 32767));
  }

  // Without any number to compare, every product is 0 and so is the best: all pairs are in unless the limit is higher.
  void take_all() {
    rows_.take(start_, count_);
    for (int r = 0; r < count_; ++r) {
      const int32_t given = piece_.limits ? piece_.limits[first_row_ + start_ + r] : 0;
      const bool in = piece_.relative ? given >= 0 : given <= 0;
      share_.plan.pieces[index_].reached[first_row_ + start_ + r] = in ? 0 : kNever;
      rows_.see(r, 0, in ? share_.problem.m : 0);
    }
    rows_.pass(index_);
  }

  void prepare() {
    Scratch& scratch = Scratch::mine();
    rounded_ = scratch.rounded.get(kRuleRows * (pairs_ + 1));
    piece_.query_codes ? take_codes() : make_codes();
    int64_t most = 0;
    for (int r = 0; r < count_; ++r) {
      seen_[r] = piece_.relative && given_[r] < 0 ? 0 : share_.limit(start_ + r);
      most = std::max(most, seen_[r]);
    }
    const int64_t room = most + kSlack;
    int* keys = scratch.listed.get(kRuleRows * room);
    int16_t* products = scratch.products.get(kRuleRows * (room + kRuleChunk));
    products_ = products;
    for (int r = 0; r < kRuleRows; ++r) {
      tops_[r] = kHidden;
      passed_[r] = {keys + r * room, products + kRuleRows * kRuleChunk + r * room, 0};
      if (r >= count_) std::memset(rounded_ + r * pairs_, 0, pairs_ * sizeof(int32_t));
    }
  }

  void take_codes() {
    const int8_t* codes =
        piece_.query_codes + piece_.token(share_.b, share_.h, share_.problem.n, share_.first + start_);
    for (int r = 0; r < count_; ++r) {
      spread_codes(codes + r * piece_.rank, rank_, rounded_ + r * pairs_);
      given_[r] = piece_.limits[first_row_ + start_ + r];
    }
  }

  // Map and round the queries here.
  void make_codes() {
    const int64_t rank = piece_.ranks[share_.h], columns = (rank + kLanes - 1) / kLanes * kLanes;
    const float* map = piece_.query_maps + share_.h * piece_.token_size * piece_.width;
    float points[kMappedTogether * (kMostCodes + kLanes)];
    for (int r = 0; r < count_; r += kMappedTogether) {
      const float* tokens[kMappedTogether];
      for (int i = 0; i < kMappedTogether; ++i)
        tokens[i] = piece_.query_tokens.at(share_.b, share_.h, share_.first + start_ + std::min(r + i, count_ - 1));
      map_four(tokens, piece_.token_size, map, piece_.width, columns, points);
      for (int i = 0; i < kMappedTogether && r + i < count_; ++i) {
        int8_t codes[kMostCodes + kLanes] = {};
        const float unit = round_query_point(points + i * piece_.width, rank, codes);
        spread_codes(codes, rank_, rounded_ + (r + i) * pairs_);
        // A query that is not finite may see nothing; if it sees something, that is found out where it is scaled.
        const double below = std::isnan(unit) ? 0.0 : std::floor(unit * piece_.slack[share_.h]);
        given_[r + i] = static_cast<int32_t>(std::min(below, 1.0 * kFar));
      }
    }
  }

  // All keys by position.
  void scan() {
    int64_t last = 0;
    for (int r = 0; r < count_; ++r) last = std::max(last, seen_[r]);
    for (int64_t chunk = 0; chunk < last; chunk += kRuleChunk) {
      const int64_t stop = std::min<int64_t>(last, chunk + kRuleChunk);
      for (int r = 0; r < count_; r += 4) multiply(r, chunk, stop);
      for (int r = 0; r < count_; ++r) pass(r, chunk, std::min(stop, seen_[r]));
    }
  }

  // The products of four queries with the keys chunk … stop - 1. Those that a query may not see are hidden.
  void multiply(int r, int64_t chunk, int64_t stop) {
    const int rows = std::min(count_ - r, 4);
    int64_t all = stop;  // all four see what comes before
    for (int i = 0; i < rows; ++i) all = std::min(all, std::max(seen_[r + i], chunk));
    const int64_t whole = (all - chunk) / kScreenPanel;
    int16_t* out = products_ + r * kRuleChunk;
    const uint8_t* panel = panels_ + chunk / kScreenPanel * bytes_;
    products<4>(rounded_ + r * pairs_, pairs_, panel, whole, out, kRuleChunk, tops_ + r);
    for (int64_t p = whole; chunk + p * kScreenPanel < stop; ++p) {
      int16_t tops[4];
      std::fill(tops, tops + 4, kHidden);
      products<4>(rounded_ + r * pairs_, pairs_, panel + p * bytes_, 1, out + p * kScreenPanel, kRuleChunk, tops);
      for (int i = 0; i < rows; ++i)
        tops_[r + i] = std::max(tops_[r + i],
                                hide(out + i * kRuleChunk + p * kScreenPanel, seen_[r + i] - chunk - p * kScreenPanel));
    }
  }

  // The marks of two panels, of which the second may not be there.
  static uint64_t two_above(const int16_t* products, int16_t limit, int64_t left) {
    const uint64_t marks = codes_above(products, limit);
    return left > kScreenPanel ? marks | uint64_t{codes_above(products + kScreenPanel, limit)} << 32 : marks;
  }

  // Hide all but the first `seen` products of a panel. Returns the highest of those.
  static int16_t hide(int16_t* panel, int64_t seen) {
    int16_t top = kHidden;
    for (int j = 0; j < kScreenPanel; ++j) {
      int16_t& product = panel[screen_place(j)];
      if (j >= seen) product = kHidden;
      top = std::max(top, product);
    }
    return top;
  }

  void pass(int r, int64_t chunk, int64_t stop) {
    // In a first chunk that is the last, the best is known before anything passes.
    rises(r) ? pass<true>(r, chunk, stop) : pass<false>(r, chunk, stop);
  }
  template <bool Rising>
  void pass(int r, int64_t chunk, int64_t stop) {
    const int16_t least = limit(r);
    const int16_t* products = products_ + r * kRuleChunk;
    for (int64_t j = chunk; j < stop; j += 2 * kScreenPanel, products += 2 * kScreenPanel)
      passed_[r].template append<Rising>(two_above(products, least, stop - j), products, static_cast<int>(j), nullptr);
  }
  bool rises(int r) const { return piece_.query_buckets || seen_[r] > kRuleChunk; }

  // The keys of the query's buckets only, one query at a time.
  void scan_buckets() {
    const Lists& lists = share_.lists(index_);
    const int64_t row = share_.first + start_, slots = piece_.query_slots;
    const int64_t* mine = piece_.query_buckets + (piece_.table(share_.b, share_.h) * share_.problem.n + row) * slots;
    for (int64_t s = 0; s < slots; ++s) {
      if (mine[s] < 0 || mine[s] >= lists.count() || std::find(mine, mine + s, mine[s]) != mine + s) continue;
      const int list = static_cast<int>(mine[s]);
      const int* keys = lists.keys.data() + lists.begins[list];
      const int64_t size = std::lower_bound(keys, keys + lists.size(list), static_cast<int>(seen_[0])) - keys;
      const uint8_t* panels = panels_ + lists.packed_begins[list] / kPanel * bytes_;
      for (int64_t chunk = 0; chunk < size; chunk += kRuleChunk) scan_list(panels, keys, chunk, size);
    }
  }

  void scan_list(const uint8_t* panels, const int* keys, int64_t chunk, int64_t size) {
    const int64_t stop = std::min<int64_t>(size, chunk + kRuleChunk), whole = (stop - chunk) / kScreenPanel;
    const uint8_t* panel = panels + chunk / kScreenPanel * bytes_;
    products<1>(rounded_, pairs_, panel, whole, products_, kRuleChunk, tops_);
    if (chunk + whole * kScreenPanel < stop) {
      int16_t top = kHidden;
      int16_t* last = products_ + whole * kScreenPanel;
      products<1>(rounded_, pairs_, panel + whole * bytes_, 1, last, kRuleChunk, &top);
      tops_[0] = std::max(tops_[0], hide(last, stop - chunk - whole * kScreenPanel));
    }
    const int16_t least = limit(0);
    const int16_t* found = products_;
    for (int64_t j = chunk; j < stop; j += 2 * kScreenPanel, found += 2 * kScreenPanel)
      passed_[0].template append<true>(two_above(found, least, stop - j), found, 0, keys + j);
  }

  // Look at what passed with the best that any key turned out to have.
  void look(int r) {
    share_.plan.pieces[index_].reached[first_row_ + start_ + r] = seen_[r] ? limit(r) + 1 : kNever;
    if (rises(r)) passed_[r].keep_above(limit(r));
    rows_.look_at(index_, start_ + r, passed_[r].keys, passed_[r].count);
  }
};

// Squared distances of points against a limit of the head.
template <int Depth>
class NearWalk {
 public:
  NearWalk(const Share& share, Rows<Depth>& rows, size_t index)
      : share_(share), rows_(rows), index_(index), piece_(*share.plan.pieces[index].piece),
        panels_(share.packed.points(index, share.b, share.h)) {}

  void run() {
    for (int64_t r = 0; r < share_.size; ++r) look(r);
  }

 private:
  const Share& share_;
  Rows<Depth>& rows_;
  const size_t index_;
  const Piece& piece_;
  const float* panels_;

  void look(int64_t r) {
    const int64_t seen = share_.limit(r), rank = piece_.rank;
    const float* query = piece_.query_points + piece_.token(share_.b, share_.h, share_.problem.n, share_.first + r);
    const Floats radius = spread(piece_.radii[share_.h]);
    int* listed = Scratch::mine().listed.get(seen + kSlack);
    int count = 0;
    for (int64_t j = 0; j < seen; j += kPanel) {
      const float* panel = panels_ + j * rank;
      Floats left = zeros(), right = zeros();
      for (int64_t d = 0; d < rank; ++d) {
        const Floats number = spread(query[d]);
        const Floats one = number - load(panel + d * kPanel), two = number - load(panel + d * kPanel + kLanes);
        left = left + one * one;
        right = right + two * two;
      }
      unsigned marks = bits_up_to(left, radius) | bits_up_to(right, radius) << kLanes;
      if (seen - j < kPanel) marks &= (1u << (seen - j)) - 1;
      for (; marks; marks &= marks - 1) listed[count++] = static_cast<int>(j) + __builtin_ctz(marks);
    }
    rows_.look_at(index_, r, listed, count);
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
