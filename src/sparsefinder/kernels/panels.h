// Keys laid out for the register tile: panels of 16 keys, dimension by dimension, so that one load brings one dimension
// of eight keys.
#pragma once

#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kPanel = 16;

// Pack `count` ≤ 16 keys into dst[depth][16], zeros for what is missing. `key(i)` is where the i-th key is.
// Returns whether a number was not finite.
template <class Key>
KERNEL_INLINE bool pack_panel(const Key& key, int count, int64_t depth, float* dst) {
  Floats poison[4] = {zeros(), zeros(), zeros(), zeros()};  // one alone would be waited for
  for (int half = 0; half < kPanel; half += kLanes)
    for (int64_t d = 0; d < depth; d += kLanes) {
      Floats rows[8];
      if (count == kPanel) {
#pragma GCC unroll 8
        for (int i = 0; i < kLanes; ++i) rows[i] = load(key(half + i) + d);
      } else {
        for (int i = 0; i < kLanes; ++i) rows[i] = half + i < count ? load(key(half + i) + d) : zeros();
      }
#pragma GCC unroll 8
      for (int i = 0; i < kLanes; ++i) poison[i % 4] = poisoned(poison[i % 4], rows[i]);
      transpose(rows);
      for (int i = 0; i < kLanes; ++i) store(dst + (d + i) * kPanel + half, rows[i]);
    }
  return any_nonfinite((poison[0] + poison[1]) + (poison[2] + poison[3]));
}

constexpr int64_t kLine = 16;  // floats in a line of the cache

// Ask for a vector that is read, or written, soon.
KERNEL_INLINE void prefetch(const float* vector, int64_t depth) {
  for (int64_t d = 0; d < depth; d += kLine) __builtin_prefetch(vector + d);
}
KERNEL_INLINE void prefetch_to_write(float* vector, int64_t depth) {
  for (int64_t d = 0; d < depth; d += kLine) __builtin_prefetch(vector + d, 1);
}

// A query times a factor. Returns whether a number was not finite.
KERNEL_INLINE bool scale_query(const float* query, int64_t depth, float factor, float* dst) {
  const Floats factors = spread(factor);
  Floats poison = zeros();
  for (int64_t d = 0; d < depth; d += kLanes) {
    const Floats scaled = load(query + d) * factors;
    poison = poisoned(poison, scaled);
    store(dst + d, scaled);
  }
  return any_nonfinite(poison);
}

// The products of a query with eight keys.
KERNEL_INLINE Floats dots(const float* query, const float* const keys[8], int64_t depth) {
  Floats products[8];
  const Floats first = load(query);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) products[i] = first * load(keys[i]);
  for (int64_t d = kLanes; d < depth; d += kLanes) {
    const Floats part = load(query + d);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) products[i] = fused(part, load(keys[i] + d), products[i]);
  }
  return sums(products);
}

// The same for eight keys that follow each other: read in the order in which they lie, so that they are fetched ahead.
template <int Depth>
KERNEL_INLINE Floats dots_in_order(const float* query, const float* keys, int64_t apart, int64_t depth) {
  Floats products[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const float* key = keys + i * apart;
    products[i] = load(query) * load(key);
#pragma GCC unroll 16
    for (int64_t d = kLanes; d < (Depth ? Depth : depth); d += kLanes)
      products[i] = fused(load(query + d), load(key + d), products[i]);
  }
  return sums(products);
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
