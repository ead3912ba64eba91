// Eight floats (or integers) at a time, in two versions with the same names: AVX2 with FMA, and a plain twin for every
// other processor. The kernels are written once against these names and compiled twice, each time in its own namespace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "constants.h"

#if defined(__AVX2__) && defined(__FMA__)
#define KERNEL_NAMESPACE avx2
#include <immintrin.h>
#else
#define KERNEL_NAMESPACE scalar
#endif

// Under the sanitizers every access gets checks: inlined and unrolled, they would take the compiler minutes.
#if defined(SPARSEFINDER_SANITIZED)
#define KERNEL_INLINE inline
#else
#define KERNEL_INLINE inline __attribute__((always_inline))
#endif

namespace sparsefinder::KERNEL_NAMESPACE {

#if defined(__AVX2__) && defined(__FMA__)

struct Floats {
  __m256 v;
};
struct Ints {
  __m256i v;
};

KERNEL_INLINE Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
KERNEL_INLINE void store(float* p, Floats a) { _mm256_storeu_ps(p, a.v); }
KERNEL_INLINE Floats spread(float a) { return {_mm256_set1_ps(a)}; }
KERNEL_INLINE Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
KERNEL_INLINE Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
KERNEL_INLINE Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
KERNEL_INLINE Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.v, b.v)}; }
KERNEL_INLINE Floats fused(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
KERNEL_INLINE Floats larger(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
KERNEL_INLINE Floats root(Floats a) { return {_mm256_sqrt_ps(a.v)}; }
// One where a > b, else zero.
KERNEL_INLINE Floats one_above(Floats a, Floats b) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ), _mm256_set1_ps(1.0f))};
}
// A bit for each lane in which a > b.
KERNEL_INLINE unsigned bits_above(Floats a, Floats b) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)));
}
KERNEL_INLINE unsigned bits_up_to(Floats a, Floats b) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)));
}
KERNEL_INLINE unsigned bits_equal(Floats a, Floats b) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)));
}
// The lanes first … first + 7 that are in low … high - 1 keep their score, the others have none.
KERNEL_INLINE Floats only_between(Floats a, int first, int low, int high) {
  const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
  const __m256i inside = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(low), lane),
                                             _mm256_cmpgt_epi32(_mm256_set1_epi32(high), lane));
  return {_mm256_blendv_ps(_mm256_set1_ps(kNothing), a.v, _mm256_castsi256_ps(inside))};
}

KERNEL_INLINE float sum(Floats a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
KERNEL_INLINE float largest(Floats a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

KERNEL_INLINE Ints load(const int* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
KERNEL_INLINE void store(int* p, Ints a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
KERNEL_INLINE Ints counting_from(int first) {
  return {_mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first))};
}

// For each mask of eight bits the places of its ones, a byte each: what moves the chosen lanes to the front.
struct Places {
  alignas(64) uint64_t of[256];
  constexpr Places() : of{} {
    for (int mask = 0; mask < 256; ++mask) {
      int count = 0;
      for (int bit = 0; bit < 8; ++bit)
        if (mask >> bit & 1) of[mask] |= static_cast<uint64_t>(bit) << (8 * count++);
    }
  }
};
inline constexpr Places kPlaces;

KERNEL_INLINE __m256i places(unsigned mask) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kPlaces.of[mask])));
}
KERNEL_INLINE Floats to_front(Floats a, unsigned mask) { return {_mm256_permutevar8x32_ps(a.v, places(mask))}; }
KERNEL_INLINE Ints to_front(Ints a, unsigned mask) { return {_mm256_permutevar8x32_epi32(a.v, places(mask))}; }
// The places of the chosen lanes, counted from `first`, at the front.
KERNEL_INLINE Ints places_from(int first, unsigned mask) {
  return {_mm256_add_epi32(places(mask), _mm256_set1_epi32(first))};
}

KERNEL_INLINE void transpose(Floats r[8]) {
  __m256 t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i].v, r[i + 1].v);
    t[i + 1] = _mm256_unpackhi_ps(r[i].v, r[i + 1].v);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      u[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
      u[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xEE);
    }
  for (int i = 0; i < 4; ++i) {
    r[i].v = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4].v = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// a · 2^n, for whole n and results that are neither too large nor too small for a float.
KERNEL_INLINE Floats times_power_of_two(Floats a, Floats n) {
  const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.v), shift))};
}

