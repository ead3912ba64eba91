// A proven bound on scores from 8-bit products: what it rules out needs no float32 product.
//
// Keys are rounded to integers k̂ of 8 bits, k s = k̂ + δk, queries to 7 bits, q t = q̂ + δq. Then s t (q · k) differs
// from q̂ · k̂ by at most |δq| |s k| + |q̂| |δk|, with the largest of each norm over the keys of a head. Sums are taken
// modulo 2^16, which is harmless because |s t (q · k)| is kept below 2^15 by the choice of t.
#pragma once

#include "codes.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Added to the error: rounding in float32 on both sides, and of the threshold to an integer.
constexpr float kScreenSlack = 3.0f;

// The norms that the error bound needs, in units of the rounded keys.
struct ScreenKeys {
  float scale;
  float longest;    // |s k|
  float remainder;  // |δk|
};

// Round `count` ≤ 32 keys, the others being zero. `depth` is a multiple of 8.
template <class Key>
inline void pack_screen_panel(const Key& key, int count, int64_t depth, ScreenKeys& keys, int8_t* codes, uint8_t* dst) {
  std::memset(codes + count * depth, 0, (kScreenPanel - count) * depth);
  for (int j = 0; j < count; ++j) {
    const float* vector = key(j);
    Floats longest = zeros(), remainder = zeros();
    for (int64_t d = 0; d < depth; d += kLanes) {
      const Floats x = load(vector + d) * spread(keys.scale), whole = to_whole(x), rest = x - whole;
      longest = fused(x, x, longest);
      remainder = fused(rest, rest, remainder);
      store_rounded(codes + j * depth + d, whole);
    }
    keys.longest = std::max(keys.longest, sum(longest));
    keys.remainder = std::max(keys.remainder, sum(remainder));
  }
  pack_codes([&](int j) { return codes + j * depth; }, kScreenPanel, depth, dst);
}

// A rounded query: each pair of numbers twice in 32 bits. Its scale and error bound, in units of the products.
struct ScreenQuery {
  float scale, error;
};

inline ScreenQuery round_query(const float* query, int64_t depth, const ScreenKeys& keys, int8_t* codes, int32_t* dst) {
  Floats top = spread(1e-30f), square = zeros();
  for (int64_t d = 0; d < depth; d += kLanes) {
    const Floats x = load(query + d);
    top = larger(top, larger(x, zeros() - x));
    square = fused(x, x, square);
  }
  const float norm = std::sqrt(sum(square)) * keys.longest + 1e-30f;
  const float scale = std::min(31000.0f / norm, 63.0f / largest(top));
  Floats remainder = zeros(), length = zeros();
  for (int64_t d = 0; d < depth; d += kLanes) {
    const Floats x = load(query + d) * spread(scale), whole = to_whole(x), rest = x - whole;
    remainder = fused(rest, rest, remainder);
    length = fused(whole, whole, length);
    store_rounded(codes + d, whole);
  }
  spread_codes(codes, depth, dst);
  const float error = std::sqrt(sum(remainder)) * keys.longest + std::sqrt(sum(length)) * keys.remainder;
  return {scale * keys.scale, error * 1.0001f + kScreenSlack};
}

// A rounded product must exceed this for the score to possibly exceed the bound.
KERNEL_INLINE int16_t screen_threshold(float bound, const ScreenQuery& query) {
  const float threshold = std::floor(bound * query.scale - query.error);
  return static_cast<int16_t>(std::clamp(threshold, -32768.0f, 32767.0f));
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
