// From candidates to results: the exact threshold, the weights, and the sum of the values that got weight.
#pragma once

#include "candidates.h"
#include "panels.h"
#include "problem.h"
#include "support.h"
#include "values.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// What x − τ has to exceed for a weight. From α = 2 on the gradient jumps where a key gets weight: what is above τ by
// rounding alone stays out (as in solving.py). The highest score of a row always has more: (1 / count)^a at least.
inline double edge(const Exponent& exponent, int count) {
  if (exponent.exact > 1.0 || count == 0) return 0.0;
  const double rounding =
      exponent.closed() ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  return std::min(8.0 * rounding, 0.5 * std::pow(count, -1.0 / exponent.exact));
}

// Turn the candidates of a row into their weights, in place, in float64: what is left has weight.
inline void weigh_one(Candidates& row, const Exponent& exponent) {
  const float top = row.count ? *std::max_element(row.values, row.values + row.count) : 0.0f;
  const double tau = solve_any(row.values, row.count, row.bound, top, exponent.exact);
  const double least = edge(exponent, row.count);
  double total = 0.0;
  int kept = 0;
  for (int j = 0; j < row.count; ++j) {
    const double y = static_cast<double>(row.values[j]) - top - tau;
    if (y <= least) continue;
    const double p = std::pow(y, exponent.exact);
    // Near α = 1 a weight is a high power of y: it may be too small for a float.
    row.values[kept] = static_cast<float>(p);
    if (row.values[kept] == 0.0f) continue;
    total += p;
    row.keys[kept++] = row.keys[j];
  }
  // τ is only known to rounding.
  for (int j = 0; j < kept; ++j) row.values[j] = static_cast<float>(row.values[j] / total);
  row.count = kept;
}

// The same of softmax, in float32. Sums of a stretch at a time are added up in float64.
inline void weigh_softmax(Candidates& row) {
  constexpr int kStretch = 1024;
  pad(row.values, row.count);
  Floats tops = spread(kNothing);
  for (int j = 0; j < row.count; j += kLanes) tops = larger(tops, load(row.values + j));
  const Floats top = spread(largest(tops)), reach = spread(kSoftmaxReach), zero = zeros();
  double total = 0.0;
  for (int start = 0; start < row.count; start += kStretch) {
    Floats part = zero;
    for (int j = start; j < std::min(row.count, start + kStretch); j += kLanes) {
      const Floats x = load(row.values + j), p = exponential((x - top) * reach);
      store(row.values + j, p);
      // What the last ones are padded with counts for nothing.
      part = part + p;
    }
    total += sum(part);
  }
  const Floats share = spread(static_cast<float>(1.0 / total));
  for (int j = 0; j < row.count; j += kLanes) store(row.values + j, load(row.values + j) * share);
}

// The same for up to eight rows with a closed form, in float32.
inline void weigh_eight(Candidates* const rows[8], int number, const Exponent& exponent, float* transposed) {
  float* values[8];
  int counts[8];
  bool fits = true;
  for (int r = 0; r < number; ++r) {
    Candidates& row = *rows[r];
    pad(row.values, row.count);
    // Differences of neighbouring numbers are exact, so that large scores cost no precision from here on.
    const Floats bound = spread(row.bound);
    for (int j = 0; j < row.count; j += kLanes) store(row.values + j, load(row.values + j) - bound);
    values[r] = row.values;
    counts[r] = row.count;
    fits = fits && row.count <= kTransposed;
  }
  float tau[8];
  unsigned unsettled = 255;
  if (fits)
    unsettled = exponent.whole == 2 ? solve_eight<2>(values, counts, number, transposed, tau)
                                    : solve_eight<1>(values, counts, number, transposed, tau);
  for (int r = 0; r < number; ++r) {
    Candidates& row = *rows[r];
    if (row.count == 0) continue;
    if (unsettled >> r & 1) {
      const bool settled = !fits && (exponent.whole == 2 ? solve_long<2>(row.values, row.count, tau[r])
                                                         : solve_long<1>(row.values, row.count, tau[r]));
      if (!settled) tau[r] = solve_one(row.values, row.count, exponent.whole);
    }
    const auto least = static_cast<float>(edge(exponent, row.count));
    row.count = keep_above(row.values, row.keys, row.count, tau[r] + least);
    const Floats thresholds = spread(tau[r]);
    for (int j = 0; j < row.count; j += kLanes) {
      const Floats y = load(row.values + j) - thresholds;
      store(row.values + j, exponent.whole == 2 ? y * y : y);
    }
  }
}

