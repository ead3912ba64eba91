// The threshold τ of rows of scores, by Newton's method on the norm from the left, which never overshoots (solving.py).
//
// With a = α − 1 the kernels work on x = a z, so that a weight is (x − τ)₊^(1/a) and τ lies between max(x) − 1 and
// max(x). The τ of some of a row's scores never exceeds the τ of all of them: it already rules keys out.
//
// Softmax has no threshold. Its x is z / 64, so that what lies 1 below the best has e^-64 of the best's weight, which
// makes no difference in float32 however many such keys there are: the same bound rules them out.
#pragma once

#include <limits>

#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// 1/a of a head, and the whole number from it upwards. As x − τ ≤ 1, the larger exponent gives smaller weights and so a
// τ that is too low if anything: a bound that needs whole powers only.
struct Exponent {
  double exact;
  int whole;  // 0 if it is too large to be worth it
  bool softmax() const { return std::isinf(exact); }
  bool closed() const { return whole > 0 && whole <= 2 && exact == whole; }
};

constexpr float kSoftmaxReach = 64.0f;

// What scores are multiplied by: x = a z.
inline double steepness(double alpha) { return alpha == 1.0 ? 1.0 / kSoftmaxReach : alpha - 1.0; }

inline Exponent exponent(double alpha) {
  if (alpha == 1.0) return {std::numeric_limits<double>::infinity(), 0};
  const double exact = 1.0 / (alpha - 1.0);
  // A tensor of 1.5s made in float32 must get the closed form too.
  const double near = std::nearbyint(exact);
  if (near > 0 && std::abs(exact - near) < 1e-6 * near) return {near, near > 16 ? 0 : static_cast<int>(near)};
  return {exact, exact > 16 ? 0 : static_cast<int>(std::ceil(exact))};
}

// A little lower: what rounding may have added to a threshold of this size. Keeps "proven" true in float32.
KERNEL_INLINE float lowered(float threshold) { return threshold - (1e-6f + 5e-7f * std::abs(threshold)); }

// Σ (x − bound)₊^(k − 1) and Σ (x − bound)₊^k over values that are padded to a multiple of 8 with kNothing.
struct Moments {
  float below, at;
};

template <int Power>
KERNEL_INLINE Moments moments(const float* values, int count, float bound, int power) {
  const Floats bounds = spread(bound), zero = zeros();
  Floats below = zero, at = zero;
  for (int j = 0; j < count; j += kLanes) {
    const Floats difference = load(values + j) - bounds;
    const Floats y = larger(difference, zero);
    Floats lower = Power == 1 ? one_above(difference, zero) : y;
    if (Power == 0)
      for (int k = 2; k < power; ++k) lower = lower * y;
    below = below + lower;
    at = fused(lower, y, at);
  }
  return {sum(below), sum(at)};
}

// A better lower bound on τ, from one that is known.
KERNEL_INLINE float improved(const float* values, int count, float bound, int power) {
  Moments sums;
  float norm;
  if (power == 2) {
    sums = moments<2>(values, count, bound, 2);
    norm = std::sqrt(sums.at);
  } else if (power == 1) {
    sums = moments<1>(values, count, bound, 1);
    norm = sums.at;
  } else {
    sums = moments<0>(values, count, bound, power);
    norm = std::pow(sums.at, 1.0f / static_cast<float>(power));
  }
  if (!(sums.at > 1.0f)) return bound;
  return std::max(bound, lowered(bound + (sums.at - sums.at / norm) / sums.below));
}

// The same for up to eight rows at once, for exponent 1 or 2: two steps each. Horizontal sums, roots and quotients,
// which one row would wait for, are shared.
template <int Power>
void improve_eight(const float* const values[8], const int counts[8], int rows, float bounds[8]) {
  const Floats zero = zeros();
  for (int r = rows; r < 8; ++r) bounds[r] = 0.0f;
  for (int step = 0; step < 2; ++step) {
    Floats below[8], at[8];
    for (int r = 0; r < 8; ++r) {
      Floats low = zero, high = zero;
      const Floats bound = spread(bounds[r]);
      for (int j = 0; r < rows && j < counts[r]; j += kLanes) {
        const Floats difference = load(values[r] + j) - bound;
        const Floats y = larger(difference, zero);
        low = low + (Power == 1 ? one_above(difference, zero) : y);
        high = Power == 2 ? fused(y, y, high) : high + y;
      }
      below[r] = low;
      at[r] = high;
    }
    const Floats total = sums(at), bound = load(bounds);
    const Floats excess = total - (Power == 2 ? root(total) : spread(1.0f));
    const Floats next = bound + excess / larger(sums(below), spread(1e-30f));
    const Floats slack = fused(larger(next, zero - next), spread(5e-7f), spread(1e-6f));
    store(bounds, larger(next - slack, bound));
  }
}

constexpr int kTransposed = 256;  // rows with more candidates than this are solved one by one

