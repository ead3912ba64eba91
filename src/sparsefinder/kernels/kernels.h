// The kernels as module.cpp calls them: one table for each set of instructions they were compiled for.
#pragma once

#include "constants.h"
#include "problem.h"
#include "support.h"

namespace sparsefinder {

// The few centroids nearest to each token: those with the highest scores, which are products plus an offset.
struct Nearest {
  Vectors tokens;                                     // [batch, heads, length, depth]
  int64_t apart;                                      // how far the numbers of a token are from each other
  const float* centroids;                             // [heads, width, depth], `width` a multiple of kCentroidsTogether
  const float* offsets;                               // [heads, width]; of centroids that are padding, kNothing
  int64_t batch, heads, length, depth, width, count;  // count: kMostNearest at the most
  int64_t* out;                                       // [batch, heads, length, count], the nearest first
  int threads;
};

// The bin of each token in each dimension: how many edges lie at or below it. Bins are numbered through all dimensions.
struct Bins {
  const float* numbers;  // [heads, depth, length]
  const float* edges;    // [heads, depth, count]
  int64_t heads, length, depth, count, bins;
  int64_t* out;  // [heads, length, depth]
  int threads;
};

// Tokens mapped to a few dimensions, by a map per head. Heads may share tokens in groups.
struct Mapping {
  Vectors tokens;     // [batch, token_heads, length, depth]
  const float* maps;  // [heads, depth, width], `width` a multiple of kLanes
  int64_t batch, heads, token_heads, length, depth, width, rank;
  float* out;  // [batch, heads, length, rank]
  int threads;
};

// Points rounded to codes of 8 bits, such that a product of two codes stays within 16: keys as they are, queries scaled
// as far as that allows.
struct Rounding {
  const float* points;  // [count, rank]
  int64_t count, rank, width;
  int8_t* codes;  // [count, width]; past the rank they are zero
  float* units;   // [count]: what queries were multiplied by; null for keys
  bool nonfinite;
  int threads;
};

struct Kernels {
  void (*forward)(const Problem&, Support*, Report&);
  // Adds up dα in blocks of queries; `alpha` is [batch, heads, blocks] or null.
  void (*backward)(const Problem&, const Support&, const Vectors& grad, float* q, float* k, float* v, double* alpha);
  int64_t (*backward_blocks)(int64_t n);
  void (*nearest)(const Nearest&);
  void (*bins)(const Bins&);
  void (*map_tokens)(const Mapping&);
  void (*round_points)(Rounding&);
};

const Kernels& scalar_kernels();
#if defined(SPARSEFINDER_AVX2)
const Kernels& avx2_kernels();
#endif

}  // namespace sparsefinder
