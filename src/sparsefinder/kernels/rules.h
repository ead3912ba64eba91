// Pieces that are rules: which pairs are in follows from a few numbers of the query and of the key, which are compared
// here, where the pairs are used. What passes is looked at in float32; no list of pairs is ever made.
#pragma once

#include "codes.h"
#include "rows.h"
#include "screening.h"
#include "sketching.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int32_t kNever = 1 << 20;  // no product reaches it
constexpr int32_t kMost = 1 << 30;   // a limit that nothing exceeds

// Products of codes that are among the best of their row.
template <int Depth>
class RuleWalk {
 public:
  RuleWalk(const Share& share, Rows<Depth>& rows, size_t index)
      : share_(share), rows_(rows), index_(index), piece_(*share.plan.pieces[index].piece),
        rank_(piece_.codes(share.h)), bytes_(screen_panel_bytes(rank_)),
        panels_(share.packed.codes(index, share.b, share.h)),
        first_row_((share.b * share.problem.heads + share.h) * share.problem.n + share.first) {}

  void run() {
    if (rank_ == 0 && share_.screened && !piece_.query_buckets && !piece_.limits) return screen_all();
    const int together = piece_.query_buckets ? 1 : rank_ == 0 ? kDenseRows : kCodeRows;
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
  const int64_t rank_, bytes_;
  const uint8_t* panels_;
  const int64_t first_row_;
  int64_t start_ = 0;
  int count_ = 0;   // of the queries that are looked at together
  CodeRows codes_;  // no key may be seen by a query that none could pass
  int16_t tops_[kCodeRows];
  int32_t given_[kCodeRows];     // their limits: what may be lacking to all better ones, or what has to be reached
  int32_t reach_[kCodeRows];     // what a product has to reach: no less with every key that is seen
  int64_t compared_[kCodeRows];  // how many keys that is of
  Passed passed_[kCodeRows];
  double depth_ = 0.5;  // how far below the best the last row was looked at, of what its limit allowed

  // Before anything is compared with all better ones: it may not lack more to the best of them.
  void see_top(int r, int16_t top) {
    tops_[r] = std::max(tops_[r], top);
    if (piece_.relative) reach_[r] = std::max(reach_[r], tops_[r] - given_[r]);
  }
  // What a product has to exceed.
  int16_t limit(int r) const { return static_cast<int16_t>(std::clamp<int32_t>(reach_[r] - 1, kHidden, 32767)); }

  // Every pair is in, and most of them can be proven to get no weight.
  void screen_all() {
    std::fill_n(share_.plan.pieces[index_].reached.begin() + first_row_, share_.size, 0);
    Screening<Depth>(share_, rows_, index_).run();
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
    codes_.count = count_;
    codes_.pairs = rank_ / 2;
    codes_.queries = scratch.rounded.get(kCodeRows * (codes_.pairs + 1));
    piece_.query_codes ? take_codes() : make_codes();
    int64_t most = 0;
    for (int r = 0; r < count_; ++r) {
      codes_.seen[r] = piece_.relative && given_[r] < 0 ? 0 : share_.limit(start_ + r);
      most = std::max(most, codes_.seen[r]);
    }
    const int64_t room = most + kSlack;
    int* keys = scratch.listed.get(kCodeRows * room);
    int16_t* products = scratch.products.get(kCodeRows * (room + kCodeChunk));
    codes_.products = products;
    codes_.clear_rest();
    for (int r = 0; r < kCodeRows; ++r) {
      tops_[r] = kHidden;
      reach_[r] = piece_.relative ? -kMost : given_[r];
      compared_[r] = 0;
      passed_[r] = {keys + r * room, products + kCodeRows * kCodeChunk + r * room, 0};
    }
  }

  void take_codes() {
    const int8_t* codes =
        piece_.query_codes + piece_.token(share_.b, share_.h, share_.problem.n, share_.first + start_);
    for (int r = 0; r < count_; ++r) {
      spread_codes(codes + r * piece_.rank, rank_, codes_.queries + r * codes_.pairs);
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
        spread_codes(codes, rank_, codes_.queries + (r + i) * codes_.pairs);
        // A query that is not finite may see nothing; if it sees something, that is found out where it is scaled.
        const double below = std::isnan(unit) ? 0.0 : std::floor(unit * piece_.slack[share_.h]);
        given_[r + i] = static_cast<int32_t>(std::min(below, 1.0 * kMost));
      }
    }
  }

