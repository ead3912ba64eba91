// Sums of vectors with weights, over a list of them: values in the forward pass, keys and queries in the backward pass.
#pragma once

#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kAhead = 6;  // vectors are asked for so many before they are needed

// `Count` vectors of 8 columns from `column` on: as many accumulators as there are registers to hold them. Of narrow
// ones two entries are summed side by side, as each addition waits for the one before it.
template <int Count, bool Far, class At, class Weight>
KERNEL_INLINE void sum_columns(int entries, const At& at, const Weight& weight, int64_t column, float* out) {
  constexpr int Sides = Count <= 4 ? 2 : 1;
  Floats total[Sides][Count];
#pragma GCC unroll 2
  for (int side = 0; side < Sides; ++side)
#pragma GCC unroll 8
    for (int c = 0; c < Count; ++c) total[side][c] = zeros();
  const auto add = [&](int j, Floats* sums) __attribute__((always_inline)) {
    const Floats p = spread(weight(j));
    const float* vector = at(j) + column;
#pragma GCC unroll 8
    for (int c = 0; c < Count; ++c) sums[c] = fused(p, load(vector + c * kLanes), sums[c]);
  };
  int j = 0;
  for (; j + Sides <= entries; j += Sides)
#pragma GCC unroll 2
    for (int side = 0; side < Sides; ++side) {
      if (Far && j + side + kAhead < entries) {
        const float* next = at(j + side + kAhead) + column;
        for (int c = 0; c < Count; c += 2) __builtin_prefetch(next + c * kLanes);
      }
      add(j + side, total[side]);
    }
  if (j < entries) add(j, total[0]);
#pragma GCC unroll 8
  for (int c = 0; c < Count; ++c)
    store(out + column + c * kLanes, Sides == 2 ? total[0][c] + total[Sides - 1][c] : total[0][c]);
}

// out = Σ weight(j) · at(j), all of `width` columns, a multiple of 8. Vectors that are not `Far` are in the cache.
template <bool Far = true, class At, class Weight>
inline void weighted_sum(int entries, const At& at, const Weight& weight, int64_t width, float* out) {
  int64_t column = 0;
  for (; column + 64 <= width; column += 64) sum_columns<8, Far>(entries, at, weight, column, out);
  if (column + 32 <= width) {
    sum_columns<4, Far>(entries, at, weight, column, out);
    column += 32;
  }
  for (; column < width; column += 8) sum_columns<1, Far>(entries, at, weight, column, out);
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
