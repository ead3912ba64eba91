// What the two backward passes share: which gradients are wanted, ∂p/∂z at a fixed threshold, and dz of a row from its
// weights. With s = p^(1 − a) on the support, dz = s (dp − Σ s dp / Σ s) for dp = dO · V (see entmax.py).
#pragma once

#include "problem.h"
#include "threshold.h"

namespace sparsefinder::KERNEL_NAMESPACE {

struct Gradients {
  Vectors out;       // given: dO
  float *q, *k, *v;  // wanted, contiguous
  double* alpha;     // wanted for each (batch, head, block of queries) and summed by the caller, or null
};

constexpr int64_t kBackwardRows = 48;  // queries of a block: eight register tiles

inline int64_t backward_blocks(int64_t n) { return (n + kBackwardRows - 1) / kBackwardRows; }

// ∂p/∂z at a fixed threshold.
KERNEL_INLINE void slopes(const float* weights, int padded, double alpha, const Exponent& exponent, float* slope) {
  if (exponent.closed() && exponent.whole == 2) {
    for (int j = 0; j < padded; j += kLanes) store(slope + j, root(load(weights + j)));
  } else if (exponent.closed()) {
    for (int j = 0; j < padded; j += kLanes) store(slope + j, one_above(load(weights + j), zeros()));
  } else if (exponent.softmax()) {
    std::memcpy(slope, weights, padded * sizeof(float));
  } else {
    for (int j = 0; j < padded; ++j)
      slope[j] = weights[j] > 0.0f ? static_cast<float>(std::pow(static_cast<double>(weights[j]), 2.0 - alpha)) : 0.0f;
  }
}

// ∂p/∂α at a fixed threshold λ, as _alpha_slope in entmax.py.
inline double alpha_slope(double p, double a) {
  const double log = std::log(p), y = a * log;
  const double quotient = std::abs(y) < 0.05 ? 0.5 - y / 6 + y * y / 24 - y * y * y / 120 + y * y * y * y / 720
                                             : (std::expm1(-y) + y) / (y * y);
  return -p * log * log * quotient;
}

// Turn the dp of a row into its dz, times the scale, in place. Returns its part of dα if that is wanted.
KERNEL_INLINE double dz_of_row(const float* weights, const float* slope, int padded, double alpha, double scale,
                               bool alpha_wanted, float* dz) {
  Floats weighted = zeros(), total = zeros();
  for (int j = 0; j < padded; j += kLanes) {
    const Floats s = load(slope + j);
    weighted = fused(s, load(dz + j), weighted);
    total = total + s;
  }
  const float slope_sum = sum(total);
  const float mean = slope_sum > 0.0f ? sum(weighted) / slope_sum : 0.0f;
  double alpha_part = 0.0;
  if (alpha_wanted)
    for (int j = 0; j < padded; ++j)
      if (weights[j] > 0.0f) alpha_part += alpha_slope(weights[j], alpha - 1.0) * (static_cast<double>(dz[j]) - mean);
  const Floats means = spread(mean), scales = spread(static_cast<float>(scale));
  for (int j = 0; j < padded; j += kLanes) store(dz + j, scales * load(slope + j) * (load(dz + j) - means));
  return alpha_part;
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