// τ of up to eight rows at once, for exponent 1 or 2. Values are relative to each row's bound, at which the weights sum
// to at least one, and padded. Returns a bit for each row that did not settle.
template <int Power>
unsigned solve_eight(float* const values[8], const int counts[8], int rows, float* transposed, float tau[8]) {
  int most = 0;
  for (int r = 0; r < rows; ++r) most = std::max(most, counts[r]);
  const Floats nothing = spread(kNothing);
  for (int j = 0; j < most; j += kLanes) {
    Floats part[8];
    for (int r = 0; r < 8; ++r) part[r] = r < rows && j < counts[r] ? load(values[r] + j) : nothing;
    transpose(part);
    for (int r = 0; r < 8; ++r) store(transposed + (j + r) * kLanes, part[r]);
  }
  const int padded = (most + 7) & ~7;
  const Floats zero = zeros(), one = spread(1.0f), tiny = spread(1e-30f);
  Floats t = zero, seen = spread(-1.0f);
  unsigned settled = 0;
  for (int step = 0; step < 16; ++step) {
    Floats below[2] = {zero, zero}, at[2] = {zero, zero}, number[2] = {zero, zero};
    for (int j = 0; j < padded; j += 2)
      for (int half = 0; half < 2; ++half) {
        const Floats difference = load(transposed + (j + half) * kLanes) - t;
        const Floats y = larger(difference, zero);
        number[half] = number[half] + one_above(difference, zero);
        if (Power == 2) below[half] = below[half] + y;
        at[half] = Power == 2 ? fused(y, y, at[half]) : at[half] + y;
      }
    const Floats count = number[0] + number[1], s1 = below[0] + below[1], s = at[0] + at[1];
    // Once the support repeats, the closed form over it was the answer.
    if (step > (Power == 2 ? 2 : 0)) settled = bits_equal(count, seen);
    if (settled == 255) break;
    if (Power == 1) {
      t = t + (s - one) / larger(count, one);
      seen = count;
    } else if (step < 2) {
      t = t + larger((s - root(s)) / larger(s1, tiny), zero);
    } else {
      const Floats excess = s - one;
      const Floats discriminant = larger(s1 * s1 - count * excess, zero);
      t = t + excess / larger(s1 + root(discriminant), tiny);
      seen = count;
    }
  }
  store(tau, t);
  return ~settled & 255u;
}

// The same for one row of many candidates. Returns whether it settled.
template <int Power>
bool solve_long(const float* values, int count, float& tau) {
  const Floats zero = zeros();
  float t = 0.0f, seen = -1.0f;
  for (int step = 0; step < 16; ++step) {
    const Floats threshold = spread(t);
    Floats below[2] = {zero, zero}, at[2] = {zero, zero}, number[2] = {zero, zero};
    const auto add = [&](int j, int half) {
      const Floats difference = load(values + j) - threshold;
      const Floats y = larger(difference, zero);
      number[half] = number[half] + one_above(difference, zero);
      if (Power == 2) below[half] = below[half] + y;
      at[half] = Power == 2 ? fused(y, y, at[half]) : at[half] + y;
    };
    int j = 0;
    for (; j + kLanes < count; j += 2 * kLanes) {
      add(j, 0);
      add(j + kLanes, 1);
    }
    if (j < count) add(j, 0);
    const float n = sum(number[0] + number[1]), s1 = sum(below[0] + below[1]), s = sum(at[0] + at[1]);
    tau = t;
    if (step > (Power == 2 ? 2 : 0) && n == seen) return true;
    if (Power == 1) {
      t += (s - 1.0f) / std::max(n, 1.0f);
      seen = n;
    } else if (step < 2) {
      t += std::max((s - std::sqrt(s)) / std::max(s1, 1e-30f), 0.0f);
    } else {
      const float excess = s - 1.0f;
      t += excess / std::max(s1 + std::sqrt(std::max(s1 * s1 - n * excess, 0.0f)), 1e-30f);
      seen = n;
    }
  }
  return false;
}

// The same, however many candidates, without shortcuts.
inline float solve_one(const float* values, int count, int power) {
  float tau = 0.0f;
  for (int step = 0; step < 60; ++step) {
    const Moments sums = power == 2 ? moments<2>(values, count, tau, 2) : moments<1>(values, count, tau, 1);
    if (!(sums.at > 1.0f) || !(sums.below > 0.0f)) break;
    const float norm = power == 2 ? std::sqrt(sums.at) : sums.at;
    const float next = tau + (sums.at - sums.at / norm) / sums.below;
    if (!(next > tau)) break;
    tau = next;
  }
  return tau;
}

// Any other α: in float64, because near α = 1 a weight is a high power of x − τ, and relative to the highest score
// `top`: τ is then above −1, and no power is above 1, however large scores are.
inline double solve_any(const float* values, int count, float bound, float top, double exact) {
  double tau = std::max(-1.0, static_cast<double>(bound) - top);
  if (exact >= 1.0) {
    for (int step = 0; step < 60; ++step) {
      double at = 0.0, below = 0.0;
      for (int j = 0; j < count; ++j) {
        const double y = static_cast<double>(values[j]) - top - tau;
        if (y <= 0.0) continue;
        const double p = std::pow(y, exact);
        at += p;
        below += p / y;
      }
      if (!(at > 1.0)) break;
      const double rise = (at - at / std::pow(at, 1.0 / exact)) / below;
      tau += rise;
      if (rise < 1e-12) break;
    }
    return tau;
  }
  // Above α = 2 a weight leaves the support with an infinite slope: the bracket is halved instead.
  double high = 0.0;
  for (int step = 0; step < 60; ++step) {
    const double middle = (tau + high) / 2;
    double at = 0.0;
    for (int j = 0; j < count; ++j) {
      const double y = static_cast<double>(values[j]) - top - middle;
      if (y > 0.0) at += std::pow(y, exact);
    }
    (at >= 1.0 ? tau : high) = middle;
  }
  return tau;
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