// Eight numbers from -127 to 127, rounded to the nearest whole ones, of two the even one.
KERNEL_INLINE void store_rounded(int8_t* p, Floats a) {
  const __m256i whole = _mm256_cvtps_epi32(a.v);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

// The sums of eight vectors, as one vector: shuffles and adds, cheaper than eight horizontal sums.
KERNEL_INLINE Floats sums(const Floats a[8]) {
  __m256 h[4], g[2];
  for (int i = 0; i < 4; ++i)
    h[i] =
        _mm256_add_ps(_mm256_unpacklo_ps(a[2 * i].v, a[2 * i + 1].v), _mm256_unpackhi_ps(a[2 * i].v, a[2 * i + 1].v));
  for (int i = 0; i < 2; ++i)
    g[i] =
        _mm256_add_ps(_mm256_shuffle_ps(h[2 * i], h[2 * i + 1], 0x44), _mm256_shuffle_ps(h[2 * i], h[2 * i + 1], 0xEE));
  return {_mm256_add_ps(_mm256_permute2f128_ps(g[0], g[1], 0x20), _mm256_permute2f128_ps(g[0], g[1], 0x31))};
}

#else

struct Floats {
  float v[8];
};
struct Ints {
  int v[8];
};

template <class Operation>
KERNEL_INLINE Floats each(Operation operation) {
  Floats result;
  for (int lane = 0; lane < 8; ++lane) result.v[lane] = operation(lane);
  return result;
}

KERNEL_INLINE Floats load(const float* p) {
  return each([&](int i) { return p[i]; });
}
KERNEL_INLINE void store(float* p, Floats a) { std::memcpy(p, a.v, sizeof a.v); }
KERNEL_INLINE Floats spread(float a) {
  return each([&](int) { return a; });
}
KERNEL_INLINE Floats operator+(Floats a, Floats b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
KERNEL_INLINE Floats operator-(Floats a, Floats b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
KERNEL_INLINE Floats operator*(Floats a, Floats b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
KERNEL_INLINE Floats operator/(Floats a, Floats b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
KERNEL_INLINE Floats fused(Floats a, Floats b, Floats c) { return a * b + c; }
// Of a NaN and a number, b: as the instruction.
KERNEL_INLINE Floats larger(Floats a, Floats b) {
  return each([&](int i) { return std::max(b.v[i], a.v[i]); });
}
KERNEL_INLINE Floats root(Floats a) {
  return each([&](int i) { return std::sqrt(a.v[i]); });
}
KERNEL_INLINE Floats one_above(Floats a, Floats b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? 1.0f : 0.0f; });
}
KERNEL_INLINE unsigned bits_above(Floats a, Floats b) {
  unsigned bits = 0;
  for (int i = 0; i < 8; ++i) bits |= static_cast<unsigned>(a.v[i] > b.v[i]) << i;
  return bits;
}
KERNEL_INLINE unsigned bits_up_to(Floats a, Floats b) {
  unsigned bits = 0;
  for (int i = 0; i < 8; ++i) bits |= static_cast<unsigned>(a.v[i] <= b.v[i]) << i;
  return bits;
}
KERNEL_INLINE unsigned bits_equal(Floats a, Floats b) {
  unsigned bits = 0;
  for (int i = 0; i < 8; ++i) bits |= static_cast<unsigned>(a.v[i] == b.v[i]) << i;
  return bits;
}
KERNEL_INLINE Floats only_between(Floats a, int first, int low, int high) {
  return each([&](int i) { return first + i >= low && first + i < high ? a.v[i] : kNothing; });
}

KERNEL_INLINE float sum(Floats a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}
KERNEL_INLINE float largest(Floats a) {
  float top = a.v[0];
  for (int i = 1; i < 8; ++i) top = std::max(top, a.v[i]);
  return top;
}

KERNEL_INLINE Ints load(const int* p) {
  Ints result;
  std::memcpy(result.v, p, sizeof result.v);
  return result;
}
KERNEL_INLINE void store(int* p, Ints a) { std::memcpy(p, a.v, sizeof a.v); }
KERNEL_INLINE Ints counting_from(int first) {
  Ints result;
  for (int i = 0; i < 8; ++i) result.v[i] = first + i;
  return result;
}

template <class Vector>
KERNEL_INLINE Vector to_front(Vector a, unsigned mask) {
  Vector result = a;
  int count = 0;
  for (int i = 0; i < 8; ++i)
    if (mask >> i & 1) result.v[count++] = a.v[i];
  return result;
}

KERNEL_INLINE Ints places_from(int first, unsigned mask) { return to_front(counting_from(first), mask); }

KERNEL_INLINE void transpose(Floats r[8]) {
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < i; ++j) std::swap(r[i].v[j], r[j].v[i]);
}

KERNEL_INLINE Floats times_power_of_two(Floats a, Floats n) {
  return each([&](int i) { return std::ldexp(a.v[i], static_cast<int>(n.v[i])); });
}

KERNEL_INLINE void store_rounded(int8_t* p, Floats a) {
  for (int i = 0; i < 8; ++i) p[i] = static_cast<int8_t>(std::nearbyint(a.v[i]));
}

KERNEL_INLINE Floats sums(const Floats a[8]) {
  return each([&](int i) { return sum(a[i]); });
}

#endif

KERNEL_INLINE Floats zeros() { return spread(0.0f); }

// The nearest whole numbers, of numbers below 2^22: adding and subtracting 1.5 · 2^23 leaves no fraction.
KERNEL_INLINE Floats to_whole(Floats a) { return (a + spread(12582912.0f)) - spread(12582912.0f); }

// e^x of numbers up to 0, to rounding; below -87, where floats end, as of -87. It is 2^n e^r, with |r| at most half of
// ln 2, and the first terms of e^r's series.
KERNEL_INLINE Floats exponential(Floats x) {
  x = larger(x, spread(-87.0f));
  const Floats n = to_whole(x * spread(1.44269504f));
  // ln 2 in two parts, so that the product with the first is exact.
  const Floats r = fused(n, spread(-1.42860677e-6f), fused(n, spread(-0.693145752f), x));
  Floats sum = spread(1.0f / 5040.0f);
  for (const float term : {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f})
    sum = fused(sum, r, spread(term));
  return times_power_of_two(sum, n);
}

// Zero times a number is NaN if the number is not finite. Added up from zeros(), that tells whether there was one.
KERNEL_INLINE Floats poisoned(Floats poison, Floats numbers) { return fused(numbers, zeros(), poison); }
KERNEL_INLINE bool any_nonfinite(Floats poison) { return sum(poison) != 0.0f; }

}  // namespace sparsefinder::KERNEL_NAMESPACE
