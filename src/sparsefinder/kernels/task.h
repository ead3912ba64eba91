// A run of neighbouring queries of one head, from candidates to results. The pieces of the graph are walked one after
// the other, each as groups of queries that pass over panels of keys together. Dense attention is the graph of one
// piece without limits.
#pragma once

#include <atomic>

#include "rows.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Keys looked at in float32 before the screen, so that rows have a threshold worth comparing with.
constexpr int kScreenFirst = 256;
// A head in which more than this share of a first chunk passes the screen is better done without it.
constexpr double kScreenPays = 0.25;

template <int Depth>
class Task : public Rows<Depth> {
 public:
  Task(const Problem& problem, const Plan& plan, const Packed& packed, int64_t b, int64_t h, int64_t first,
       int64_t size, Support* support)
      : Rows<Depth>(problem, plan, packed, b, h, first, size), support_(support), alone_(plan.one_bucket()),
        lent_(alone_ && !support) {
    bool buckets_only = !problem.screened;
    for (const Piece& piece : problem.pieces) buckets_only = buckets_only && piece.kind == Kind::buckets;
    if (!buckets_only) scale_all();
    if (!lent_) make_lists();
  }

  // `pays` is what a head's tasks have found out about the screen: 0 nothing yet, 1 that it pays, -1 that it does not.
  void run(int64_t task, std::atomic<int>& pays) {
    for (size_t index = 0; index < plan_.pieces.size(); ++index) walk(index);
    if (problem_.screened && !packed_.nonfinite()) walk_rest(pays);
    if (!alone_) finish_rows(nullptr, size_);
    if (support_) keep(problem_, b_, h_, first_, size_, rows_, *support_, task);
    scratch_.trim();
  }

 private:
  using Base = Rows<Depth>;
  using Base::b_, Base::h_, Base::first_, Base::size_, Base::depth_, Base::problem_, Base::plan_, Base::packed_;
  using Base::computed_, Base::group_, Base::nonfinite_, Base::queries_, Base::rows_, Base::scratch_;
  using Base::finish_rows, Base::gather, Base::lend_lists, Base::limit, Base::look_at, Base::make_lists, Base::pass;
  using Base::scale_all, Base::see_list, Base::take;

  Support* support_;
  bool alone_;  // a query is done when its one bucket is: its keys' values are then in the cache
  bool lent_;   // and its list is not needed any more

  void walk(size_t index) {
    const Piece& piece = *plan_.pieces[index].piece;
    switch (piece.kind) {
      case Kind::band:
        return walk_band(index, piece);
      case Kind::columns:
        return walk_columns(index);
      case Kind::rows:
        return walk_rows(index, piece);
      case Kind::blocks:
        return by_panels(piece) ? walk_blocks(index, piece) : walk_pairs(index, piece);
      case Kind::buckets:
        return walk_buckets(index, piece);
    }
  }

  void walk_band(size_t index, const Piece& piece) {
    // A narrow band is walked in small groups, whose keys differ little.
    const int64_t width = piece.upper - piece.lower + 1;
    const int64_t step = width >= 2 * kDenseRows ? kDenseRows : width / 2 / kTileRows * kTileRows + kTileRows;
    for (int64_t start = 0; start < size_; start += step) {
      take(start, size_ - start < step ? size_ - start : step);
      for (int r = 0; r < group_->size; ++r) {
        const int64_t position = problem_.position(b_, first_ + start + r), seen = limit(start + r);
        const int64_t low = position + piece.lower, high = position + piece.upper + 1;
        group_->low[r] = static_cast<int>(low < 0 ? 0 : low < seen ? low : seen);
        group_->high[r] = static_cast<int>(high < 0 ? 0 : high < seen ? high : seen);
      }
      pass(index, packed_.by_position(b_, h_), nullptr, -1);
    }
  }

  void walk_columns(size_t index) {
    const Lists& lists = plan_.pieces[index].lists(b_, h_);
    for (int64_t start = 0; start < size_; start += kDenseRows) {
      take(start, size_ - start < kDenseRows ? size_ - start : kDenseRows);
      for (int r = 0; r < group_->size; ++r) see_list(r, lists.keys.data(), lists.size(0));
      pass(index, packed_.by_list(index, b_, h_, 0), lists.keys.data(), -1);
    }
  }

  void walk_rows(size_t index, const Piece& piece) {
    const uint8_t* chosen = piece.chosen + piece.table(b_, h_) * problem_.n + first_;
    int members[kDenseRows], count = 0;
    for (int64_t r = 0; r <= size_; ++r) {
      if (r < size_ && chosen[r]) members[count++] = static_cast<int>(r);
      if (count == 0 || (count < kDenseRows && r < size_)) continue;
      gather(members, count);
      for (int g = 0; g < count; ++g) {
        group_->low[g] = 0;
        group_->high[g] = static_cast<int>(limit(members[g]));
      }
      pass(index, packed_.by_position(b_, h_), nullptr, -1);
      count = 0;
    }
  }

