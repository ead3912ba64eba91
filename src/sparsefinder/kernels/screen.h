// A proven bound on scores from 8-bit products: what it rules out needs no float32 product.
//
// Keys are rounded to integers k̂ of 8 bits, k s = k̂ + δk, queries to 7 bits, q t = q̂ + δq. Then s t (q · k) differs
// from q̂ · k̂ by at most |δq| |s k| + |q̂| |δk|, with the largest of each norm over the keys of a head. Sums are taken
// modulo 2^16, which is harmless because |s t (q · k)| is kept below 2^15 by the choice of t.
#pragma once

#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kScreenPanel = 32;
constexpr int kScreenRows = 4;
// Added to the error: rounding in float32 on both sides, and of the threshold to an integer.
constexpr float kScreenSlack = 3.0f;

// Bytes of a panel: 32 keys, then for each the start of its sum.
inline int64_t screen_panel_bytes(int64_t depth) { return kScreenPanel * depth + kScreenPanel * 2; }

// The norms that the error bound needs, in units of the rounded keys.
struct ScreenKeys {
  float scale;
  float longest;    // |s k|
  float remainder;  // |δk|
};

// Where key j of a panel is, so that comparing and packing give the bits of a mask in the order of keys.
KERNEL_INLINE int screen_place(int j) { return (j >> 3 & 1) * 16 + (j & 7) + (j >> 4) * 8; }

// Write one number of a key to its place in a panel.
KERNEL_INLINE int8_t& code_at(int8_t* bytes, int place, int64_t d) {
  return bytes[(d / 2 * 2 + place / 16) * 32 + place % 16 * 2 + d % 2];
}

// Pack `count` ≤ 32 keys that are rounded already, the others being zero. `depth` is even.
template <class Key>
inline void pack_codes(const Key& key, int count, int64_t depth, uint8_t* dst) {
  static constexpr int8_t kZeros[256] = {};
  const int8_t* codes[kScreenPanel];
  for (int j = 0; j < kScreenPanel; ++j) codes[screen_place(j)] = j < count ? key(j) : kZeros;
  auto* pairs = reinterpret_cast<uint16_t*>(dst);
  int16_t starts[kScreenPanel] = {};
  for (int64_t d = 0; d < depth; d += 2, pairs += kScreenPanel) {
    for (int place = 0; place < kScreenPanel; ++place) std::memcpy(pairs + place, codes[place] + d, 2);
    const auto* bytes = reinterpret_cast<const int8_t*>(pairs);
    // Queries are stored with 64 added, to be unsigned.
    for (int place = 0; place < kScreenPanel; ++place)
      starts[place] = static_cast<int16_t>(starts[place] - 64 * (bytes[2 * place] + bytes[2 * place + 1]));
  }
  std::memcpy(dst + kScreenPanel * depth, starts, sizeof starts);
}

// Round `count` ≤ 32 keys, the others being zero.
template <class Key>
inline void pack_screen_panel(const Key& key, int count, int64_t depth, ScreenKeys& keys, uint8_t* dst) {
  auto* bytes = reinterpret_cast<int8_t*>(dst);
  int16_t starts[kScreenPanel];
  for (int j = 0; j < kScreenPanel; ++j) {
    const int place = screen_place(j);
    int total = 0;
    float longest = 0.0f, remainder = 0.0f;
    const float* vector = j < count ? key(j) : nullptr;
    for (int64_t d = 0; d < depth; ++d) {
      const float x = vector ? vector[d] * keys.scale : 0.0f;
      // Adding and subtracting 1.5 · 2^23 rounds to the nearest integer.
      const float rounded = (x + 12582912.0f) - 12582912.0f;
      longest += x * x;
      remainder += (x - rounded) * (x - rounded);
      const auto code = static_cast<int8_t>(rounded);
      code_at(bytes, place, d) = code;
      total += code;
    }
    keys.longest = std::max(keys.longest, longest);
    keys.remainder = std::max(keys.remainder, remainder);
    starts[place] = static_cast<int16_t>(static_cast<uint16_t>(-64 * total));
  }
  std::memcpy(dst + kScreenPanel * depth, starts, sizeof starts);
}

// A rounded query: each pair of numbers twice in 32 bits. Its scale and error bound, in units of the products.
struct ScreenQuery {
  float scale, error;
};

