// What a call of attention is to the kernels: plain pointers and sizes, made by module.cpp from the caller's arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace sparsefinder {

// Vectors of a [batch, heads, length] array, each of them contiguous.
struct Vectors {
  const float* data;
  int64_t batch, head, row;  // how far apart, in floats
  const float* at(int64_t b, int64_t h, int64_t i) const { return data + b * batch + h * head + i * row; }
};

enum class Kind { band, diagonals, columns, rows, blocks, buckets, rule, near };

// A piece of the graph, as in pieces.py. Tables may have size 1 for batch or heads, which then stands for all of them.
struct Piece {
  Kind kind;
  int64_t lower = std::numeric_limits<int32_t>::min(), upper = std::numeric_limits<int32_t>::max();
  const int64_t* reaches = nullptr;  // of bands that differ between heads: as far to each side, or -1 for none
  // columns: [batch, heads, m]; rows: [batch, heads, n]; diagonals: [batch, heads, span], the distance 0 at m - 1, and
  // keys that lie farther back after it.
  const uint8_t* chosen = nullptr;
  int64_t span = 0;
  int64_t batch = 1, heads = 1;  // of `chosen`, of the blocks, or of the queries' buckets
  const int64_t* offsets = nullptr;
  const int64_t* blocks = nullptr;
  int64_t query_blocks = 0, query_size = 1, key_size = 1;
  const int64_t* query_buckets = nullptr;  // [batch, heads, n, query_slots]
  const int64_t* key_buckets = nullptr;    // [key_batch, key_heads, m, key_slots]
  int64_t key_batch = 1, key_heads = 1, query_slots = 0, key_slots = 0;
  // rule: products of codes, [batch, heads, n or m, rank], of which a head has ranks[head] even ones; a pair is in if
  // its product reaches limits[batch, heads, n], or lacks no more than that to all better ones if they are `relative`.
  // With buckets, only pairs that share one are looked at. near: squared distances of points are up to radii[head].
  // Where there are no codes, they are made from tokens: mapped, rounded, and compared with the head's slack.
  const int8_t* query_codes = nullptr;
  const int8_t* key_codes = nullptr;
  const int64_t* ranks = nullptr;
  const int32_t* limits = nullptr;
  bool relative = true;
  const float* query_points = nullptr;
  const float* key_points = nullptr;
  const float* radii = nullptr;
  int64_t rank = 0, code_heads = 0;  // of these tables, which are for all sequences and heads

  Vectors query_tokens{}, key_tokens{};
  const float* query_maps = nullptr;  // [heads, token_size, width], as the keys'
  const float* key_maps = nullptr;
  const double* slack = nullptr;
  int64_t token_size = 0, width = 0, token_group = 1;  // heads that share the tokens of keys

  // How many codes a head has: an even number.
  int64_t codes(int64_t h) const { return (ranks[h] + 1) / 2 * 2; }
  // Where the numbers of a token are, in a table of codes or points.
  int64_t token(int64_t b, int64_t h, int64_t length, int64_t i) const {
    return ((b * code_heads + h) * length + i) * rank;
  }
  // How far a head's band goes; nowhere if the first is beyond the last.
  int64_t first_of_band(int64_t h) const { return reaches ? (reaches[h] < 0 ? 1 : -reaches[h]) : lower; }
  int64_t last_of_band(int64_t h) const { return reaches ? std::max<int64_t>(reaches[h], 0) : upper; }
  int64_t table(int64_t b, int64_t h) const { return (batch > 1 ? b * heads : 0) + (heads > 1 ? h : 0); }
  int64_t key_table(int64_t b, int64_t h) const {
    return (key_batch > 1 ? b * key_heads : 0) + (key_heads > 1 ? h : 0);
  }
};

struct Problem {
  int64_t batch, heads, key_heads, n, m;
  int64_t depth, width;  // of queries and keys, and of values: both multiples of 8
  Vectors q, k, v;
  float* out;           // [batch, heads, n, width]
  const double* alpha;  // one per head
  double scale;
  bool causal;
  const int64_t* query_offset;   // one per sequence, as the two below; null: zero
  const int64_t* key_lengths;    // null: all m
  const int64_t* query_lengths;  // null: all n
  std::vector<Piece> pieces;
  bool screened;  // whether all that the pieces leave out is to be looked at too, through the proven bound
  int threads;
  int64_t* computed;  // [batch, heads], or null: gets the number of scores computed in float32 added

  int64_t key_head(int64_t h) const { return h / (heads / key_heads); }
  int64_t keys_of(int64_t b) const { return key_lengths ? key_lengths[b] : m; }
  int64_t position(int64_t b, int64_t i) const { return i + (query_offset ? query_offset[b] : 0); }
  // Query i of sequence b sees the keys before this one. Asked for every row: never worth a call.
  [[gnu::always_inline]] int64_t limit(int64_t b, int64_t i) const {
    if (query_lengths && i >= query_lengths[b]) return 0;
    const int64_t keys = keys_of(b);
    return causal ? std::clamp<int64_t>(position(b, i) + 1, 0, keys) : keys;
  }
};

// What came out beside the result.
struct Report {
  bool nonfinite = false;  // a query, a key or a score was not finite
};

}  // namespace sparsefinder
