// A run of neighbouring queries of one head, from candidates to results. The pieces of the graph are walked one after the
// other, each as groups of queries that pass over panels of keys together. Dense attention is the graph of one piece
// without limits.
#pragma once

#include <atomic>

#include "finish.h"
#include "packed.h"
#include "tile.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kDenseRows = 48;    // 8 tiles: a panel is read from the first-level cache for all of them
constexpr int kBucketRows = 512;  // queries whose lists stay in the second-level cache while buckets are walked
constexpr int kMostBucketRows = 4096;

// Keys looked at in float32 before the screen, so that rows have a threshold worth comparing with.
constexpr int kScreenFirst = 256;
// A head in which more than this share of a first chunk passes the screen is better done without it.
constexpr double kScreenPays = 0.25;

// A thread's own memory.
struct Scratch {
  Buffer<Group> group;
  Buffer<float> queries, gathered, values, transposed;
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

// One task: some queries of one head, from candidates to results.
template <int Depth>
class Task {
 public:
  Task(const Problem& problem, const Plan& plan, const Packed& packed, int64_t b, int64_t h, int64_t first, int64_t size)
      : problem_(problem), plan_(plan), packed_(packed), scratch_(Scratch::mine()), b_(b), h_(h), first_(first),
        size_(size), depth_(problem.depth), exponent_(exponent(problem.alpha[h])) {
    group_ = scratch_.group.get(1);
    queries_ = scratch_.queries.get(size * depth_);
    rows_ = scratch_.rows.get(size);
    const float factor = static_cast<float>(problem.scale * (problem.alpha[h] - 1.0));
    float finite = 0.0f;
    int64_t total = 0;
    // Pairs that another piece has too stay in the list until they are recognised, at the latest after a chunk.
    const int64_t extra = kSlack + (problem.pieces.size() + problem.screened > 1 || repeats() ? kChunk : 0);
    for (int64_t r = 0; r < size; ++r) {
      const int64_t limit = problem.limit(b, first + r);
      if (limit > 0) finite += scale_query(problem.q.at(b, h, first + r), depth_, factor, queries_ + r * depth_);
      const int64_t most = problem.screened ? limit : plan.most_keys(b, h, first + r);
      rows_[r] = {nullptr, nullptr, 0, 0, kNothing};
      rows_[r].last = static_cast<int>((most < limit ? most : limit) + extra);
      total += rows_[r].last;
    }
    float* values = scratch_.values.get(total);
    int* keys = scratch_.keys.get(total);
    for (int64_t r = 0; r < size; ++r) {
      rows_[r].values = values;
      rows_[r].keys = keys;
      values += rows_[r].last;
      keys += rows_[r].last;
      rows_[r].last = 0;
    }
    infinite_ = finite != 0.0f;
  }

  // `pays` is what the tasks of a head have found out about the screen: 0 nothing yet, 1 that it pays, -1 that it does not.
  void run(Support* support, int64_t task, std::atomic<int>* pays) {
    for (size_t index = 0; index < plan_.pieces.size(); ++index) walk(index);
    if (problem_.screened && !packed_.infinite()) walk_rest(*pays);
    if (!concluded_) finish_rows(nullptr, size_);
    if (support) keep(problem_, b_, h_, first_, size_, rows_, *support, task);
    scratch_.trim();
  }
  bool infinite() const { return infinite_; }
  int64_t computed() const { return computed_; }

 private:
  const Problem& problem_;
  const Plan& plan_;
  const Packed& packed_;
  Scratch& scratch_;
  int64_t b_, h_, first_, size_, depth_;
  Exponent exponent_;
  Group* group_;
  float* queries_;
  Candidates* rows_;
  bool infinite_ = false;
  bool concluded_ = false;  // whether the walk has left nothing to do
  int64_t computed_ = 0;    // scores in float32

  void finish_rows(const int* order, int64_t count) {
    conclude(problem_, b_, h_, first_, rows_, order, count, exponent_, scratch_.transposed.get(kTransposed * kLanes));
  }

  bool repeats() const {
    for (const PiecePlan& piece : plan_.pieces)
      if (piece.repeats) return true;
    return false;
  }
  int64_t limit(int64_t r) const { return problem_.limit(b_, first_ + r); }

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

