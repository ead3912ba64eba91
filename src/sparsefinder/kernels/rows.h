// The queries of one task, and the keys that each of them has found so far. Groups of queries pass over panels of keys,
// or a query looks at listed keys; what may still get weight stays in the query's list, every pair once.
#pragma once

#include "finish.h"
#include "packed.h"
#include "tile.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kDenseRows = 48;  // 8 tiles: a panel is read from the first-level cache for all of them

// A thread's own memory.
struct Scratch {
  Buffer<Group> group;
  Buffer<float> queries, gathered, panels, values, transposed;
  Buffer<int> keys, listed, members, places;
  Buffer<int32_t> rounded;
  Buffer<Candidates> rows;
  void trim() {
    values.trim();
    keys.trim();
  }
  static Scratch& mine() {
    static thread_local Scratch scratch;
    return scratch;
  }
};

template <int Depth>
class Rows {
 public:
  bool nonfinite() const { return nonfinite_; }
  int64_t computed() const { return computed_; }

 protected:
  const Problem& problem_;
  const Plan& plan_;
  const Packed& packed_;
  Scratch& scratch_;
  int64_t b_, h_, first_, size_, depth_;
  Exponent exponent_;
  float factor_;
  Group* group_;
  float* queries_ = nullptr;  // all of them, scaled, if `scale_all` was called
  Candidates* rows_;
  bool nonfinite_ = false;
  int64_t computed_ = 0;  // scores in float32

  Rows(const Problem& problem, const Plan& plan, const Packed& packed, int64_t b, int64_t h, int64_t first,
       int64_t size)
      : problem_(problem), plan_(plan), packed_(packed), scratch_(Scratch::mine()), b_(b), h_(h), first_(first),
        size_(size), depth_(problem.depth), exponent_(exponent(problem.alpha[h])),
        factor_(static_cast<float>(problem.scale * (problem.alpha[h] - 1.0))) {
    group_ = scratch_.group.get(1);
    rows_ = scratch_.rows.get(size);
  }

  KERNEL_INLINE int64_t limit(int64_t r) const { return problem_.limit(b_, first_ + r); }

  void scale_all() {
    queries_ = scratch_.queries.get(size_ * depth_);
    for (int64_t r = 0; r < size_; ++r) scale(r, queries_ + r * depth_);
  }

  // Empty lists for all queries, with room for whatever they may find.
  void make_lists() {
    int64_t total = 0;
    // Pairs that another piece has too stay in the list until they are recognised, at the latest after a chunk.
    const int64_t extra = kSlack + (problem_.pieces.size() + problem_.screened > 1 || repeats() ? kChunk : 0);
    for (int64_t r = 0; r < size_; ++r) {
      const int64_t seen = limit(r), most = problem_.screened ? seen : plan_.most_keys(b_, h_, first_ + r);
      rows_[r].last = static_cast<int>((most < seen ? most : seen) + extra);
      total += rows_[r].last;
    }
    float* values = scratch_.values.get(total);
    int* keys = scratch_.keys.get(total);
    for (int64_t r = 0; r < size_; ++r) {
      const int room = rows_[r].last;
      rows_[r] = {values, keys, 0, 0, kNothing};
      values += room;
      keys += room;
    }
  }

  // Empty lists for some queries only. What was lent before is taken back: so few lists stay in the cache.
  void lend_lists(const int* members, int count, int room) {
    float* values = scratch_.values.get(count * (room + kSlack));
    int* keys = scratch_.keys.get(count * (room + kSlack));
    for (int r = 0; r < count; ++r)
      rows_[members[r]] = {values + r * (room + kSlack), keys + r * (room + kSlack), 0, 0, kNothing};
  }

  template <bool Far = true>
  void finish_rows(const int* order, int64_t count) {
    const Sums sums(problem_, b_, h_, first_, rows_);
    conclude<Far>(rows_, order, count, exponent_, scratch_.transposed.get(kTransposed * kLanes), sums);
  }

  // Neighbouring queries as the group.
  void take(int64_t start, int64_t count) {
    group_->size = static_cast<int>(count);
    group_->queries = queries_ + start * depth_;
    for (int64_t r = 0; r < count; ++r) group_->rows[r] = static_cast<int>(start + r);
  }
  // Any queries as the group, read where they lie.
  void gather(const int* members, int count) {
    group_->size = count;
    float* gathered = scratch_.gathered.get(kGroupRows * depth_);
    group_->queries = gathered;
    for (int r = 0; r < count; ++r) {
      if (r + kAhead < count) prefetch(problem_.q.at(b_, h_, first_ + members[r + kAhead]), depth_);
      group_->rows[r] = members[r];
      scale(members[r], gathered + r * depth_);
    }
  }

  // A member of the group sees those of the listed keys, in ascending order, that its limit allows.
  void see_list(int r, const int* keys, int count) {
    const int64_t seen = limit(group_->rows[r]);
    group_->low[r] = 0;
    group_->high[r] = count == 0 || keys[count - 1] < seen
                          ? count
                          : static_cast<int>(std::lower_bound(keys, keys + count, static_cast<int>(seen)) - keys);
  }