  void walk_blocks(size_t index, const Piece& piece) {
    for (int64_t start = 0; start < size_;) {
      const int64_t block = (first_ + start) / piece.query_size;
      int64_t count = (block + 1) * piece.query_size - first_ - start;
      if (count > size_ - start) count = size_ - start;
      if (count > kGroupRows) count = kDenseRows;
      take(start, count);
      const int64_t row = piece.table(b_, h_) * piece.query_blocks + block;
      for (int64_t entry = piece.offsets[row]; entry < piece.offsets[row + 1];) {
        const int64_t low = piece.blocks[entry] * piece.key_size;
        int64_t high = low + piece.key_size;
        // Adjacent blocks are one stretch of keys.
        for (++entry; entry < piece.offsets[row + 1] && piece.blocks[entry] * piece.key_size == high; ++entry)
          high += piece.key_size;
        for (int r = 0; r < group_->size; ++r) {
          const int64_t seen = limit(start + r);
          group_->low[r] = static_cast<int>(low < seen ? low : seen);
          group_->high[r] = static_cast<int>(high < seen ? high : seen);
        }
        pass(index, packed_.by_position(b_, h_), nullptr, -1);
      }
      start += count;
    }
  }

  // Key by key: blocks too small for a tile, explicit pairs above all.
  void walk_pairs(size_t index, const Piece& piece) {
    for (int64_t r = 0; r < size_; ++r) {
      const int64_t row = piece.table(b_, h_) * piece.query_blocks + (first_ + r) / piece.query_size, seen = limit(r);
      int* listed = scratch_.listed.get(kChunk + kSlack);
      int count = 0;
      for (int64_t entry = piece.offsets[row]; entry < piece.offsets[row + 1]; ++entry) {
        const int64_t low = piece.blocks[entry] * piece.key_size;
        for (int64_t j = low; j < low + piece.key_size && j < seen; ++j) {
          listed[count++] = static_cast<int>(j);
          if (count == kChunk) {
            look_at(index, r, listed, count);
            count = 0;
          }
        }
      }
      look_at(index, r, listed, count);
    }
  }

  void walk_buckets(size_t index, const Piece& piece) {
    const Lists& lists = plan_.pieces[index].lists(b_, h_);
    const int buckets = lists.count();
    const int64_t slots = piece.query_slots;
    const int64_t* mine = piece.query_buckets + (piece.table(b_, h_) * problem_.n + first_) * slots;
    // The queries of this task, sorted by bucket.
    int* begins = scratch_.places.get(2 * buckets + 2);
    int* next = begins + buckets + 1;
    int* members = scratch_.members.get(size_ * slots + 1);
    std::memset(begins, 0, (buckets + 1) * sizeof(int));
    const auto each = [&](const auto& visit) {
      for (int64_t r = 0; r < size_; ++r)
        for (int64_t s = 0; s < slots; ++s) {
          const int64_t bucket = mine[r * slots + s];
          if (bucket < 0 || bucket >= buckets) continue;
          bool again = false;
          for (int64_t earlier = 0; earlier < s; ++earlier) again |= mine[r * slots + earlier] == bucket;
          if (!again) visit(r, bucket);
        }
    };
    each([&](int64_t, int64_t bucket) { ++begins[bucket + 1]; });
    int unassigned = 0;
    for (int c = 0; c < buckets; ++c) begins[c + 1] += begins[c];
    std::memcpy(next, begins, (buckets + 1) * sizeof(int));
    each([&](int64_t r, int64_t bucket) { members[next[bucket]++] = static_cast<int>(r); });
    if (alone_)
      for (int64_t r = 0; r < size_; ++r)
        if (mine[r] < 0 || mine[r] >= buckets) members[begins[buckets] + unassigned++] = static_cast<int>(r);
    for (int c = 0; c < buckets; ++c) {
      const int queries = begins[c + 1] - begins[c];
      // Even groups of whole tiles.
      const int groups = (queries + kDenseRows - 1) / kDenseRows;
      const int step = groups ? ((queries + groups - 1) / groups + kTileRows - 1) / kTileRows * kTileRows : 0;
      const int* keys = lists.keys.data() + lists.begins[c];
      const float* panels = nullptr;
      for (int start = 0; start < queries; start += step) {
        const int* together = members + begins[c] + start;
        const int count = queries - start < step ? queries - start : step;
        if (lent_) lend_lists(together, count, lists.size(c));
        if (lists.size(c) > 0) {
          if (start == 0) panels = packed_.lists_too() ? packed_.by_list(index, b_, h_, c) : pack(lists, c);
          gather(together, count);
          for (int r = 0; r < count; ++r) see_list(r, keys, lists.size(c));
          // All queries of the bucket will sum the same values.
          for (int j = 0; alone_ && start == 0 && j < lists.size(c); ++j)
            prefetch(problem_.v.at(b_, problem_.key_head(h_), keys[j]), problem_.width);
          pass(index, panels, keys, c);
        }
        if (alone_) this->template finish_rows<false>(together, count);
      }
    }
    if (lent_) lend_lists(members + begins[buckets], unassigned, 0);
    if (alone_) finish_rows(members + begins[buckets], unassigned);
  }

