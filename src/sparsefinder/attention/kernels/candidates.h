// The keys of each row that may still get weight, with their scores and the row's running lower bound on τ.
#pragma once

#include "memory.h"
#include "threshold.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kSlack = 64;  // entries that may be written past a row's last candidate
// A row's bound is improved, and what it rules out dropped, when its candidates have doubled and grown by this many.
constexpr int kRefresh = 48;

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

// Append the scores above the bound, whose keys are numbered from `key` on. `length` is a multiple of 8.
KERNEL_INLINE void append_above(Candidates& row, const float* scores, int length, int key) {
  const Floats bound = spread(row.bound);
  int count = row.count;
  for (int j = 0; j < length; j += kLanes) {
    const Floats score = load(scores + j);
    const unsigned mask = bits_above(score, bound);
    store(row.values + count, to_front(score, mask));
    store(row.keys + count, to_front(counting_from(key + j), mask));
    count += __builtin_popcount(mask);
  }
  row.count = count;
}

// Append the marked scores. Marks are few by now: mostly none or one in 64 scores, taken without a branch.
KERNEL_INLINE void append_marked(Candidates& row, const float* scores, const uint16_t* marks, int length, int key) {
  int count = row.count, j = 0;
  for (; j + 64 <= length; j += 64) {
    uint64_t word;
    std::memcpy(&word, marks + j / 16, sizeof word);
    const int number = __builtin_popcountll(word);
    if (__builtin_expect(number > 3, 0)) {
      for (; word; word &= word - 1) {
        const int bit = __builtin_ctzll(word);
        row.values[count] = scores[j + bit];
        row.keys[count++] = key + j + bit;
      }
      continue;
    }
#pragma GCC unroll 3
    for (int u = 0; u < 3; ++u) {
      const int bit = __builtin_ctzll(word | uint64_t{1} << 63);
      row.values[count + u] = scores[j + bit];
      row.keys[count + u] = key + j + bit;
      word &= word - 1;
    }
    count += number;
  }
  for (; j < length; j += 16)
    for (unsigned word = marks[j / 16]; word; word &= word - 1) {
      const int bit = __builtin_ctz(word);
      row.values[count] = scores[j + bit];
      row.keys[count++] = key + j + bit;
    }
  row.count = count;
}

KERNEL_INLINE void raise(Candidates& row, float top) {
  const float bound = lowered(top - 1.0f);
  if (bound > row.bound) row.bound = bound;
}

// Improve the bound if enough candidates came in since the last time.
KERNEL_INLINE void refresh(Candidates& row, int power, int patience) {
  if (row.count <= 2 * row.last + patience) return;
  pad(row.values, row.count);
  if (power) {
    const float bound = improved(row.values, row.count, row.bound, power);
    row.bound = bound > row.bound ? improved(row.values, row.count, bound, power) : bound;
  }
  row.count = keep_above(row.values, row.keys, row.count, row.bound);
  row.last = row.count;
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
