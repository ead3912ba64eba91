// Products of codes, which are vectors of a few whole numbers of 8 bits: 32 keys at a time, in panels as the screen has
// them. Callers see to it that no product leaves 16 bits.
#pragma once

#include "screen.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int16_t kHidden = -32768;  // below every product

// A query's codes as the products take them: 64 added, each pair twice in 32 bits.
inline void spread_codes(const int8_t* codes, int64_t rank, int32_t* dst) {
  for (int64_t d = 0; d < rank; d += 2) {
    const uint32_t pair = static_cast<uint32_t>(codes[d] + 64) | static_cast<uint32_t>(codes[d + 1] + 64) << 8;
    dst[d / 2] = static_cast<int32_t>(pair | pair << 16);
  }
}

// The products of `Rows` queries with the keys of `panels` panels, 32 numbers each, in the order of places. `queries`
// are `pairs` apart, the products of a row begin at out + row · stride. Raises tops[row] to the highest product of the
// row.
template <int Rows>
KERNEL_INLINE void products(const int32_t* queries, int64_t pairs, const uint8_t* panel, int64_t panels, int16_t* out,
                            int64_t stride, int16_t* tops) {
  const int64_t bytes = screen_panel_bytes(2 * pairs);
#if defined(__AVX2__) && defined(__FMA__)
  __m256i best[Rows];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) best[r] = _mm256_set1_epi16(tops[r]);
  for (int64_t p = 0; p < panels; ++p, panel += bytes) {
    const auto* keys = reinterpret_cast<const __m256i*>(panel);
    __m256i left[Rows], right[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      left[r] = _mm256_loadu_si256(keys + 2 * pairs);
      right[r] = _mm256_loadu_si256(keys + 2 * pairs + 1);
    }
    for (int64_t d = 0; d < pairs; ++d) {
      const __m256i low = _mm256_loadu_si256(keys + 2 * d), high = _mm256_loadu_si256(keys + 2 * d + 1);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        const __m256i query = _mm256_set1_epi32(queries[r * pairs + d]);
        left[r] = _mm256_add_epi16(left[r], _mm256_maddubs_epi16(query, low));
        right[r] = _mm256_add_epi16(right[r], _mm256_maddubs_epi16(query, high));
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      auto* to = reinterpret_cast<__m256i*>(out + r * stride + p * kScreenPanel);
      _mm256_storeu_si256(to, left[r]);
      _mm256_storeu_si256(to + 1, right[r]);
      best[r] = _mm256_max_epi16(best[r], _mm256_max_epi16(left[r], right[r]));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    // The smallest unsigned number of eight is what there is an instruction for.
    const __m128i eight = _mm_max_epi16(_mm256_castsi256_si128(best[r]), _mm256_extracti128_si256(best[r], 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(0x7fff)));
    tops[r] = static_cast<int16_t>(_mm_cvtsi128_si32(least) ^ 0x7fff);
  }
#else
  for (int64_t p = 0; p < panels; ++p, panel += bytes)
    for (int r = 0; r < Rows; ++r) {
      int16_t* to = out + r * stride + p * kScreenPanel;
      plain_products(queries + r * pairs, pairs, panel, to);
      tops[r] = std::max(tops[r], *std::max_element(to, to + kScreenPanel));
    }
#endif
}

// A bit for each key of a panel whose product is above the limit.
KERNEL_INLINE uint32_t codes_above(const int16_t* products, int16_t limit) {
#if defined(__AVX2__) && defined(__FMA__)
  const auto* from = reinterpret_cast<const __m256i*>(products);
  const __m256i limits = _mm256_set1_epi16(limit);
  return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(
      _mm256_cmpgt_epi16(_mm256_loadu_si256(from), limits), _mm256_cmpgt_epi16(_mm256_loadu_si256(from + 1), limits))));
#else
  uint32_t bits = 0;
  for (int j = 0; j < kScreenPanel; ++j) bits |= static_cast<uint32_t>(products[screen_place(j)] > limit) << j;
  return bits;
#endif
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