// Scores beyond this are so far apart that float32 does not have what lies between a score and one below it.
constexpr float kLargeScore = 1e6f;

// Turn the candidates of up to eight rows into their weights, in place: what is left has weight.
inline void weigh(Candidates* const rows[8], int number, const Exponent& exponent, float* transposed) {
  Candidates* together[8];
  int count = 0;
  for (int r = 0; r < number; ++r) {
    if (exponent.softmax())
      weigh_softmax(*rows[r]);
    else if (exponent.closed() && std::abs(rows[r]->bound) < kLargeScore)
      together[count++] = rows[r];
    else
      weigh_one(*rows[r], exponent);
  }
  if (count) weigh_eight(together, count, exponent, transposed);
}

// The results of a task's rows: sums of values, once the weights are known.
struct Sums {
  const float* values;
  int64_t apart, width;
  const Candidates* rows;
  float* out;

  Sums(const Problem& problem, int64_t b, int64_t h, int64_t first, const Candidates* rows)
      : values(problem.v.at(b, problem.key_head(h), 0)), apart(problem.v.row), width(problem.width), rows(rows),
        out(problem.out + ((b * problem.heads + h) * problem.n + first) * problem.width) {}

  void ask(const Candidates& row, int entry) const { prefetch(values + row.keys[entry] * apart, width); }
  void ask_for_result(const Candidates& row) const { prefetch_to_write(out + (&row - rows) * width, width); }
  template <bool Far>
  void sum(const Candidates& row) const {
    weighted_sum<Far>(
        row.count, [&](int j) { return values + row.keys[j] * apart; }, [&](int j) { return row.values[j]; }, width,
        out + (&row - rows) * width);
  }
};

// Weights and results of `count` rows whose candidates are complete: those that `order` names, or the first
// ones if it is null. Rows that share keys should follow each other, so that values are still in the cache: if they are
// all there, they are not `Far`.
template <bool Far = true>
void conclude(Candidates* rows, const int* order, int64_t count, const Exponent& exponent, float* transposed,
              const Sums& sums) {
  for (int64_t start = 0; start < count; start += 8) {
    Candidates* eight[8];
    const int number = static_cast<int>(std::min<int64_t>(count - start, 8));
    for (int r = 0; r < number; ++r) eight[r] = rows + (order ? order[start + r] : start + r);
    // Rows that are named lie anywhere.
    for (int r = 0; order && r < number; ++r) sums.ask_for_result(*eight[r]);
    weigh(eight, number, exponent, transposed);
    for (int r = 0; r < number; ++r) {
      // The first values of the next row; within a row they are asked for as it goes.
      if (Far && r + 1 < number)
        for (int j = 0; j < kAhead && j < eight[r + 1]->count; ++j) sums.ask(*eight[r + 1], j);
      sums.template sum<Far>(*eight[r]);
    }
  }
}

// Keep the support of `size` concluded rows of a head from query `first` on.
inline void keep(const Problem& problem, int64_t b, int64_t h, int64_t first, int64_t size, const Candidates* rows,
                 Support& support, int64_t task) {
  int64_t total = 0;
  for (int64_t r = 0; r < size; ++r) total += (rows[r].count + 7) & ~7;
  Support::Chunk& chunk = support.chunks[task];
  chunk = {std::make_unique_for_overwrite<int[]>(total), std::make_unique_for_overwrite<float[]>(total)};
  int* keys = chunk.keys.get();
  float* weights = chunk.weights.get();
  for (int64_t r = 0; r < size; ++r) {
    const Candidates& row = rows[r];
    Support::Row& saved = support.rows[(b * problem.heads + h) * problem.n + first + r];
    saved = {keys, weights, row.count};
    std::memcpy(keys, row.keys, row.count * sizeof(int));
    std::memcpy(weights, row.values, row.count * sizeof(float));
    for (int j = row.count; j < saved.padded(); ++j) {
      keys[j] = row.keys[0];
      weights[j] = 0.0f;
    }
    keys += saved.padded();
    weights += saved.padded();
  }
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
