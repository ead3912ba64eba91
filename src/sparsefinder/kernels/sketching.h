// What rules compare, made from queries and keys: mapped to a few dimensions, and rounded to whole numbers.
#pragma once

#include <atomic>
#include <limits>

#include "kernels.h"
#include "memory.h"
#include "panels.h"
#include "parallel.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int64_t kMapped = 256;  // tokens of a task
constexpr int kMappedTogether = 4;
// The tokens of a head often lie far apart, so that they have to be asked for.
constexpr int64_t kMappedAhead = 16;
constexpr int64_t kRoundedTogether = 4096;

// Tokens times `Columns` · 8 columns of a map, whose rows are `width` apart.
template <int Columns>
KERNEL_INLINE void map_columns(const float* const tokens[kMappedTogether], int64_t depth, const float* map,
                               int64_t width, float* out) {
  Floats totals[kMappedTogether][Columns];
#pragma GCC unroll 4
  for (int i = 0; i < kMappedTogether; ++i)
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) totals[i][c] = zeros();
  for (int64_t d = 0; d < depth; ++d) {
    Floats row[Columns];
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) row[c] = load(map + d * width + c * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kMappedTogether; ++i) {
      const Floats number = spread(tokens[i][d]);
#pragma GCC unroll 2
      for (int c = 0; c < Columns; ++c) totals[i][c] = fused(number, row[c], totals[i][c]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kMappedTogether; ++i)
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) store(out + i * width + c * kLanes, totals[i][c]);
}

// Four tokens times the first `columns` columns of a map, a multiple of 8.
KERNEL_INLINE void map_four(const float* const tokens[kMappedTogether], int64_t depth, const float* map, int64_t width,
                            int64_t columns, float* out) {
  int64_t column = 0;
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes)
    map_columns<2>(tokens, depth, map + column, width, out + column);
  if (column < columns) map_columns<1>(tokens, depth, map + column, width, out + column);
}

// Four tokens, each followed by what the units of a layer say of it.
KERNEL_INLINE void widen_four(const float* tokens[kMappedTogether], int64_t depth, const float* layer, int64_t units,
                              float* wide) {
  float* said = wide + kMappedTogether * (depth + units);
  map_four(tokens, depth, layer, units, units, said);
  const float* added = layer + depth * units;
  for (int i = 0; i < kMappedTogether; ++i) {
    float* token = wide + i * (depth + units);
    std::memcpy(token, tokens[i], depth * sizeof(float));
    for (int64_t c = 0; c < units; c += kLanes)
      store(token + depth + c, larger(zeros(), load(said + i * units + c) + load(added + c)));
    tokens[i] = token;
  }
}

inline void map_tokens(const Mapping& work) {
  const int64_t parts = (work.length + kMapped - 1) / kMapped, group = work.heads / work.token_heads;
  const int64_t depth = work.depth + work.units;
  parallel(work.threads, work.batch * work.heads * parts, [&](int64_t task) {
    static thread_local Buffer<float> memory;
    float* four = memory.get(kMappedTogether * (work.width + depth + work.units));
    float* wide = four + kMappedTogether * work.width;
    const int64_t head = task / parts, b = head / work.heads, h = head % work.heads;
    const int64_t first = task % parts * kMapped, last = std::min(work.length, first + kMapped);
    const float* map = work.maps + h * depth * work.width;
    const float* layer = work.layer ? work.layer + h * (work.depth + 1) * work.units : nullptr;
    for (int64_t i = first; i < last; i += kMappedTogether) {
      const float* tokens[kMappedTogether];
      // The last token stands for those that are missing.
      for (int r = 0; r < kMappedTogether; ++r) {
        tokens[r] = work.tokens.at(b, h / group, std::min(i + r, last - 1));
        prefetch(work.tokens.at(b, h / group, std::min(i + r + kMappedAhead, last - 1)), work.depth);
      }
      if (layer) widen_four(tokens, work.depth, layer, work.units, wide);
      map_four(tokens, depth, map, work.width, work.width, four);
      for (int r = 0; r < kMappedTogether && i + r < last; ++r)
        std::memcpy(work.out + (head * work.length + i + r) * work.rank, four + r * work.width,
                    work.rank * sizeof(float));
    }
  });
}

// The codes of a point are made eight at a time: numbers past the rank, up to the next multiple of 8, become zero.
KERNEL_INLINE int64_t clear_rest(float* point, int64_t rank) {
  const int64_t padded = (rank + kLanes - 1) / kLanes * kLanes;
  for (int64_t d = rank; d < padded; ++d) point[d] = 0.0f;
  return padded;
}

// The codes of a key, shortened if it is longer than products allow. Writes a multiple of 8. Returns whether a number
// was not finite.
KERNEL_INLINE bool round_key(float* point, int64_t rank, int8_t* codes) {
  const int64_t padded = clear_rest(point, rank);
  const Floats least = spread(-1.0f * kMostKeyCode);
  Floats squares = zeros(), poison = zeros();
  for (int64_t d = 0; d < padded; d += kLanes) {
    const Floats x = load(point + d);
    poison = poisoned(poison, x);
    const Floats within = zeros() - larger(least, zeros() - larger(least, x));
    const Floats whole = to_whole(within);
    squares = fused(whole, whole, squares);
    store_rounded(codes + d, whole);
  }
  const float square = sum(squares);
  if (square > 1.0f * kLongestKey * kLongestKey) {
    const float factor = kLongestKey / std::sqrt(square);
    for (int64_t d = 0; d < rank; ++d) codes[d] = static_cast<int8_t>(static_cast<float>(codes[d]) * factor);
  }
  return any_nonfinite(poison);
}

// The codes of a query. Writes a multiple of 8. Returns what it was multiplied by, or NaN if a number was not finite.
KERNEL_INLINE float round_query_point(float* point, int64_t rank, int8_t* codes) {
  const int64_t padded = clear_rest(point, rank);
  Floats top = spread(1e-30f), squares = zeros(), poison = zeros();
  for (int64_t d = 0; d < padded; d += kLanes) {
    const Floats x = load(point + d);
    poison = poisoned(poison, x);
    top = larger(top, larger(x, zeros() - x));
    squares = fused(x, x, squares);
  }
  if (any_nonfinite(poison)) return std::numeric_limits<float>::quiet_NaN();
  const float unit = std::min(kMostQueryCode / largest(top), kLongestQuery / std::sqrt(sum(squares) + 1e-30f));
  for (int64_t d = 0; d < padded; d += kLanes) store_rounded(codes + d, load(point + d) * spread(unit));
  return unit;
}

inline void round_points(Rounding& work) {
  std::atomic<bool> nonfinite{false};
  const int64_t parts = (work.count + kRoundedTogether - 1) / kRoundedTogether;
  parallel(work.threads, parts, [&](int64_t task) {
    const int64_t last = std::min(work.count, (task + 1) * kRoundedTogether);
    float point[kMostCodes + kLanes];
    int8_t codes[kMostCodes + kLanes];
    for (int64_t i = task * kRoundedTogether; i < last; ++i) {
      std::memcpy(point, work.points + i * work.rank, work.rank * sizeof(float));
      std::memset(codes, 0, sizeof codes);
      if (work.units) {
        work.units[i] = round_query_point(point, work.rank, codes);
        if (std::isnan(work.units[i])) nonfinite = true;
      } else if (round_key(point, work.rank, codes)) {
        nonfinite = true;
      }
      std::memcpy(work.codes + i * work.width, codes, work.width);
    }
  });
  work.nonfinite = nonfinite;
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
