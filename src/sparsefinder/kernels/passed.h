// The keys of a query whose products are among the best of its row: the others lack too much to all better ones.
#pragma once

#include <algorithm>
#include <cmath>

#include "codes.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Twice the square of the one, and 16 times that of the other, are less than 2³¹.
constexpr int32_t kSmall = 32767, kSmaller = 11585;

// What products exceed a number by, summed up, and the squares of that.
struct Excess {
  int64_t sum = 0, squares = 0;

  void add(const int16_t* products, int64_t count, int32_t t) {
    for (int64_t j = 0; j < count; ++j) {
      const auto more = static_cast<uint32_t>(std::max(products[j] - t, 0));
      sum += more;
      squares += more * more;  // of 32 bits
    }
  }
#if defined(__AVX2__) && defined(__FMA__)
  // The same of a multiple of 16 products, at most 8,192, where none exceeds it by more than kSmall; if by no more than
  // kSmaller, sums of eight times two squares fit into 32 bits.
  void add_small(const int16_t* products, int64_t count, int16_t t, bool smaller) {
    const __m256i least = _mm256_set1_epi16(t), ones = _mm256_set1_epi16(1), none = _mm256_setzero_si256();
    __m256i total = none, all = none;
    for (int64_t j = 0; j < count;) {
      __m256i some = none;
      for (const int64_t stop = std::min(count, j + (smaller ? 8 * 16 : 16)); j < stop; j += 16) {
        const __m256i product = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(products + j));
        const __m256i more = _mm256_sub_epi16(_mm256_max_epi16(product, least), least);
        total = _mm256_add_epi32(total, _mm256_madd_epi16(more, ones));
        some = _mm256_add_epi32(some, _mm256_madd_epi16(more, more));
      }
      all =
          _mm256_add_epi64(all, _mm256_add_epi64(_mm256_unpacklo_epi32(some, none), _mm256_unpackhi_epi32(some, none)));
    }
    alignas(32) int32_t sums[8];
    alignas(32) int64_t both[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums), total);
    _mm256_store_si256(reinterpret_cast<__m256i*>(both), all);
    for (const int32_t one : sums) sum += one;
    for (const int64_t one : both) squares += one;
  }
#endif
};

// Of a multiple of 16 products. `most`: none exceeds t by more.
inline Excess excess(const int16_t* products, int64_t count, int32_t t, [[maybe_unused]] int32_t most) {
  Excess found;
#if defined(__AVX2__) && defined(__FMA__)
  if (most <= kSmall) {
    constexpr int64_t kTogether = 8192;
    for (int64_t j = 0; j < count; j += kTogether)
      found.add_small(products + j, std::min(count - j, kTogether), static_cast<int16_t>(t), most <= kSmaller);
    return found;
  }
#endif
  found.add(products, count, t);
  return found;
}

// What a product has to reach to lack at most `most` to all better ones, the root of the sum of squares: the least
// whole number t for which Σ (p − t)² ≤ most² over the products p > t. It is known to be at least `low`, which is at
// least `most` less than the best. `guess`: where to look first.
//
// By Newton's method: the root of the sum is convex, so that every step leads to where it is too large, or just right.
inline int32_t best_reach(const int16_t* products, int64_t count, int32_t guess, int32_t low, int32_t most) {
  const int64_t square = int64_t{most} * most;
  low = std::max<int32_t>(low, kHidden);
  bool below = guess <= low;  // whether it is known that t is not too high
  for (int32_t t = std::max(guess, low);;) {
    const Excess found = excess(products, count, t, most);
    if (found.squares <= square && below) return t;
    const double root = std::sqrt(static_cast<double>(found.squares));
    const double step = found.sum == 0 ? -most : (root - most) * root / static_cast<double>(found.sum);
    // More than rounding in float64 takes away, so that no step is too long.
    if (found.squares > square)
      t += std::max(1, static_cast<int32_t>(std::ceil(step - 1e-6)));
    else
      t = std::max(low, t + static_cast<int32_t>(std::floor(std::max(step, -1e6))));
    below = true;
  }
}

// The keys of a query that passed so far, and their products if they are compared with each other.
struct Passed {
  int* keys;
  int16_t* products;
  int count;

  // Take over the marked keys of two panels: key `ids[bit]`, or first + bit. Mostly a few are marked, and how many
  // cannot be foreseen: up to four are taken without a branch.
  template <bool Products>
  KERNEL_INLINE void append(uint64_t marks, const int16_t* panels, int first, const int* ids) {
    const int number = __builtin_popcountll(marks);
    if (number == 0) return;
    int* to = keys + count;
    int16_t* values = Products ? products + count : nullptr;
    const auto take = [&](int place) {
      const int bit = __builtin_ctzll(marks | uint64_t{1} << 63);
      to[place] = ids ? ids[bit] : first + bit;
      if (Products) values[place] = panels[(bit & 32) + screen_place(bit & 31)];
      marks &= marks - 1;
    };
    if (number <= 4)
      for (int place = 0; place < 4; ++place) take(place);
    else
      for (int place = 0; place < number; ++place) take(place);
    count += number;
  }

  // What a product has to reach to be among the best of these, at least `low`.
  int32_t reach(int32_t low, int32_t most) const {
    // There is room for what makes a multiple of 16, which nothing exceeds.
    std::fill_n(products + count, 16, kHidden);
    return best_reach(products, (count + 15) / 16 * 16, low, low, most);
  }

  // Keep those that reach it.
  void keep(int32_t reach) {
    int* const to = keys;
    int16_t* const values = products;
    int kept = 0;
    for (int j = 0, all = count; j < all; ++j) {
      const int key = to[j];
      const int16_t product = values[j];
      to[kept] = key;
      values[kept] = product;
      kept += product >= reach;
    }
    count = kept;
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
