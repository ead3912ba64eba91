// The backward pass where most of what a query may see got weight, as with fresh weights: products of whole matrices,
// which take a fraction of the time for each pair that sorting and listing do (see backward.h for the formulas).
//
// Blocks of queries write their weights and dz out, zeros included, which stay in the cache; then every key sums its
// column of them: threads never share a place.
#pragma once

#include "memory.h"
#include "panels.h"
#include "parallel.h"
#include "problem.h"
#include "slopes.h"
#include "support.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kFullTile = 6;                  // rows of a register tile, which has 16 columns
constexpr int64_t kFullRows = kBackwardRows;  // queries of a block
constexpr int64_t kFullKeys = 48;             // keys that are summed at a time
// From this share of pairs with weight on it is faster.
constexpr double kFullShare = 0.3;

// Queries of one head, and the keys among which all are that they gave weight to.
struct FullBlock {
  int64_t head, first, count;  // `head` counts through all sequences
  int64_t low = std::numeric_limits<int64_t>::max(), high = 0;
  int64_t used = 0;   // pairs with weight
  int64_t place = 0;  // of its matrices
  int64_t stride() const { return (high - low + kPanel - 1) / kPanel * kPanel + kPanel; }
};

// A head's vectors one after the other: where heads lie between each other, theirs would evict each other from the
// cache. Returns whether all numbers are finite.
inline bool gather(const Vectors& vectors, int64_t b, int64_t h, int64_t length, int64_t depth, float* dst) {
  Floats poison = zeros();
  for (int64_t i = 0; i < length; ++i)
    for (int64_t d = 0; d < depth; d += kLanes) {
      const Floats part = load(vectors.at(b, h, i) + d);
      poison = poisoned(poison, part);
      store(dst + i * depth + d, part);
    }
  return !any_nonfinite(poison);
}

// Look which keys the queries of a block gave weight to.
inline void find_keys(const Support& support, int64_t n, FullBlock& block) {
  for (int64_t i = block.first; i < block.first + block.count; ++i) {
    const Support::Row& row = support.rows[block.head * n + i];
    if (row.count == 0) continue;
    int least = row.keys[0], most = row.keys[0];
    for (int j = 0; j < row.count; ++j) {
      least = std::min(least, row.keys[j]);
      most = std::max(most, row.keys[j]);
    }
    block.low = std::min<int64_t>(block.low, least / kPanel * kPanel);
    block.high = std::max<int64_t>(block.high, most + 1);
    block.used += row.count;
  }
  block.low = std::min(block.low, block.high);
}

// A matrix as a product reads it: entry (r, j) is at data[r · row + j · step].
struct Factors {
  const float* data;
  int64_t row, step;
};

// Parts · 8 columns of six rows of a product: total[r] = Σ_j left(r, j) · right[j].
template <int Parts>
KERNEL_INLINE void product_tile(int64_t count, Factors left, const float* right, int64_t apart,
                                Floats (&total)[kFullTile][Parts]) {
  const float* rows[kFullTile];
#pragma GCC unroll 6
  for (int r = 0; r < kFullTile; ++r) {
    rows[r] = left.data + r * left.row;
#pragma GCC unroll 2
    for (int p = 0; p < Parts; ++p) total[r][p] = zeros();
  }
  for (int64_t j = 0; j < count; ++j) {
    Floats part[Parts];
#pragma GCC unroll 2
    for (int p = 0; p < Parts; ++p) part[p] = load(right + p * kLanes);
    right += apart;
#pragma GCC unroll 6
    for (int r = 0; r < kFullTile; ++r) {
      const Floats factor = spread(*rows[r]);
      rows[r] += left.step;
#pragma GCC unroll 2
      for (int p = 0; p < Parts; ++p) total[r][p] = fused(factor, part[p], total[r][p]);
    }
  }
}