  // Neighbouring queries as the group.
  void take(int64_t start, int64_t count) {
    group_->size = static_cast<int>(count);
    group_->queries = queries_ + start * depth_;
    for (int64_t r = 0; r < count; ++r) group_->rows[r] = static_cast<int>(start + r);
  }
  // Any queries as the group.
  void gather(const int* members, int count) {
    group_->size = count;
    float* gathered = scratch_.gathered.get(kGroupRows * depth_);
    group_->queries = gathered;
    for (int r = 0; r < count; ++r) {
      group_->rows[r] = members[r];
      std::memcpy(gathered + r * depth_, queries_ + members[r] * depth_, depth_ * sizeof(float));
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
      pass(index, packed_.by_list(index, b_, h_), lists.keys.data(), -1);
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

  // The scores of one query with listed keys, straight from where the keys lie.
  void look_at(size_t index, int64_t r, int* listed, int count) {
    if (count == 0) return;
    computed_ += count;
    Candidates& row = rows_[r];
    const int before = row.count;
    const float* query = queries_ + r * depth_;
    const float* keys = problem_.k.at(b_, problem_.key_head(h_), 0);
    for (int j = count; j < ((count + 7) & ~7); ++j) listed[j] = listed[count - 1];
    Floats top = spread(kNothing), finite = zeros();
    const Floats bound = spread(row.bound);
    for (int j = 0; j < count; j += kLanes) {
      const float* eight[8];
      for (int i = 0; i < 8; ++i) eight[i] = keys + listed[j + i] * problem_.k.row;
      const Floats scores = dots(query, eight, Depth ? Depth : depth_);
      finite = fused(scores, zeros(), finite);
      top = larger(top, scores);
      unsigned mask = bits_above(scores, bound);
      if (count - j < 8) mask &= (1u << (count - j)) - 1;
      store(row.values + row.count, to_front(scores, mask));
      store(row.keys + row.count, to_front(load(listed + j), mask));
      row.count += __builtin_popcount(mask);
    }
    infinite_ = infinite_ || sum(finite) != 0.0f;
    raise(row, largest(top));
    drop_taken(index, row, r, before, -1);
    refresh(row, exponent_.whole, kRefresh);
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
    // A query with one bucket and nothing else is done when its bucket is: its keys' values are then in the cache.
    concluded_ = slots == 1 && plan_.pieces.size() == 1 && !problem_.screened;
    if (concluded_)
      for (int64_t r = 0; r < size_; ++r)
        if (mine[r] < 0 || mine[r] >= buckets) members[begins[buckets] + unassigned++] = static_cast<int>(r);
    for (int c = 0; c < buckets; ++c) {
      const int queries = begins[c + 1] - begins[c];
      if (queries == 0) continue;
      if (lists.size(c) == 0) {
        if (concluded_) finish_rows(members + begins[c], queries);
        continue;
      }
      // Even groups of whole tiles.
      const int groups = (queries + kDenseRows - 1) / kDenseRows;
      const int step = ((queries + groups - 1) / groups + kTileRows - 1) / kTileRows * kTileRows;
      const int* keys = lists.keys.data() + lists.begins[c];
      for (int start = 0; start < queries; start += step) {
        gather(members + begins[c] + start, queries - start < step ? queries - start : step);
        for (int r = 0; r < group_->size; ++r) see_list(r, keys, lists.size(c));
        pass(index, packed_.by_list(index, b_, h_) + lists.packed_begins[c] * depth_, keys, c);
      }
      if (concluded_) finish_rows(members + begins[c], queries);
    }
    if (concluded_) finish_rows(members + begins[buckets], unassigned);
  }

  // All visible keys, as if they were a last piece: the first of them in float32, the others if the screen lets them pass.
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
        queries[r] = round_query(queries_ + (start + r) * depth_, depth_, packed_.screen_keys(b_, h_), rounded + r * pairs);
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
          screen_tile(rounded + r * pairs, pairs, panels + j / kScreenPanel * screen_panel_bytes(depth_), thresholds + r,
                      marks + r * kWords + (j - chunk) / kScreenPanel, kWords);
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
    for (int start = first; start < last; start += kChunk) {
      const int stop = last - start < kChunk ? last : start + kChunk;
      bool known = true;
      for (int r = 0; r < group_->size; ++r) {
        const Candidates& row = rows_[group_->rows[r]];
        known = known && row.count > 0;
        group_->bounds[r] = row.bound;
        store(group_->tops + r * kLanes, spread(kNothing));
      }
      score_chunk<Depth>(*group_, depth_, panels, start, stop, known);
      for (int r = 0; r < group_->size; ++r) collect(index, r, start, stop - start, known, ids, bucket);
    }
  }

  void collect(size_t index, int r, int start, int length, bool known, const int* ids, int bucket) {
    Candidates& row = rows_[group_->rows[r]];
    const float top = largest(load(group_->tops + r * kLanes));
    if (top <= row.bound) return;
    infinite_ = infinite_ || !(top <= 3.4e38f);
    const int before = row.count;
    const float* scores = group_->scores + r * kScoreStride;
    raise(row, top);
    if (known)
      append_marked(row, scores, group_->marks + r * kMarks, length, start);
    else
      append_above(row, scores, length, start);
    if (ids)
      for (int j = before; j < row.count; ++j) row.keys[j] = ids[row.keys[j]];
    drop_taken(index, row, group_->rows[r], before, bucket);
    refresh(row, exponent_.whole, kRefresh);
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
