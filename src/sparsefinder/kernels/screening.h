// All keys that a task's queries may see, as if they were a last piece: products of 8 bits prove for most of them that
// they get no weight, and only the others are looked at in float32.
#pragma once

#include "rows.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Queries that see fewer keys than this look at all of them.
constexpr int64_t kFewKeys = 256;
// A head in which more than this share of the pairs passes the screen is better done without it.
constexpr double kScreenPays = 0.13;
// How far below the best of its row a score is looked at first, of the 1 in which weights can be. From these few
// follows a threshold that is nearly the row's own, however flat the row: the others are compared with that.
constexpr float kFirst = 0.25f;

static_assert(kCodeChunk <= kChunk, "lists have room for so many pairs that another piece has too");

template <int Depth>
class Screening {
 public:
  // `index` is what the keys count as: a piece of the graph, or what comes after them.
  Screening(const Share& share, Rows<Depth>& rows, size_t index)
      : share_(share), rows_(rows), index_(index), keys_(share.packed.screen_keys(share.b, share.h)) {
    Scratch& scratch = Scratch::mine();
    codes_.pairs = share.problem.depth / 2;
    codes_.queries = scratch.rounded.get(kCodeRows * codes_.pairs);
    codes_.products = scratch.products.get(kCodeRows * kCodeChunk);
    rounded_ = scratch.codes.get(share.problem.depth);
    passed_.keys = scratch.listed.get(kCodeChunk + kSlack);
  }

  void run() {
    for (int64_t count; start_ < share_.size; start_ += count) {
      count = std::min<int64_t>(share_.size - start_, kCodeRows);
      int64_t last = 0;
      for (int64_t r = 0; r < count; ++r) last = std::max(last, share_.limit(start_ + r));
      last < kFewKeys ? look_at_all(count, last) : screen(count);
    }
  }

 private:
  const Share& share_;
  Rows<Depth>& rows_;
  const size_t index_;
  const ScreenKeys& keys_;
  int64_t start_ = 0;  // of the queries that are looked at together
  CodeRows codes_;
  int8_t* rounded_;
  ScreenQuery queries_[kCodeRows];
  int16_t tops_[kCodeRows];  // the best product of each query so far
  Passed passed_;

  void look_at_all(int64_t count, int64_t last) {
    rows_.take(start_, count);
    for (int r = 0; r < count; ++r) rows_.see(r, 0, last);
    rows_.pass(index_);
  }

  void screen(int64_t count) {
    codes_.count = static_cast<int>(count);
    for (int r = 0; r < count; ++r) {
      codes_.seen[r] = share_.limit(start_ + r);
      tops_[r] = kHidden;
      queries_[r] = round_query(rows_.query(start_ + r), share_.problem.depth, keys_, rounded_,
                                codes_.queries + r * codes_.pairs);
    }
    codes_.clear_rest();
    const uint8_t* panels = share_.packed.screen(share_.b, share_.h);
    each_chunk(share_, start_, codes_, [&](int64_t chunk, int64_t stop) {
      codes_.multiply(panels + chunk / kScreenPanel * screen_panel_bytes(share_.problem.depth), chunk, stop);
      for (int r = 0; r < codes_.count; ++r) look_at_row(r, chunk, std::min(stop, codes_.seen[r]));
    });
  }

  void look_at_row(int r, int64_t chunk, int64_t stop) {
    const int16_t top = codes_.tops[r];
    int16_t least = screen_threshold(rows_.bound(start_ + r), queries_[r]);
    if (stop <= chunk || top <= least) return;
    int16_t highest = 32767;
    if (top > tops_[r]) {
      tops_[r] = top;
      const float first = std::floor(static_cast<float>(top) - kFirst * queries_[r].scale) - 1.0f;
      highest = std::max(least, static_cast<int16_t>(std::max(first, -32768.0f)));
      look_between(r, chunk, stop, highest, 32767);
      rows_.improve(start_ + r);
      least = screen_threshold(rows_.bound(start_ + r), queries_[r]);
    }
    if (least < highest) look_between(r, chunk, stop, least, highest);
  }

  // Look at the keys whose product is above `least`, up to `most`.
  void look_between(int r, int64_t chunk, int64_t stop, int16_t least, int16_t most) {
    const int16_t* products = codes_.of(r);
    passed_.count = 0;
    for (int64_t j = chunk; j < stop; j += 2 * kScreenPanel, products += 2 * kScreenPanel) {
      uint64_t marks = two_above(products, least, stop - j);
      if (marks && most < 32767) marks &= ~two_above(products, most, stop - j);
      passed_.template append<false>(marks, products, static_cast<int>(j), nullptr);
    }
    rows_.look_at(index_, start_ + r, passed_.keys, passed_.count);
  }
};

// Whether the screen pays in a head: what it lets pass of a few queries in the middle and of the last ones, which see
// the most. Found out before anything else, so that the same call always gives the same result.
template <int Depth>
bool screen_pays(const Problem& problem, const Plan& plan, const Packed& packed, int64_t b, int64_t h) {
  const int64_t real = problem.query_lengths ? std::min(problem.query_lengths[b], problem.n) : problem.n;
  int64_t possible = 0, computed = 0;
  for (const int64_t end : {real / 2, real}) {
    const int64_t first = std::max<int64_t>(end - kCodeRows, 0);
    if (first >= end) continue;
    const Share share{problem, plan, packed, b, h, first, end - first, true};
    Rows<Depth> rows(share);
    rows.scale_all();
    rows.make_lists();
    Screening<Depth>(share, rows, 0).run();
    computed += rows.computed();
    for (int64_t r = 0; r < share.size; ++r) possible += share.limit(r);
  }
  return static_cast<double>(computed) < kScreenPays * static_cast<double>(possible);
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
