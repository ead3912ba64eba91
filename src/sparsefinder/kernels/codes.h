// Products of codes, which are vectors of whole numbers of 8 bits: 32 keys at a time, in panels. Callers see to it that
// no product leaves 16 bits.
#pragma once

#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kScreenPanel = 32;
constexpr int16_t kHidden = -32768;  // below every product

// Bytes of a panel: 32 keys, then for each the start of its sum.
inline int64_t screen_panel_bytes(int64_t depth) { return kScreenPanel * depth + kScreenPanel * 2; }

// Where key j of a panel is, so that comparing and packing give the bits of a mask in the order of keys.
KERNEL_INLINE int screen_place(int j) { return (j >> 3 & 1) * 16 + (j & 7) + (j >> 4) * 8; }

// Where one number of a key is in a panel.
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

// A query's codes as the products take them: 64 added, each pair twice in 32 bits.
inline void spread_codes(const int8_t* codes, int64_t rank, int32_t* dst) {
  for (int64_t d = 0; d < rank; d += 2) {
    const uint32_t pair = static_cast<uint32_t>(codes[d] + 64) | static_cast<uint32_t>(codes[d + 1] + 64) << 8;
    dst[d / 2] = static_cast<int32_t>(pair | pair << 16);
  }
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

// The products of `Rows` queries with the keys of `panels` panels, 32 numbers each, in the order of places. `queries`
// are `pairs` apart, the products of a row begin at out + row · stride. Raises tops[row] to the highest product of the
// row.
template <int Rows>
KERNEL_INLINE void multiply_panels(const int32_t* queries, int64_t pairs, const uint8_t* panel, int64_t panels,
                                   int16_t* out, int64_t stride, int16_t* tops) {
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

// The marks of two panels, of which the second may not be there: `left` keys are.
KERNEL_INLINE uint64_t two_above(const int16_t* products, int16_t limit, int64_t left) {
  const uint64_t marks = codes_above(products, limit);
  return left > kScreenPanel ? marks | uint64_t{codes_above(products + kScreenPanel, limit)} << 32 : marks;
}

// Hide all but the first `seen` products of a panel. Returns the highest of those.
inline int16_t hide(int16_t* panel, int64_t seen) {
  int16_t top = kHidden;
  for (int j = 0; j < kScreenPanel; ++j) {
    int16_t& product = panel[screen_place(j)];
    if (j >= seen) product = kHidden;
    top = std::max(top, product);
  }
  return top;
}

// Queries that read the keys' codes together, and keys whose products are kept at a time: all of them in the
// first-level cache.
constexpr int kCodeRows = 8, kCodeChunk = 1024;

// A few queries, rounded, and their products with a chunk of keys.
struct CodeRows {
  int64_t pairs;  // of codes
  int count;
  int32_t* queries;         // [kCodeRows, pairs]
  int16_t* products;        // [kCodeRows, kCodeChunk]
  int64_t seen[kCodeRows];  // how many keys each of them may see
  int16_t tops[kCodeRows];  // the highest product of the chunk

  // The products with the keys chunk … stop - 1, whose panels begin at `panel`. Those that a query may not see are
  // hidden.
  void multiply(const uint8_t* panel, int64_t chunk, int64_t stop) {
    std::fill(tops, tops + kCodeRows, kHidden);
    for (int r = 0; r < count; r += 4) multiply_four(r, panel, chunk, stop);
  }
  const int16_t* of(int r) const { return products + r * kCodeChunk; }
  // Queries that are missing are zeros.
  void clear_rest() { std::memset(queries + count * pairs, 0, (kCodeRows - count) * pairs * sizeof(int32_t)); }

 private:
  void multiply_four(int r, const uint8_t* panel, int64_t chunk, int64_t stop) {
    const int rows = std::min(count - r, 4);
    const int64_t bytes = screen_panel_bytes(2 * pairs);
    int64_t all = stop;  // all four see what comes before
    for (int i = 0; i < rows; ++i) all = std::min(all, std::max(seen[r + i], chunk));
    const int64_t whole = (all - chunk) / kScreenPanel;
    int16_t* out = products + r * kCodeChunk;
    multiply_panels<4>(queries + r * pairs, pairs, panel, whole, out, kCodeChunk, tops + r);
    for (int64_t p = whole; chunk + p * kScreenPanel < stop; ++p) {
      int16_t highest[4];
      std::fill(highest, highest + 4, kHidden);
      multiply_panels<4>(queries + r * pairs, pairs, panel + p * bytes, 1, out + p * kScreenPanel, kCodeChunk, highest);
      for (int i = 0; i < rows; ++i)
        tops[r + i] = std::max(tops[r + i],
                               hide(out + i * kCodeChunk + p * kScreenPanel, seen[r + i] - chunk - p * kScreenPanel));
    }
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
