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

// Scores of rows, of which the first `seen` count, and what is chosen by them.
struct Rows {
  const float* scores;  // [rows, width]
  const int64_t* seen;  // [rows]
  int64_t rows, width;
  int threads;
};

// Tokens mapped to a few dimensions, by a map per head. Heads may share tokens in groups.
struct Mapping {
  Vectors tokens;      // [batch, token_heads, length, depth]
  const float* maps;   // [heads, depth + units, width], `width` a multiple of kLanes
  const float* layer;  // [heads, depth + 1, units], whose last row is added to all; null without units
  int64_t batch, heads, token_heads, length, depth, width, rank;
  int64_t units;  // what they say of a token, if it is positive, follows its own numbers; a multiple of kLanes
  float* out;     // [batch, heads, length, rank]
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

// What is known of the keys of a cache (index.h): the codes of each head in panels of 32 keys, with room for more.
struct Index {
  uint8_t* panels;                      // [batch, row]
  int64_t batch, heads, row, capacity;  // bytes of a sequence; panels that a head has room for
  const int64_t* ranks;                 // of each head; none: nothing is known of its keys, and all are looked at
  const float* query_maps;              // [heads, depth, width]
  const float* key_maps;
  int64_t depth, width;
  // An exact index: what is taken off mapped keys, [heads, width], and the mean of keys, [heads, depth]. Maps then have
  // all dimensions, of which the first `ranks` are rounded, an even number, and of the rest it is kept how long it is.
  const float* offsets;
  const float* means;

  // As many codes as dimensions, or one more: an even number.
  int64_t codes(int64_t h) const { return ranks[h] ? (ranks[h] + 1) / 2 * 2 + (offsets ? 2 : 0) : 0; }
  // 32 keys, then for each the start of its sum.
  int64_t panel_bytes(int64_t h) const { return ranks[h] ? 32 * codes(h) + 32 * 2 : 0; }
  uint8_t* of_head(int64_t b, int64_t h) const {
    int64_t before = 0;
    for (int64_t other = 0; other < h; ++other) before += panel_bytes(other);
    return panels + b * row + before * capacity;
  }
};

// Keys that come after the `first` of an index, whose room is there.
struct Appending {
  Index index;
  Vectors keys;  // [batch, key_heads, count, depth]
  int64_t key_heads, first, count;
  bool nonfinite;
  int threads;
};

// Attention over what an index says. Query i of sequence b sees the keys lows[b, i] … highs[b, i] - 1, of which it
// looks at those whose product lacks at most the head's slack to all better ones, or at as many as the head's share.
struct IndexCall {
  Problem problem;  // without pieces
  Index index;
  const int64_t* lows;
  const int64_t* highs;
  const double* slack;  // one of these two
  const double* share;
  bool nonfinite;
};

struct Kernels {
  void (*forward)(const Problem&, Support*, Report&);
  // Adds up dα in blocks of queries; `alpha` is [batch, heads, blocks] or null.
  void (*backward)(const Problem&, const Support&, const Vectors& grad, float* q, float* k, float* v, double* alpha);
  int64_t (*backward_blocks)(int64_t n);
  void (*nearest)(const Nearest&);
  void (*bins)(const Bins&);
  // How low the `wanted` highest scores of each row reach, and how many reach it; and the keys of these, in order.
  void (*reach)(const Rows&, const int64_t* wanted, float* limits, int64_t* counts);
  void (*list_keys)(const Rows&, const float* limits, const int64_t* starts, int64_t* keys);
  void (*map_tokens)(const Mapping&);
  void (*round_points)(Rounding&);
  void (*append_keys)(Appending&);
  void (*ask_index)(IndexCall&);
};

const Kernels& scalar_kernels();
#if defined(SPARSEFINDER_AVX2)
const Kernels& avx2_kernels();
#endif

}  // namespace sparsefinder