inline ScreenQuery round_query(const float* query, int64_t depth, const ScreenKeys& keys, int32_t* dst) {
  float top = 1e-30f, square = 0.0f;
  for (int64_t d = 0; d < depth; ++d) {
    top = std::max(top, std::abs(query[d]));
    square += query[d] * query[d];
  }
  const float norm = std::sqrt(square) * keys.longest + 1e-30f;
  const float scale = std::min(31000.0f / norm, 63.0f / top);
  float remainder = 0.0f, length = 0.0f;
  for (int64_t d = 0; d < depth; d += 2) {
    uint32_t pair = 0;
    for (int k = 0; k < 2; ++k) {
      const float x = query[d + k] * scale, rounded = std::nearbyint(x);
      remainder += (x - rounded) * (x - rounded);
      length += rounded * rounded;
      pair |= (static_cast<uint32_t>(static_cast<int>(rounded) + 64) & 255u) << (8 * k);
    }
    dst[d / 2] = static_cast<int32_t>(pair | pair << 16);
  }
  const float error = std::sqrt(remainder) * keys.longest + std::sqrt(length) * keys.remainder;
  return {scale * keys.scale, error * 1.0001f + kScreenSlack};
}

// A rounded product must exceed this for the score to possibly exceed the bound.
KERNEL_INLINE int16_t screen_threshold(float bound, const ScreenQuery& query) {
  const float threshold = std::floor(bound * query.scale - query.error);
  return static_cast<int16_t>(std::clamp(threshold, -32768.0f, 32767.0f));
}

// The products of a query with the keys of a panel, each at its place: the twin of what the instructions do.
inline void plain_products(const int32_t* query, int64_t pairs, const uint8_t* panel, int16_t* products) {
  const auto* bytes = reinterpret_cast<const int8_t*>(panel);
  std::memcpy(products, panel + kScreenPanel * 2 * pairs, kScreenPanel * sizeof(int16_t));
  for (int place = 0; place < kScreenPanel; ++place) {
    int total = products[place];
    for (int64_t d = 0; d < pairs; ++d) {
      const auto pair = static_cast<uint32_t>(query[d]);
      const int8_t* key = bytes + (2 * d + place / 16) * 32 + place % 16 * 2;
      total += static_cast<int>(pair & 255u) * key[0] + static_cast<int>(pair >> 8 & 255u) * key[1];
    }
    products[place] = static_cast<int16_t>(static_cast<uint16_t>(total));
  }
}

// Bits for the keys of a panel that each of 4 queries must look at.
KERNEL_INLINE void screen_tile(const int32_t* queries, int64_t pairs, const uint8_t* panel, const int16_t* thresholds,
                               uint32_t* marks, int stride) {
#if defined(__AVX2__) && defined(__FMA__)
  const auto* keys = reinterpret_cast<const __m256i*>(panel);
  const __m256i start_left = _mm256_loadu_si256(keys + 2 * pairs);
  const __m256i start_right = _mm256_loadu_si256(keys + 2 * pairs + 1);
  __m256i left[kScreenRows], right[kScreenRows];
#pragma GCC unroll 4
  for (int r = 0; r < kScreenRows; ++r) {
    left[r] = start_left;
    right[r] = start_right;
  }
#pragma GCC unroll 2
  for (int64_t d = 0; d < pairs; ++d) {
    const __m256i low = _mm256_loadu_si256(keys + 2 * d), high = _mm256_loadu_si256(keys + 2 * d + 1);
#pragma GCC unroll 4
    for (int r = 0; r < kScreenRows; ++r) {
      const __m256i query = _mm256_set1_epi32(queries[r * pairs + d]);
      left[r] = _mm256_add_epi16(left[r], _mm256_maddubs_epi16(query, low));
      right[r] = _mm256_add_epi16(right[r], _mm256_maddubs_epi16(query, high));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kScreenRows; ++r) {
    const __m256i threshold = _mm256_set1_epi16(thresholds[r]);
    marks[r * stride] = static_cast<uint32_t>(_mm256_movemask_epi8(
        _mm256_packs_epi16(_mm256_cmpgt_epi16(left[r], threshold), _mm256_cmpgt_epi16(right[r], threshold))));
  }
#else
  for (int r = 0; r < kScreenRows; ++r) {
    int16_t products[kScreenPanel];
    plain_products(queries + r * pairs, pairs, panel, products);
    uint32_t bits = 0;
    for (int j = 0; j < kScreenPanel; ++j)
      bits |= static_cast<uint32_t>(products[screen_place(j)] > thresholds[r]) << j;
    marks[r * stride] = bits;
  }
#endif
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
