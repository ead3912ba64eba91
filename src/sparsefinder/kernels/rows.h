// The queries of one task, and the keys that each of them has found so far. Groups of queries pass over panels of keys,
// or a query looks at listed keys; what may still get weight stays in the query's list, every pair once.
#pragma once

#include "finish.h"
#include "packed.h"
#include "passed.h"
#include "tile.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kDenseRows = 48;  // 8 tiles: a panel is read from the first-level cache for all of them

// A thread's own memory.
struct Scratch {
  Buffer<Group> group;
  Buffer<float> queries, gathered, panels, values, transposed, scores;
  Buffer<int> keys, listed, members, places;
  Buffer<int32_t> rounded;
  Buffer<int16_t> products;
  Buffer<int8_t> codes;
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

// What a task is about: neighbouring queries of one head, counted from its first.
struct Share {
  const Problem& problem;
  const Plan& plan;
  const Packed& packed;
  int64_t b, h, first, size;
  bool screened;  // whether the screen pays in this head

  // The query sees the keys before this one.
  KERNEL_INLINE int64_t limit(int64_t r) const { return problem.limit(b, first + r); }
  const float* q(int64_t r) const { return problem.q.at(b, h, first + r); }
  const float* k(int64_t j) const { return problem.k.at(b, problem.key_head(h), j); }
  const float* v(int64_t j) const { return problem.v.at(b, problem.key_head(h), j); }
  const Lists& lists(size_t index) const { return plan.pieces[index].lists(b, h); }
  int64_t most_keys(int64_t r) const { return plan.most_keys(b, h, first + r); }
};

// The chunks of keys that some queries see, by first and last key. Where a query stands itself there is often what it
// looks for: that chunk comes first, so that little of the others passes.
template <class Visit>
void each_chunk(const Share& share, int64_t start, const CodeRows& codes, const Visit& visit) {
  const int64_t last = *std::max_element(codes.seen, codes.seen + codes.count);
  const int64_t chunks = (last + kCodeChunk - 1) / kCodeChunk;
  const int64_t here = share.problem.position(share.b, share.first + start) / kCodeChunk;
  const int64_t near = std::clamp<int64_t>(here, 0, std::max<int64_t>(chunks - 1, 0));
  for (int64_t place = 0; place < chunks; ++place) {
    const int64_t chunk = (place == 0 ? near : place <= near ? place - 1 : place) * kCodeChunk;
    visit(chunk, std::min<int64_t>(last, chunk + kCodeChunk));
  }
}

template <int Depth>
class Rows {
 public:
  explicit Rows(const Share& share)
      : share_(share), scratch_(Scratch::mine()), depth_(share.problem.depth),
        exponent_(exponent(share.problem.alpha[share.h])),
        factor_(static_cast<float>(share.problem.scale * steepness(share.problem.alpha[share.h]))),
        group_(scratch_.group.get(1)), rows_(scratch_.rows.get(share.size)) {}

  bool nonfinite() const { return nonfinite_; }
  int64_t computed() const { return computed_; }
  const Candidates* candidates() const { return rows_; }
  // What the query's scores must exceed to get weight, as far as is known.
  float bound(int64_t r) const { return rows_[r].bound; }
  // The query, scaled, if `scale_all` was called.
  const float* query(int64_t r) const { return queries_ + r * depth_; }

  void scale_all() {
    queries_ = scratch_.queries.get(share_.size * depth_);
    for (int64_t r = 0; r < share_.size; ++r) {
      // The queries of a head often lie far apart.
      if (r + kAhead < share_.size) prefetch(share_.q(r + kAhead), depth_);
      scale(r, queries_ + r * depth_);
    }
  }