  // All keys by position.
  void scan() {
    each_chunk(share_, start_, codes_, [&](int64_t chunk, int64_t stop) {
      codes_.multiply(panels_ + chunk / kScreenPanel * bytes_, chunk, stop);
      for (int r = 0; r < count_; ++r) {
        see_top(r, codes_.tops[r]);
        if (codes_.tops[r] <= limit(r)) continue;
        const int64_t last = std::min(stop, codes_.seen[r]);
        piece_.relative ? compare(r, chunk, last) : pass<false>(r, chunk, last);
      }
    });
  }

  // Keys of a chunk, compared with each other and with all before them.
  void compare(int r, int64_t chunk, int64_t stop) {
    // A few that passed before say less than what is new: that by itself, first.
    if (compared_[r] < stop - chunk) {
      const int64_t padded = (stop - chunk + kScreenPanel - 1) / kScreenPanel * kScreenPanel;
      const int32_t guess = tops_[r] - static_cast<int32_t>(depth_ * given_[r]);
      reach_[r] = best_reach(codes_.of(r), padded, guess, reach_[r], given_[r]);
      depth_ = (tops_[r] - reach_[r]) / (given_[r] + 1.0);
    }
    compared_[r] += stop - chunk;
    if (!several(r)) return pass<false>(r, chunk, stop);
    const bool more = passed_[r].count > 0;
    pass<true>(r, chunk, stop);
    if (more) reach_[r] = passed_[r].reach(reach_[r], given_[r]);
  }
  // Whether a row is compared in parts, so that what passed may turn out to lack too much.
  bool several(int r) const { return piece_.query_buckets || codes_.seen[r] > kCodeChunk; }

  template <bool Products>
  void pass(int r, int64_t chunk, int64_t stop) {
    const int16_t least = limit(r);
    const int16_t* products = codes_.of(r);
    for (int64_t j = chunk; j < stop; j += 2 * kScreenPanel, products += 2 * kScreenPanel)
      passed_[r].template append<Products>(two_above(products, least, stop - j), products, static_cast<int>(j),
                                           nullptr);
  }

  // The keys of the query's buckets only, one query at a time.
  void scan_buckets() {
    const Lists& lists = share_.lists(index_);
    const int64_t row = share_.first + start_, slots = piece_.query_slots;
    const int64_t* mine = piece_.query_buckets + (piece_.table(share_.b, share_.h) * share_.problem.n + row) * slots;
    for (int64_t s = 0; s < slots; ++s) {
      if (mine[s] < 0 || mine[s] >= lists.count() || std::find(mine, mine + s, mine[s]) != mine + s) continue;
      const int list = static_cast<int>(mine[s]);
      const int* keys = lists.keys.data() + lists.begins[list];
      const int64_t size = std::lower_bound(keys, keys + lists.size(list), static_cast<int>(codes_.seen[0])) - keys;
      const uint8_t* panels = panels_ + lists.packed_begins[list] / kPanel * bytes_;
      for (int64_t chunk = 0; chunk < size; chunk += kCodeChunk) scan_list(panels, keys, chunk, size);
    }
  }

  void scan_list(const uint8_t* panels, const int* keys, int64_t chunk, int64_t size) {
    const int64_t stop = std::min<int64_t>(size, chunk + kCodeChunk), whole = (stop - chunk) / kScreenPanel;
    const uint8_t* panel = panels + chunk / kScreenPanel * bytes_;
    multiply_panels<1>(codes_.queries, codes_.pairs, panel, whole, codes_.products, kCodeChunk, tops_);
    if (chunk + whole * kScreenPanel < stop) {
      int16_t top = kHidden;
      int16_t* last = codes_.products + whole * kScreenPanel;
      multiply_panels<1>(codes_.queries, codes_.pairs, panel + whole * bytes_, 1, last, kCodeChunk, &top);
      tops_[0] = std::max(tops_[0], hide(last, stop - chunk - whole * kScreenPanel));
    }
    see_top(0, tops_[0]);
    const int16_t least = limit(0);
    const int16_t* found = codes_.products;
    for (int64_t j = chunk; j < stop; j += 2 * kScreenPanel, found += 2 * kScreenPanel)
      passed_[0].template append<true>(two_above(found, least, stop - j), found, 0, keys + j);
    if (piece_.relative) reach_[0] = passed_[0].reach(reach_[0], given_[0]);
  }

  // Look at what passed, once all better ones are known.
  void look(int r) {
    if (piece_.relative && several(r)) passed_[r].keep(reach_[r]);
    share_.plan.pieces[index_].reached[first_row_ + start_ + r] = codes_.seen[r] ? limit(r) + 1 : kNever;
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