  // Let the group pass over the panels that its members may see. `ids` are the keys of the columns; null if they are
  // the columns themselves.
  void pass(size_t index, const float* panels, const int* ids, int bucket) {
    int first = group_->low[0], last = 0;
    for (int r = 0; r < group_->size; ++r) {
      if (group_->low[r] >= group_->high[r]) {
        // Sees nothing here, and must not widen what the others look at.
        group_->high[r] = group_->low[r];
        continue;
      }
      computed_ += group_->high[r] - group_->low[r];
      first = last == 0 || group_->low[r] < first ? group_->low[r] : first;
      last = group_->high[r] > last ? group_->high[r] : last;
    }
    if (last == 0) return;
    first = first / kPanel * kPanel;
    last = (last + kPanel - 1) / kPanel * kPanel;
    for (int start = first, stop; start < last; start = stop) {
      stop = last - start < kChunk ? last : start + kChunk;
      bool some_known = false;
      for (int r = 0; r < group_->size; ++r) {
        group_->bounds[r] = rows_[group_->rows[r]].bound;
        some_known = some_known || group_->bounds[r] > kNothing;
        store(group_->tops + r * kLanes, spread(kNothing));
      }
      score_chunk<Depth>(*group_, depth_, panels, start, stop, some_known);
      ids ? collect(index, start, stop - start, Listed{ids}, bucket)
          : collect(index, start, stop - start, InPlace{}, bucket);
    }
  }

  // The scores of one query with listed keys, straight from where the keys lie.
  void look_at(size_t index, int64_t r, int* listed, int count) {
    if (count == 0) return;
    computed_ += count;
    Candidates& row = rows_[r];
    const int before = row.count;
    const float* query = queries_ + r * depth_;
    const float* keys = problem_.k.at(b_, problem_.key_head(h_), 0);
    for (int j = count; j < ((count + 7) & ~7); ++j) listed[j] = listed[count - 1];
    Floats top = spread(kNothing), poison = zeros();
    const Floats bound = spread(row.bound);
    for (int j = 0; j < count; j += kLanes) {
      const float* eight[8];
      for (int i = 0; i < 8; ++i) eight[i] = keys + listed[j + i] * problem_.k.row;
      const Floats scores = dots(query, eight, Depth ? Depth : depth_);
      poison = poisoned(poison, scores);
      top = larger(top, scores);
      unsigned mask = bits_above(scores, bound);
      if (count - j < 8) mask &= (1u << (count - j)) - 1;
      store(row.values + row.count, to_front(scores, mask));
      store(row.keys + row.count, to_front(load(listed + j), mask));
      row.count += __builtin_popcount(mask);
    }
    nonfinite_ = nonfinite_ || any_nonfinite(poison);
    raise(row, largest(top));
    drop_taken(index, row, r, before, -1);
    if (grown(row)) refresh(row, exponent_.whole);
  }

 private:
  bool repeats() const {
    for (const PiecePlan& piece : plan_.pieces)
      if (piece.repeats) return true;
    return false;
  }

  // One query, scaled. Those that see nothing may hold anything.
  void scale(int64_t r, float* dst) {
    if (limit(r) > 0)
      nonfinite_ = scale_query(problem_.q.at(b_, h_, first_ + r), depth_, factor_, dst) || nonfinite_;
    else
      std::memset(dst, 0, depth_ * sizeof(float));
  }

  // Take over from the scores of a chunk what may get weight.
  template <class Names>
  void collect(size_t index, int start, int length, Names names, int bucket) {
    Candidates* many[kGroupRows];
    int number = 0;
    for (int r = 0; r < group_->size; ++r) {
      Candidates& row = rows_[group_->rows[r]];
      const float top = largest(load(group_->tops + r * kLanes));
      if (top <= row.bound) continue;
      nonfinite_ = nonfinite_ || !(top <= 3.4e38f);
      const int before = row.count;
      const float* scores = group_->scores + r * kScoreStride;
      const bool marked = row.bound > kNothing;
      raise(row, top);
      if (marked)
        append_marked(row, scores, group_->marks + r * kMarks, length, start, names);
      else
        append_above(row, scores, length, start, names);
      drop_taken(index, row, group_->rows[r], before, bucket);
      if (grown(row)) many[number++] = &row;
    }
    refresh_all(many, number, exponent_.whole);
  }

  // Of the candidates from number `before` on, drop those that came in another way already: every pair counts once.
  void drop_taken(size_t index, Candidates& row, int64_t r, int before, int bucket) {
    const bool repeats = index < plan_.pieces.size() && plan_.pieces[index].repeats;
    if (index == 0 && !repeats) return;
    int kept = before;
    for (int j = before; j < row.count; ++j) {
      const int key = row.keys[j];
      if (plan_.taken_before(index, b_, h_, first_ + r, key)) continue;
      if (repeats && !plan_.first_shared(*plan_.pieces[index].piece, b_, h_, first_ + r, key, bucket)) continue;
      row.values[kept] = row.values[j];
      row.keys[kept++] = key;
    }
    row.count = kept;
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