  // Empty lists for all queries, with room for whatever they may find.
  void make_lists() {
    int64_t total = 0;
    // Pairs that another piece has too stay in the list until they are recognised, at the latest after a chunk.
    const bool several = share_.problem.pieces.size() + share_.problem.screened > 1;
    const int64_t extra = kSlack + (several || repeats() ? kChunk : 0);
    for (int64_t r = 0; r < share_.size; ++r) {
      const int64_t seen = share_.limit(r), most = share_.problem.screened ? seen : share_.most_keys(r);
      rows_[r].last = static_cast<int>(std::min(most, seen) + extra);
      total += rows_[r].last;
    }
    float* values = scratch_.values.get(total);
    int* keys = scratch_.keys.get(total);
    for (int64_t r = 0; r < share_.size; ++r) {
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
  void finish(const int* order, int64_t count) {
    const Sums sums(share_.problem, share_.b, share_.h, share_.first, rows_);
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
      if (r + kAhead < count) prefetch(share_.q(members[r + kAhead]), depth_);
      group_->rows[r] = members[r];
      scale(members[r], gathered + r * depth_);
    }
  }

  // A member of the group sees the keys low … high - 1, as far as its limit allows.
  void see(int r, int64_t low, int64_t high) {
    const int64_t seen = share_.limit(group_->rows[r]);
    group_->low[r] = static_cast<int>(std::clamp<int64_t>(low, 0, seen));
    group_->high[r] = static_cast<int>(std::clamp<int64_t>(high, 0, seen));
  }
  // A member of the group sees those of the listed keys, in ascending order, that its limit allows.
  void see_list(int r, const int* keys, int count) {
    const int64_t seen = share_.limit(group_->rows[r]);
    group_->low[r] = 0;
    group_->high[r] = count == 0 || keys[count - 1] < seen
                          ? count
                          : static_cast<int>(std::lower_bound(keys, keys + count, static_cast<int>(seen)) - keys);
  }

  // The panels of a list: those that all tasks share, or packed for this one alone, so that they stay in the cache.
  const float* panels_of(size_t index, int list) {
    if (share_.packed.lists_too()) return share_.packed.by_list(index, share_.b, share_.h, list);
    const Lists& lists = share_.lists(index);
    float* panels = scratch_.panels.get((lists.size(list) + kPanel) * depth_);
    nonfinite_ = pack_list(share_.problem, share_.b, share_.h, lists, list, panels) || nonfinite_;
    return panels;
  }

  // Let the group pass over all keys, as far as its members may see them.
  void pass(size_t index) { pass(index, share_.packed.by_position(share_.b, share_.h), nullptr); }
  // The same with some of the panels of keys, one after the other.
  void pass_over(size_t index, const int* places, const int* ids) {
    pass(index, share_.packed.by_position(share_.b, share_.h), ids, -1, places);
  }
  // Let the group pass over the panels that its members may see. `ids` are the keys of the columns; null if they are
  // the columns themselves.
  void pass(size_t index, const float* panels, const int* ids, int bucket = -1, const int* places = nullptr) {
    int first = group_->low[0], last = 0;
    for (int r = 0; r < group_->size; ++r) {
      if (group_->low[r] >= group_->high[r]) {
        // Sees nothing here, and must not widen what the others look at.
        group_->high[r] = group_->low[r];
        continue;
      }
      computed_ += group_->high[r] - group_->low[r];
      first = last == 0 ? group_->low[r] : std::min(first, group_->low[r]);
      last = std::max(last, group_->high[r]);
    }
    if (last == 0) return;
    first = first / kPanel * kPanel;
    last = (last + kPanel - 1) / kPanel * kPanel;
    for (int start = first, stop; start < last; start = stop) {
      stop = std::min(last, start + kChunk);
      bool some_known = false;
      for (int r = 0; r < group_->size; ++r) {
        group_->bounds[r] = rows_[group_->rows[r]].bound;
        some_known = some_known || group_->bounds[r] > kNothing;
        store(group_->tops + r * kLanes, spread(kNothing));
      }
      score_chunk<Depth>(*group_, depth_, panels, places, start, stop, some_known);
      ids ? collect(index, start, stop - start, Listed{ids}, bucket)
          : collect(index, start, stop - start, InPlace{}, bucket);
    }
  }

  // Raise what a query's scores must exceed as far as what it has found tells.
  void improve(int64_t r) {
    if (rows_[r].count > 1) refresh(rows_[r], exponent_.whole);
  }

  // The scores of one query with listed keys, straight from where the keys lie.
  void look_at(size_t index, int64_t r, int* listed, int count) {
    if (count == 0) return;
    computed_ += count;
    Candidates& row = rows_[r];
    const int before = row.count;
    const float* query = queries_ + r * depth_;
    const float* keys = share_.k(0);
    for (int j = count; j < ((count + 7) & ~7); ++j) listed[j] = listed[count - 1];
    Floats top = spread(kNothing), poison = zeros();
    float* scores = scratch_.scores.get(count + kLanes);
    for (int j = 0; j < count; j += kLanes) {
      const float* eight[8];
      for (int i = 0; i < 8; ++i) eight[i] = keys + listed[j + i] * share_.problem.k.row;
      for (int i = j + kLanes; i < std::min(j + 2 * kLanes, count); ++i)
        prefetch(keys + listed[i] * share_.problem.k.row, Depth ? Depth : depth_);
      const Floats eight_scores = dots(query, eight, Depth ? Depth : depth_);
      poison = poisoned(poison, eight_scores);
      top = larger(top, eight_scores);
      store(scores + j, eight_scores);
    }
    nonfinite_ = nonfinite_ || any_nonfinite(poison);
    // The best of them first: most of the others are then ruled out before they become candidates.
    raise(row, largest(top));
    for (int j = count; j < ((count + 7) & ~7); ++j) scores[j] = kNothing;
    append_above(row, scores, (count + 7) & ~7, 0, Listed{listed});
    drop_taken(index, row, r, before, -1);
    if (grown(row)) refresh(row, exponent_.whole);
  }

 private:
  const Share share_;
  Scratch& scratch_;
  int64_t depth_;
  Exponent exponent_;
  float factor_;
  Group* group_;
  float* queries_ = nullptr;
  Candidates* rows_;
  bool nonfinite_ = false;
  int64_t computed_ = 0;  // scores in float32

  bool repeats() const {
    for (const PiecePlan& piece : share_.plan.pieces)
      if (piece.repeats) return true;
    return false;
  }

  // One query, scaled. Those that see nothing may hold anything.
  void scale(int64_t r, float* dst) {
    if (share_.limit(r) > 0)
      nonfinite_ = scale_query(share_.q(r), depth_, factor_, dst) || nonfinite_;
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
    const Plan& plan = share_.plan;
    const bool repeats = index < plan.pieces.size() && plan.pieces[index].repeats;
    if (index == 0 && !repeats) return;
    const int64_t b = share_.b, h = share_.h, i = share_.first + r;
    int kept = before;
    for (int j = before; j < row.count; ++j) {
      const int key = row.keys[j];
      if (plan.taken_before(index, b, h, i, key)) continue;
      if (repeats && !plan.first_shared(*plan.pieces[index].piece, b, h, i, key, bucket)) continue;
      row.values[kept] = row.values[j];
      row.keys[kept++] = key;
    }
    row.count = kept;
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