// The first `rows` ≤ 6 rows of out (+)= left · right, of `width` columns, a multiple of 8.
template <bool Add>
KERNEL_INLINE void product_rows(int rows, int64_t count, int64_t width, Factors left, const float* right, int64_t apart,
                                float* out, int64_t out_apart) {
  const auto columns = [&]<int Parts>(int64_t column) {
    Floats total[kFullTile][Parts];
    product_tile<Parts>(count, left, right + column, apart, total);
#pragma GCC unroll 6
    for (int r = 0; r < kFullTile; ++r) {
      if (r >= rows) break;
#pragma GCC unroll 2
      for (int p = 0; p < Parts; ++p) {
        float* place = out + r * out_apart + column + p * kLanes;
        store(place, Add ? load(place) + total[r][p] : total[r][p]);
      }
    }
  };
  int64_t column = 0;
  for (; column + 2 * kLanes <= width; column += 2 * kLanes) columns.template operator()<2>(column);
  if (column < width) columns.template operator()<1>(column);
}

// A block of queries: weights and dz written out, and dQ. Returns its part of dα if that is wanted.
inline double full_queries(const Problem& problem, const Support& support, const Gradients& wanted,
                           const FullBlock& block, const float* panels, float* weights, float* dz) {
  static thread_local Buffer<float> grad_memory, slope_memory;
  const int64_t b = block.head / problem.heads, h = block.head % problem.heads, key_head = problem.key_head(h);
  const int64_t width = problem.width, stride = block.stride(), keys = block.high - block.low;
  const double alpha = problem.alpha[h];
  const Exponent exponent_of_head = exponent(alpha);
  float* grad = grad_memory.get(kFullRows * width);
  float* slope = slope_memory.get(stride);
  std::memset(weights, 0, kFullRows * stride * sizeof(float));
  std::memset(grad + block.count * width, 0, (kFullRows - block.count) * width * sizeof(float));
  for (int64_t i = 0; i < block.count; ++i) {
    std::memcpy(grad + i * width, wanted.out.at(b, h, block.first + i), width * sizeof(float));
    const Support::Row& row = support.rows[block.head * problem.n + block.first + i];
    float* mine = weights + i * stride - block.low;
    for (int j = 0; j < row.count; ++j) mine[row.keys[j]] = row.weights[j];
  }
  // dp = dO · V, panel by panel.
  for (int64_t column = 0; column < keys; column += kPanel)
    for (int64_t row = 0; row < block.count; row += kFullTile)
      product_rows<false>(kFullTile, width, kPanel, {grad + row * width, width, 1},
                          panels + (block.low + column) * width, kPanel, dz + row * stride + column, stride);
  const int padded = static_cast<int>((keys + kLanes - 1) / kLanes * kLanes);
  double alpha_part = 0.0;
  for (int64_t i = 0; i < kFullRows; ++i) {
    float* own = dz + i * stride;
    if (i < block.count) {
      const float* p = weights + i * stride;
      slopes(p, padded, alpha, exponent_of_head, slope);
      alpha_part += dz_of_row(p, slope, padded, alpha, problem.scale, wanted.alpha, own);
    }
    const int64_t done = i < block.count ? padded : 0;
    std::memset(own + done, 0, (stride - done) * sizeof(float));
  }
  for (int64_t row = 0; row < block.count; row += kFullTile)
    product_rows<false>(static_cast<int>(std::min<int64_t>(kFullTile, block.count - row)), keys, problem.depth,
                        {dz + row * stride, stride, 1}, problem.k.at(b, key_head, block.low), problem.k.row,
                        wanted.q + (block.head * problem.n + block.first + row) * problem.depth, problem.depth);
  return alpha_part;
}

// Some keys of a key head: what the queries of a block add to their dK and dV.
inline void full_keys(const Problem& problem, const Gradients& wanted, const FullBlock& block, int64_t first,
                      const float* weights, const float* dz) {
  const int64_t b = block.head / problem.heads, h = block.head % problem.heads, key_head = problem.key_head(h);
  const int64_t stride = block.stride(), place = (b * problem.key_heads + key_head) * problem.m;
  const int64_t last = std::min(block.high, first + kFullKeys);
  for (int64_t key = std::max(first, block.low); key < last; key += kFullTile) {
    const int rows = static_cast<int>(std::min<int64_t>(kFullTile, last - key));
    const int64_t column = key - block.low;
    product_rows<true>(rows, block.count, problem.depth, {dz + column, 1, stride}, problem.q.at(b, h, block.first),
                       problem.q.row, wanted.k + (place + key) * problem.depth, problem.depth);
    product_rows<true>(rows, block.count, problem.width, {weights + column, 1, stride},
                       wanted.out.at(b, h, block.first), wanted.out.row, wanted.v + (place + key) * problem.width,
                       problem.width);
  }
}

