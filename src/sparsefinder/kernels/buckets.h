// A piece of buckets within a task: one bucket after the other, its queries pass over its keys together.
#pragma once

#include "rows.h"

namespace sparsefinder::KERNEL_NAMESPACE {

template <int Depth>
class BucketWalk {
 public:
  // `alone`: no query has anything but one bucket, and is done when that is: the values of its keys are then in the
  // cache. `lent`: its list is not needed any more.
  BucketWalk(const Share& share, Rows<Depth>& rows, size_t index, bool alone, bool lent)
      : share_(share), rows_(rows), index_(index), alone_(alone), lent_(lent), lists_(share.lists(index)),
        buckets_(lists_.count()), slots_(share.plan.pieces[index].piece->query_slots) {
    const Piece& piece = *share.plan.pieces[index].piece;
    mine_ = piece.query_buckets + (piece.table(share.b, share.h) * share.problem.n + share.first) * slots_;
  }

  void run() {
    sort_queries();
    for (int bucket = 0; bucket < buckets_; ++bucket) walk(bucket);
    if (alone_) finish_others();
  }

 private:
  const Share& share_;
  Rows<Depth>& rows_;
  const size_t index_;
  const bool alone_, lent_;
  const Lists& lists_;
  const int buckets_;
  const int64_t slots_;
  const int64_t* mine_;  // [size, slots]
  // The queries of bucket c are members_[begins_[c]] … members_[begins_[c + 1] - 1].
  int* begins_ = nullptr;
  int* members_ = nullptr;

  bool exists(int64_t bucket) const { return bucket >= 0 && bucket < buckets_; }

  // Visit every query with each of its buckets, once.
  template <class Visit>
  void each(const Visit& visit) const {
    for (int64_t r = 0; r < share_.size; ++r)
      for (int64_t s = 0; s < slots_; ++s) {
        const int64_t bucket = mine_[r * slots_ + s];
        if (!exists(bucket)) continue;
        bool again = false;
        for (int64_t earlier = 0; earlier < s; ++earlier) again |= mine_[r * slots_ + earlier] == bucket;
        if (!again) visit(r, bucket);
      }
  }

  void sort_queries() {
    Scratch& scratch = Scratch::mine();
    begins_ = scratch.places.get(2 * buckets_ + 2);
    members_ = scratch.members.get(share_.size * slots_ + 1);
    int* next = begins_ + buckets_ + 1;
    std::memset(begins_, 0, (buckets_ + 1) * sizeof(int));
    each([&](int64_t, int64_t bucket) { ++begins_[bucket + 1]; });
    for (int c = 0; c < buckets_; ++c) begins_[c + 1] += begins_[c];
    std::memcpy(next, begins_, (buckets_ + 1) * sizeof(int));
    each([&](int64_t r, int64_t bucket) { members_[next[bucket]++] = static_cast<int>(r); });
  }

  void walk(int bucket) {
    const int queries = begins_[bucket + 1] - begins_[bucket], size = lists_.size(bucket);
    if (queries == 0) return;
    // Even groups of whole tiles.
    const int groups = (queries + kDenseRows - 1) / kDenseRows;
    const int step = ((queries + groups - 1) / groups + kTileRows - 1) / kTileRows * kTileRows;
    const float* panels = size > 0 ? rows_.panels_of(index_, bucket) : nullptr;
    for (int start = 0; start < queries; start += step) {
      const int* together = members_ + begins_[bucket] + start;
      const int count = std::min(queries - start, step);
      if (lent_) rows_.lend_lists(together, count, size);
      if (size > 0) pass(bucket, panels, together, count, start == 0);
      if (alone_) rows_.template finish<false>(together, count);
    }
  }

  void pass(int bucket, const float* panels, const int* together, int count, bool first) {
    const int* keys = lists_.keys.data() + lists_.begins[bucket];
    const int size = lists_.size(bucket);
    rows_.gather(together, count);
    for (int r = 0; r < count; ++r) rows_.see_list(r, keys, size);
    // All queries of the bucket will sum the same values.
    for (int j = 0; alone_ && first && j < size; ++j) prefetch(share_.v(keys[j]), share_.problem.width);
    rows_.pass(index_, panels, keys, bucket);
  }

  // Queries that are in no bucket have no keys, and results of zeros.
  void finish_others() {
    int* others = members_ + begins_[buckets_];
    int count = 0;
    for (int64_t r = 0; r < share_.size; ++r)
      if (!exists(mine_[r])) others[count++] = static_cast<int>(r);
    if (lent_) rows_.lend_lists(others, count, 0);
    rows_.finish(others, count);
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
