// All keys that a task's queries may see, as if they were a last piece: the first of them in float32, the others if
// they pass the screen.
#pragma once

#include <atomic>

#include "rows.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Keys looked at in float32 before the screen, so that rows have a threshold worth comparing with.
constexpr int64_t kScreenFirst = 256;
// A head in which more than this share of a first chunk passes the screen is better done without it.
constexpr double kScreenPays = 0.25;

template <int Depth>
class Screening {
 public:
  // `pays` is what a head's tasks have found out about the screen: 0 nothing yet, 1 that it pays, -1 that it does not.
  Screening(const Share& share, Rows<Depth>& rows, std::atomic<int>& pays)
      : share_(share), rows_(rows), pays_(pays), index_(share.plan.pieces.size()), pairs_(share.problem.depth / 2),
        rounded_(Scratch::mine().rounded.get(kGroupRows * pairs_)) {}

  void run() {
    for (start_ = 0; start_ < share_.size; start_ += kDenseRows) {
      count_ = std::min<int64_t>(share_.size - start_, kDenseRows);
      int64_t last = 0;
      for (int64_t r = 0; r < count_; ++r) last = std::max(last, limit(r));
      const int64_t first = std::min(kScreenFirst, last);
      look_at_all(0, first);
      const int64_t done = pays_ < 0 ? first : screen(first, last);
      look_at_all(done, last);
    }
  }

 private:
  static constexpr int kWords = kChunk / kScreenPanel;

  const Share& share_;
  Rows<Depth>& rows_;
  std::atomic<int>& pays_;
  const size_t index_;
  const int64_t pairs_;
  int64_t start_ = 0, count_ = 0;  // of the queries that are looked at together
  int32_t* rounded_;               // [count, pairs]
  ScreenQuery queries_[kGroupRows];
  int16_t thresholds_[kGroupRows];
  uint32_t marks_[kGroupRows * kWords];  // a bit for each key of a chunk that is to be looked at

  int64_t limit(int64_t r) const { return share_.limit(start_ + r); }
  int64_t padded() const { return (count_ + kScreenRows - 1) / kScreenRows * kScreenRows; }

  void look_at_all(int64_t first, int64_t last) {
    if (first >= last) return;
    rows_.take(start_, count_);
    for (int r = 0; r < count_; ++r) rows_.see(r, first, last);
    rows_.pass(index_);
  }

  // Look at the keys first … last - 1 that pass the screen. Returns how far it got before it turned out not to pay.
  int64_t screen(int64_t first, int64_t last) {
    round_queries(first);
    for (int64_t chunk = first; chunk < last; chunk += kChunk) {
      const int64_t stop = std::min<int64_t>(last, chunk + kChunk), before = rows_.computed();
      mark(chunk, stop);
      int64_t possible = 0;
      for (int64_t r = 0; r < count_; ++r) {
        const int64_t seen = std::min(limit(r), stop);
        if (seen <= chunk) continue;
        possible += seen - chunk;
        look_at_marked(r, chunk, seen);
      }
      if (pays_ == 0 && possible > 0) {
        const auto looked_at = static_cast<double>(rows_.computed() - before);
        pays_ = looked_at < kScreenPays * static_cast<double>(possible) ? 1 : -1;
        if (pays_ < 0) return stop;
      }
    }
    return last;
  }

  // Those that see no key from `first` on are zeros, which pass nothing.
  void round_queries(int64_t first) {
    const ScreenKeys& keys = share_.packed.screen_keys(share_.b, share_.h);
    for (int64_t r = 0; r < padded(); ++r) {
      thresholds_[r] = 32767;
      if (r < count_ && limit(r) > first)
        queries_[r] = round_query(rows_.query(start_ + r), share_.problem.depth, keys, rounded_ + r * pairs_);
      else
        std::memset(rounded_ + r * pairs_, 0, pairs_ * sizeof(int32_t));
    }
  }

  // Mark the keys chunk … stop - 1 that pass.
  void mark(int64_t chunk, int64_t stop) {
    for (int64_t r = 0; r < count_; ++r)
      if (limit(r) > chunk) thresholds_[r] = screen_threshold(rows_.bound(start_ + r), queries_[r]);
    const uint8_t* panels = share_.packed.screen(share_.b, share_.h);
    const int64_t bytes = screen_panel_bytes(share_.problem.depth), rows = padded();
    for (int64_t j = chunk; j < stop; j += kScreenPanel)
      for (int64_t r = 0; r < rows; r += kScreenRows)
        screen_tile(rounded_ + r * pairs_, pairs_, panels + j / kScreenPanel * bytes, thresholds_ + r,
                    marks_ + r * kWords + (j - chunk) / kScreenPanel, kWords);
  }

  void look_at_marked(int64_t r, int64_t chunk, int64_t seen) {
    const uint32_t* marks = marks_ + r * kWords;
    int* listed = Scratch::mine().listed.get(kChunk + kSlack);
    int count = 0;
    for (int64_t j = chunk; j < seen; j += kScreenPanel) {
      uint32_t word = marks[(j - chunk) / kScreenPanel];
      if (seen - j < kScreenPanel) word &= (uint32_t{1} << (seen - j)) - 1;
      for (; word; word &= word - 1) listed[count++] = static_cast<int>(j) + __builtin_ctz(word);
    }
    rows_.look_at(index_, start_ + r, listed, count);
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