// One key head, counted through all sequences, if its rows are full enough; else nothing is done, and false returned.
// Numbers that are not finite must not meet the zeros of what got no weight: a head that has any is not taken either.
inline bool backward_full(const Problem& problem, const Support& support, const Gradients& given, int64_t number) {
  static thread_local Buffer<FullBlock> blocks_memory;
  static thread_local Buffer<float> matrices_memory, panels_memory;
  const int64_t b = number / problem.key_heads, key_head = number % problem.key_heads;
  const int64_t group = problem.heads / problem.key_heads, n = problem.n, m = problem.m;
  const int64_t per_head = (n + kFullRows - 1) / kFullRows, count = group * per_head;
  FullBlock* blocks = blocks_memory.get(count);
  parallel(problem.threads, count, [&](int64_t task) {
    const int64_t first = task % per_head * kFullRows;
    blocks[task] = {number * group + task / per_head, first, std::min(kFullRows, n - first)};
    find_keys(support, n, blocks[task]);
  });
  int64_t used = 0, computed = 0;
  for (const FullBlock* block = blocks; block < blocks + count; ++block) {
    used += block->used;
    computed += block->count * (block->high - block->low);
  }
  if (used == 0 || static_cast<double>(used) < kFullShare * static_cast<double>(computed)) return false;
  // All that is read often is gathered: a head's keys and values, and the queries and gradients of the heads that share
  // it.
  static thread_local Buffer<float> gathered_memory;
  const int64_t panel_count = (m + kPanel - 1) / kPanel, first_head = key_head * group;
  const int64_t depth = problem.depth, width = problem.width;
  float* panels = panels_memory.get(panel_count * kPanel * width);
  float* k = gathered_memory.get(m * depth + group * n * (depth + width));
  float* q = k + m * depth;
  float* grad = q + group * n * depth;
  bool finite = gather(problem.k, b, key_head, m, depth, k);
  for (int64_t h = 0; h < group; ++h) {
    finite = gather(problem.q, b, first_head + h, n, depth, q + h * n * depth) && finite;
    finite = gather(given.out, b, first_head + h, n, width, grad + h * n * width) && finite;
  }
  for (int64_t key = 0; key < m; key += kPanel)
    finite = !pack_panel([&](int i) { return problem.v.at(b, key_head, key + i); },
                         static_cast<int>(std::min<int64_t>(kPanel, m - key)), width, panels + key * width) &&
             finite;
  if (!finite) return false;
  Problem own = problem;
  own.k = {k, 0, 0, depth};
  own.q = {q - first_head * n * depth, 0, n * depth, depth};
  Gradients wanted = given;
  wanted.out = {grad - first_head * n * width, 0, n * width, width};

  std::memset(wanted.k + number * m * depth, 0, m * depth * sizeof(float));
  std::memset(wanted.v + number * m * width, 0, m * width * sizeof(float));
  for (int64_t first = 0, last; first < count; first = last) {
    // One block after the other, or some for each thread.
    int64_t pairs = 0;
    for (last = first; last < count && (last == first || last - first < 4 * (problem.threads - 1)); ++last) {
      blocks[last].place = pairs;
      pairs += kFullRows * blocks[last].stride();
    }
    float* weights = matrices_memory.get(2 * pairs);
    float* dz = weights + pairs;
    parallel(problem.threads, last - first, [&](int64_t task) {
      const FullBlock& block = blocks[first + task];
      const double part = full_queries(own, support, wanted, block, panels, weights + block.place, dz + block.place);
      if (wanted.alpha) wanted.alpha[block.head * backward_blocks(n) + block.first / kFullRows] = part;
    });
    parallel(problem.threads, (m + kFullKeys - 1) / kFullKeys, [&](int64_t task) {
      for (const FullBlock* block = blocks + first; block < blocks + last; ++block)
        full_keys(own, wanted, *block, task * kFullKeys, weights + block->place, dz + block->place);
    });
  }
  matrices_memory.trim();
  panels_memory.trim();
  gathered_memory.trim();
  return true;
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
