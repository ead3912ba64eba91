// The keys of each row that may still get weight, with their scores and the row's running lower bound on τ.
#pragma once

#include "memory.h"
#include "threshold.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kSlack = 64;  // entries that may be written past a row's last candidate
// A row's bound is improved, and what it rules out dropped, when its candidates have doubled and grown by this many.
constexpr int kRefresh = 48;
constexpr int kMarked = 16;  // scores that one number of marks is about

struct Candidates {
  float* values;
  int* keys;
  int count;
  int last;  // how many there were after the last refresh
  float bound;
};

KERNEL_INLINE void pad(float* values, int count) { store(values + count, spread(kNothing)); }

// Keep the candidates above the threshold, in order.
inline int keep_above(float* values, int* keys, int count, float threshold) {
  const Floats thresholds = spread(threshold);
  pad(values, count);
  int kept = 0;
  for (int j = 0; j < count; j += kLanes) {
    const Floats value = load(values + j);
    const Ints key = load(keys + j);
    const unsigned mask = bits_above(value, thresholds);
    store(values + kept, to_front(value, mask));
    store(keys + kept, to_front(key, mask));
    kept += __builtin_popcount(mask);
  }
  return kept;
}

// Which keys the scores in columns are of: those that a list names, or the columns themselves. Two types instead of a
// question that would be asked for every score.
struct Listed {
  const int* ids;
  KERNEL_INLINE int one(int column) const { return ids[column]; }
  KERNEL_INLINE Ints marked(int column, unsigned mask) const { return to_front(load(ids + column), mask); }
};
struct InPlace {
  KERNEL_INLINE int one(int column) const { return column; }
  KERNEL_INLINE Ints marked(int column, unsigned mask) const { return places_from(column, mask); }
};

// Append the scores above the bound, which are of the columns from `column` on. `length` is a multiple of 8.
template <class Names>
KERNEL_INLINE void append_above(Candidates& row, const float* scores, int length, int column, Names names) {
  const Floats bound = spread(row.bound);
  float* values = row.values + row.count;
  int* keys = row.keys + row.count;
  int64_t added = 0;
  for (int j = 0; j < length; j += kLanes) {
    const Floats score = load(scores + j);
    const unsigned mask = bits_above(score, bound);
    store(values + added, to_front(score, mask));
    store(keys + added, names.marked(column + j, mask));
    added += __builtin_popcount(mask);
  }
  row.count += static_cast<int>(added);
}

// Append up to `Most` marked ones of 64 scores without a branch: how many they are cannot be foreseen.
template <int Most, class Names>
KERNEL_INLINE void append_few(float* values, int* keys, const float* scores, uint64_t word, int column, Names names) {
#pragma GCC unroll 8
  for (int u = 0; u < Most; ++u) {
    const int bit = __builtin_ctzll(word | uint64_t{1} << 63);
    values[u] = scores[bit];
    keys[u] = names.one(column + bit);
    word &= word - 1;
  }
}

// Append the marked scores. Marks are few by now: mostly none or one in 64 scores.
template <class Names>
KERNEL_INLINE void append_marked(Candidates& row, const float* scores, const uint16_t* marks, int length, int column,
                                 Names names) {
  float* values = row.values + row.count;
  int* keys = row.keys + row.count;
  for (int j = 0; j < length; j += 64) {
    uint64_t word;
    std::memcpy(&word, marks + j / kMarked, sizeof word);
    if (length - j < 64) word &= (uint64_t{1} << (length - j)) - 1;
    const int number = __builtin_popcountll(word);
    if (number <= 3) {
      append_few<3>(values, keys, scores + j, word, column + j, names);
    } else if (number <= 8) {
      append_few<8>(values, keys, scores + j, word, column + j, names);
    } else {
      for (int place = 0; word; word &= word - 1, ++place) {
        const int bit = __builtin_ctzll(word);
        values[place] = scores[j + bit];
        keys[place] = names.one(column + j + bit);
      }
    }
    values += number;
    keys += number;
  }
  row.count = static_cast<int>(values - row.values);
}

KERNEL_INLINE void raise(Candidates& row, float top) { row.bound = std::max(row.bound, lowered(top - 1.0f)); }

// Whether enough candidates came in since the last time for the bound to be worth improving.
KERNEL_INLINE bool grown(const Candidates& row) { return row.count > 2 * row.last + kRefresh; }

// Improve the bound, and drop what it rules out.
KERNEL_INLINE void refresh(Candidates& row, int power) {
  pad(row.values, row.count);
  if (power) {
    const float bound = improved(row.values, row.count, row.bound, power);
    row.bound = bound > row.bound ? improved(row.values, row.count, bound, power) : bound;
  }
  row.count = keep_above(row.values, row.keys, row.count, row.bound);
  row.last = row.count;
}

// The same for as many rows as need it, eight at a time.
inline void refresh_all(Candidates* const* rows, int number, int power) {
  if (power != 1 && power != 2) {
    for (int r = 0; r < number; ++r) refresh(*rows[r], power);
    return;
  }
  for (int start = 0; start < number; start += 8) {
    const int together = std::min(number - start, 8);
    const float* values[8];
    int counts[8];
    float bounds[8];
    for (int r = 0; r < together; ++r) {
      Candidates& row = *rows[start + r];
      pad(row.values, row.count);
      values[r] = row.values;
      counts[r] = row.count;
      bounds[r] = row.bound;
    }
    power == 2 ? improve_eight<2>(values, counts, together, bounds)
               : improve_eight<1>(values, counts, together, bounds);
    for (int r = 0; r < together; ++r) {
      Candidates& row = *rows[start + r];
      row.bound = bounds[r];
      row.last = row.count = keep_above(row.values, row.keys, row.count, row.bound);
    }
  }
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
