// The backward pass, over the support that the forward pass saved: what got no weight has no gradient.
//
// With s = p^(1 − a) on the support, dz = s (dp − Σ s dp / Σ s) for dp = dO · V (see entmax.py). First every query by
// itself: dz and dQ. Then entries are sorted by key, and every key sums its dK and dV: threads never share a place.
#pragma once

#include "memory.h"
#include "panels.h"
#include "parallel.h"
#include "problem.h"
#include "support.h"
#include "threshold.h"
#include "values.h"

namespace sparsefinder::KERNEL_NAMESPACE {

struct Gradients {
  Vectors out;       // given: dO
  float *q, *k, *v;  // wanted, contiguous
  double* alpha;     // wanted for each (batch, head, block of queries) and summed by the caller, or null
};

constexpr int64_t kBackwardRows = 64;
constexpr int64_t kBackwardKeys = 64;

inline int64_t backward_blocks(int64_t n) { return (n + kBackwardRows - 1) / kBackwardRows; }

// ∂p/∂z at a fixed threshold.
KERNEL_INLINE void slopes(const float* weights, int padded, double alpha, const Exponent& exponent, float* slope) {
  if (exponent.closed() && exponent.whole == 2) {
    for (int j = 0; j < padded; j += kLanes) store(slope + j, root(load(weights + j)));
  } else if (exponent.closed()) {
    for (int j = 0; j < padded; j += kLanes) store(slope + j, one_above(load(weights + j), zeros()));
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

// One query: dz of its entries, times the scale, and dQ. Returns its part of dα if that is wanted.
inline double backward_row(const Problem& problem, const Gradients& wanted, int64_t b, int64_t h, int64_t i,
                           const Support::Row& row, const Exponent& exponent, float* dz, float* slope) {
  const double alpha = problem.alpha[h];
  const int64_t row_number = (b * problem.heads + h) * problem.n + i, key_head = problem.key_head(h);
  const float* grad = wanted.out.at(b, h, i);
  const float* v = problem.v.at(b, key_head, 0);
  const float* k = problem.k.at(b, key_head, 0);
  const int padded = row.padded();
  slopes(row.weights, padded, alpha, exponent, slope);
  Floats weighted = zeros(), total = zeros();
  for (int j = 0; j < padded; j += kLanes) {
    const float* eight[8];
    for (int l = 0; l < 8; ++l) eight[l] = v + row.keys[j + l] * problem.v.row;
    const Floats dp = dots(grad, eight, problem.width), s = load(slope + j);
    store(dz + j, dp);
    weighted = fused(s, dp, weighted);
    total = total + s;
  }
  const float slope_sum = sum(total);
  const float mean = slope_sum > 0.0f ? sum(weighted) / slope_sum : 0.0f;
  double alpha_part = 0.0;
  if (wanted.alpha)
    for (int j = 0; j < row.count; ++j)
      alpha_part += alpha_slope(row.weights[j], alpha - 1.0) * (static_cast<double>(dz[j]) - mean);
  const Floats means = spread(mean), scale = spread(static_cast<float>(problem.scale));
  for (int j = 0; j < padded; j += kLanes) store(dz + j, scale * load(slope + j) * (load(dz + j) - means));
  weighted_sum(
      row.count, [&](int j) { return k + row.keys[j] * problem.k.row; }, [&](int j) { return dz[j]; }, problem.depth,
      wanted.q + row_number * problem.depth);
  return alpha_part;
}

struct Entry {
  int row;  // of the group of heads that share this key head: (head within the group) · n + query
  float dz, weight;
};

inline void backward(const Problem& problem, const Support& support, const Gradients& wanted) {
  const int64_t heads = problem.batch * problem.heads, key_heads = problem.batch * problem.key_heads;
  const int64_t group = problem.heads / problem.key_heads, n = problem.n, m = problem.m;
  // Where each row's entries are in dz, in the order of rows.
  int64_t total = 0;
  int most = 0;
  Buffer<int64_t> places_memory;
  int64_t* places = places_memory.get(heads * n + 1);
  for (int64_t row = 0; row < heads * n; ++row) {
    places[row] = total;
    total += support.rows[row].padded();
    most = std::max(most, support.rows[row].padded());
  }
  places[heads * n] = total;
  Buffer<float> dz_memory;
  float* dz = dz_memory.get(total + 1);

  const int64_t blocks = backward_blocks(n);
  parallel(problem.threads, heads * blocks, [&](int64_t task) {
    static thread_local Buffer<float> slope_memory;
    float* slope = slope_memory.get(most + kLanes);
    const int64_t head = task / blocks, first = task % blocks * kBackwardRows;
    const Exponent exponent_of_head = exponent(problem.alpha[head % problem.heads]);
    double alpha_part = 0.0;
    for (int64_t i = first; i < n && i < first + kBackwardRows; ++i)
      alpha_part += backward_row(problem, wanted, head / problem.heads, head % problem.heads, i,
                                 support.rows[head * n + i], exponent_of_head, dz + places[head * n + i], slope);
    if (wanted.alpha) wanted.alpha[task] = alpha_part;
    slope_memory.trim();
  });

  // Sort by key. Entries of one key head are those of the rows of its group, which follow each other.
  Buffer<Entry> entries_memory;
  Entry* entries = entries_memory.get(total + 1);
  Buffer<int64_t> begins_memory;
  int64_t* begins = begins_memory.get(key_heads * (m + 1) + 1);
  parallel(problem.threads, key_heads, [&](int64_t key_head) {
    int64_t* next = begins + key_head * (m + 1);
    const int64_t first_row = key_head * group * n, rows = group * n;
    std::memset(next, 0, (m + 1) * sizeof(int64_t));
    for (int64_t row = first_row; row < first_row + rows; ++row)
      for (int j = 0; j < support.rows[row].count; ++j) ++next[support.rows[row].keys[j]];
    int64_t place = places[first_row];
    for (int64_t key = 0; key < m; ++key) {
      const int64_t count = next[key];
      next[key] = place;
      place += count;
    }
    for (int64_t row = first_row; row < first_row + rows; ++row) {
      const Support::Row& saved = support.rows[row];
      for (int j = 0; j < saved.count; ++j)
        entries[next[saved.keys[j]]++] = {static_cast<int>(row - first_row), dz[places[row] + j], saved.weights[j]};
    }
    // Now each is where its key ends.
    next[m] = place;
  });

  const int64_t parts = (m + kBackwardKeys - 1) / kBackwardKeys;
  parallel(problem.threads, key_heads * parts, [&](int64_t task) {
    const int64_t key_head = task / parts, first = task % parts * kBackwardKeys;
    const int64_t b = key_head / problem.key_heads, h = key_head % problem.key_heads * group;
    const int64_t* ends = begins + key_head * (m + 1);
    for (int64_t key = first; key < m && key < first + kBackwardKeys; ++key) {
      const Entry* mine = entries + (key == 0 ? places[key_head * group * n] : ends[key - 1]);
      const int count = static_cast<int>(entries + ends[key] - mine);
      const auto row_of = [&](const Vectors& vectors, int j) {
        const int64_t row = mine[j].row;
        return group == 1 ? vectors.at(b, h, row) : vectors.at(b, h + row / n, row % n);
      };
      weighted_sum(
          count, [&](int j) { return row_of(problem.q, j); }, [&](int j) { return mine[j].dz; }, problem.depth,
          wanted.k + (key_head * m + key) * problem.depth);
      weighted_sum(
          count, [&](int j) { return row_of(wanted.out, j); }, [&](int j) { return mine[j].weight; }, problem.width,
          wanted.v + (key_head * m + key) * problem.width);
    }
  });
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
