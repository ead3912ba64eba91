// The best keys of rows, by scores that are there: how low the best so many reach, and which they are.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels.h"
#include "memory.h"
#include "parallel.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int64_t kChosenRows = 16;        // rows of a task
constexpr int64_t kLeastChosen = 1 << 17;  // with fewer scores, waking another thread takes as long as the work
constexpr int kBinBits = 11;               // of a score: its sign, its exponent and two bits of what follows

// Scores as whole numbers in the same order.
KERNEL_INLINE uint32_t ordered(float score) {
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof bits);
  return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

// The lowest of the `wanted` highest, by one pass that counts scores of about the same size, and sorting within the one
// such bin that it lies in. What is no number comes before all others, and is never reached.
inline float lowest_of(const float* scores, int64_t count, int64_t wanted, uint32_t* bins, float* some) {
  if (wanted <= 0) return std::numeric_limits<float>::infinity();
  int64_t numbers = 0;
  for (int64_t j = 0; j < count; ++j) numbers += scores[j] == scores[j];
  wanted = std::min(wanted - (count - numbers), numbers);
  if (wanted <= 0) return std::numeric_limits<float>::quiet_NaN();
  std::memset(bins, 0, sizeof(uint32_t) << kBinBits);
  for (int64_t j = 0; j < count; ++j) bins[ordered(scores[j]) >> (32 - kBinBits)] += scores[j] == scores[j];
  uint32_t bin = (1u << kBinBits) - 1;
  for (; bins[bin] < wanted; --bin) wanted -= bins[bin];
  int64_t inside = 0;
  for (int64_t j = 0; j < count; ++j) {
    some[inside] = scores[j];
    inside += ordered(scores[j]) >> (32 - kBinBits) == bin && scores[j] == scores[j];
  }
  std::nth_element(some, some + wanted - 1, some + inside, std::greater<float>());
  return some[wanted - 1];
}

template <class Work>
inline void by_rows(const Rows& rows, const Work& work) {
  const int64_t tasks = (rows.rows + kChosenRows - 1) / kChosenRows;
  parallel(rows.rows * rows.width < kLeastChosen ? 1 : rows.threads, tasks, [&](int64_t task) {
    const int64_t last = std::min(rows.rows, (task + 1) * kChosenRows);
    for (int64_t row = task * kChosenRows; row < last; ++row) work(row, rows.scores + row * rows.width, rows.seen[row]);
  });
}

inline void reach(const Rows& rows, const int64_t* wanted, float* limits, int64_t* counts) {
  by_rows(rows, [&](int64_t row, const float* scores, int64_t seen) {
    static thread_local Buffer<uint32_t> bins;
    static thread_local Buffer<float> some;
    // One more than there are: what is not in the bin is written too, and then written over.
    const float limit = lowest_of(scores, seen, wanted[row], bins.get(1 << kBinBits), some.get(rows.width + 1));
    int64_t count = 0;
    for (int64_t j = 0; j < seen; ++j) count += scores[j] >= limit;
    limits[row] = limit;
    counts[row] = count;
  });
}

inline void list_keys(const Rows& rows, const float* limits, const int64_t* starts, int64_t* keys) {
  by_rows(rows, [&](int64_t row, const float* scores, int64_t) {
    int64_t* out = keys + starts[row];
    const int64_t count = starts[row + 1] - starts[row];
    for (int64_t j = 0, found = 0; found < count; ++j) {
      out[found] = j;
      found += scores[j] >= limits[row];
    }
  });
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
