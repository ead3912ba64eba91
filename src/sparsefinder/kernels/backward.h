// The backward pass, over the support that the forward pass saved: what got no weight has no gradient.
//
// First every query by itself: dz and dQ. Then entries are sorted by key, and every key sums its dK and dV: threads
// never share a place. Heads whose rows are nearly full have a way of their own (full_rows.h).
#pragma once

#include "full_rows.h"
#include "values.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int64_t kBackwardKeys = 64;

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
  for (int j = 0; j < padded; j += kLanes) {
    const float* eight[8];
    for (int l = 0; l < 8; ++l) eight[l] = v + row.keys[j + l] * problem.v.row;
    store(dz + j, dots(grad, eight, problem.width));
  }
  const double alpha_part = dz_of_row(row.weights, slope, padded, alpha, problem.scale, wanted.alpha, dz);
  weighted_sum(
      row.count, [&](int j) { return k + row.keys[j] * problem.k.row; }, [&](int j) { return dz[j]; }, problem.depth,
      wanted.q + row_number * problem.depth);
  return alpha_part;
}

struct Entry {
  int row;  // of the group of heads that share this key head: (head within the group) · n + query
  float dz, weight;
};

// Memory for the entries of a key head, kept from call to call.
struct BackwardScratch {
  Buffer<int64_t> places, begins;
  Buffer<float> dz;
  Buffer<Entry> entries;
  static BackwardScratch& mine() {
    static thread_local BackwardScratch scratch;
    return scratch;
  }
};

// One key head, counted through all sequences, and the heads that share it, whose rows follow each other.
inline void backward_listed(const Problem& problem, const Support& support, const Gradients& wanted, int64_t number) {
  const int64_t group = problem.heads / problem.key_heads, n = problem.n, m = problem.m, count = group * n;
  const Support::Row* rows = support.rows.data() + number * count;
  BackwardScratch& scratch = BackwardScratch::mine();
  // Where each row's entries are in dz, in the order of rows.
  int64_t total = 0;
  int most = 0;
  int64_t* places = scratch.places.get(count + 1);
  for (int64_t row = 0; row < count; ++row) {
    places[row] = total;
    total += rows[row].padded();
    most = std::max(most, rows[row].padded());
  }
  places[count] = total;
  float* dz = scratch.dz.get(total + 1);

  const int64_t b = number / problem.key_heads, h = number % problem.key_heads * group, blocks = backward_blocks(n);
  parallel(problem.threads, group * blocks, [&](int64_t task) {
    static thread_local Buffer<float> slope_memory;
    float* slope = slope_memory.get(most + kLanes);
    const int64_t head = task / blocks, first = task % blocks * kBackwardRows;
    const Exponent exponent_of_head = exponent(problem.alpha[h + head]);
    double alpha_part = 0.0;
    for (int64_t i = first; i < n && i < first + kBackwardRows; ++i)
      alpha_part += backward_row(problem, wanted, b, h + head, i, rows[head * n + i], exponent_of_head,
                                 dz + places[head * n + i], slope);
    if (wanted.alpha) wanted.alpha[number * group * blocks + task] = alpha_part;
    slope_memory.trim();
  });

  // Sort by key.
  Entry* entries = scratch.entries.get(total + 1);
  int64_t* next = scratch.begins.get(m + 1);
  std::memset(next, 0, (m + 1) * sizeof(int64_t));
  for (int64_t row = 0; row < count; ++row)
    for (int j = 0; j < rows[row].count; ++j) ++next[rows[row].keys[j]];
  int64_t place = 0;
  for (int64_t key = 0; key < m; ++key) {
    const int64_t here = next[key];
    next[key] = place;
    place += here;
  }
  for (int64_t row = 0; row < count; ++row)
    for (int j = 0; j < rows[row].count; ++j)
      entries[next[rows[row].keys[j]]++] = {static_cast<int>(row), dz[places[row] + j], rows[row].weights[j]};

  // Now `next` says where each key ends.
  parallel(problem.threads, (m + kBackwardKeys - 1) / kBackwardKeys, [&](int64_t task) {
    for (int64_t key = task * kBackwardKeys; key < std::min(m, (task + 1) * kBackwardKeys); ++key) {
      const Entry* mine = entries + (key == 0 ? 0 : next[key - 1]);
      const int here = static_cast<int>(entries + next[key] - mine);
      const auto row_of = [&](const Vectors& vectors, int j) {
        const int64_t row = mine[j].row;
        return group == 1 ? vectors.at(b, h, row) : vectors.at(b, h + row / n, row % n);
      };
      weighted_sum(
          here, [&](int j) { return row_of(problem.q, j); }, [&](int j) { return mine[j].dz; }, problem.depth,
          wanted.k + (number * m + key) * problem.depth);
      weighted_sum(
          here, [&](int j) { return row_of(wanted.out, j); }, [&](int j) { return mine[j].weight; }, problem.width,
          wanted.v + (number * m + key) * problem.width);
    }
  });
  scratch.dz.trim();
  scratch.entries.trim();
}

// Each thread takes whole key heads, so that what they are sorted in stays in its cache and nobody waits for others;
// where there are too few heads for that, all threads work on one after the other.
inline void backward(const Problem& problem, const Support& support, const Gradients& wanted) {
  const int64_t key_heads = problem.batch * problem.key_heads;
  const bool apart = key_heads % problem.threads == 0 || key_heads >= 4 * problem.threads;
  Problem alone = problem;
  if (apart) alone.threads = 1;
  parallel(apart ? problem.threads : 1, key_heads, [&](int64_t number) {
    if (!backward_full(alone, support, wanted, number)) backward_listed(alone, support, wanted, number);
  });
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