  // A bucket's keys, packed for this task alone: they stay in the cache.
  const float* pack(const Lists& lists, int bucket) {
    float* panels = scratch_.panels.get((lists.size(bucket) + kPanel) * depth_);
    nonfinite_ = pack_list(problem_, b_, h_, lists, bucket, panels) || nonfinite_;
    return panels;
  }

  // All visible keys, as if they were a last piece: the first of them in float32, the others if they pass the screen.
  void walk_rest(std::atomic<int>& pays) {
    const size_t index = plan_.pieces.size();
    for (int64_t start = 0; start < size_; start += kDenseRows) {
      const int64_t count = size_ - start < kDenseRows ? size_ - start : kDenseRows;
      int64_t last = 0;
      for (int64_t r = 0; r < count; ++r) last = limit(start + r) > last ? limit(start + r) : last;
      const int64_t first = kScreenFirst < last ? kScreenFirst : last;
      walk_columns_between(index, start, count, 0, first);
      const int64_t done = pays < 0 ? first : screen(index, start, count, first, last, pays);
      walk_columns_between(index, start, count, done, last);
    }
  }

  void walk_columns_between(size_t index, int64_t start, int64_t count, int64_t first, int64_t last) {
    if (first >= last) return;
    take(start, count);
    for (int r = 0; r < count; ++r) {
      const int64_t seen = limit(start + r);
      group_->low[r] = static_cast<int>(first < seen ? first : seen);
      group_->high[r] = static_cast<int>(last < seen ? last : seen);
    }
    pass(index, packed_.by_position(b_, h_), nullptr, -1);
  }

  // Look at the keys first … last - 1 that pass the screen. Returns how far it got before it turned out not to pay.
  int64_t screen(size_t index, int64_t start, int64_t count, int64_t first, int64_t last, std::atomic<int>& pays) {
    const int64_t pairs = depth_ / 2, padded = (count + kScreenRows - 1) / kScreenRows * kScreenRows;
    int32_t* rounded = scratch_.rounded.get(kGroupRows * pairs);
    ScreenQuery queries[kGroupRows];
    int16_t thresholds[kGroupRows];
    const uint8_t* panels = packed_.screen(b_, h_);
    for (int64_t r = 0; r < padded; ++r) {
      thresholds[r] = 32767;
      if (r < count && limit(start + r) > first)
        queries[r] =
            round_query(queries_ + (start + r) * depth_, depth_, packed_.screen_keys(b_, h_), rounded + r * pairs);
      else
        std::memset(rounded + r * pairs, 0, pairs * sizeof(int32_t));
    }
    constexpr int kWords = kChunk / kScreenPanel;
    uint32_t marks[kGroupRows * kWords];
    for (int64_t chunk = first; chunk < last; chunk += kChunk) {
      const int64_t stop = last - chunk < kChunk ? last : chunk + kChunk;
      for (int64_t r = 0; r < count; ++r)
        if (limit(start + r) > chunk) thresholds[r] = screen_threshold(rows_[start + r].bound, queries[r]);
      for (int64_t j = chunk; j < stop; j += kScreenPanel)
        for (int64_t r = 0; r < padded; r += kScreenRows)
          screen_tile(rounded + r * pairs, pairs, panels + j / kScreenPanel * screen_panel_bytes(depth_),
                      thresholds + r, marks + r * kWords + (j - chunk) / kScreenPanel, kWords);
      const int64_t before = computed_;
      int64_t possible = 0;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t seen = limit(start + r) < stop ? limit(start + r) : stop;
        if (seen <= chunk) continue;
        possible += seen - chunk;
        look_at_marked(index, start + r, chunk, seen, marks + r * kWords);
      }
      if (pays == 0 && possible > 0) {
        pays = static_cast<double>(computed_ - before) < kScreenPays * static_cast<double>(possible) ? 1 : -1;
        if (pays < 0) return stop;
      }
    }
    return last;
  }

  void look_at_marked(size_t index, int64_t r, int64_t chunk, int64_t seen, const uint32_t* marks) {
    int* listed = scratch_.listed.get(kChunk + kSlack);
    int count = 0;
    for (int64_t j = chunk; j < seen; j += kScreenPanel) {
      uint32_t word = marks[(j - chunk) / kScreenPanel];
      if (seen - j < kScreenPanel) word &= (uint32_t{1} << (seen - j)) - 1;
      for (; word; word &= word - 1) listed[count++] = static_cast<int>(j) + __builtin_ctz(word);
    }
    look_at(index, r, listed, count);
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
