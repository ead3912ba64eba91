// What rules compare, made from queries and keys: mapped to a few dimensions, and rounded to whole numbers.
#pragma once

#include "kernels.h"
#include "memory.h"
#include "parallel.h"
#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int64_t kMapped = 256;  // tokens of a task
constexpr int kMappedTogether = 4;
constexpr int64_t kRoundedTogether = 4096;

// Four tokens times a map: eight columns of the map at a time.
KERNEL_INLINE void map_four(const Mapping& work, const float* const tokens[kMappedTogether], const float* map,
                            float* out) {
  for (int64_t column = 0; column < work.width; column += kLanes) {
    Floats totals[kMappedTogether];
#pragma GCC unroll 4
    for (int i = 0; i < kMappedTogether; ++i) totals[i] = zeros();
    for (int64_t d = 0; d < work.depth; ++d) {
      const Floats row = load(map + d * work.width + column);
#pragma GCC unroll 4
      for (int i = 0; i < kMappedTogether; ++i) totals[i] = fused(spread(tokens[i][d]), row, totals[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kMappedTogether; ++i) store(out + i * work.width + column, totals[i]);
  }
}

inline void map_tokens(const Mapping& work) {
  const int64_t parts = (work.length + kMapped - 1) / kMapped, group = work.heads / work.token_heads;
  parallel(work.threads, work.batch * work.heads * parts, [&](int64_t task) {
    static thread_local Buffer<float> memory;
    float* four = memory.get(kMappedTogether * work.width);
    const int64_t head = task / parts, b = head / work.heads, h = head % work.heads;
    const int64_t first = task % parts * kMapped, last = std::min(work.length, first + kMapped);
    const float* map = work.maps + h * work.depth * work.width;
    for (int64_t i = first; i < last; i += kMappedTogether) {
      const float* tokens[kMappedTogether];
      // The last token stands for those that are missing.
      for (int r = 0; r < kMappedTogether; ++r) tokens[r] = work.tokens.at(b, h / group, std::min(i + r, last - 1));
      map_four(work, tokens, map, four);
      for (int r = 0; r < kMappedTogether && i + r < last; ++r)
        std::memcpy(work.out + (head * work.length + i + r) * work.rank, four + r * work.width,
                    work.rank * sizeof(float));
    }
  });
}

// The codes of a key, shortened if it is longer than products allow.
inline void round_key(const float* point, int64_t rank, int8_t* codes) {
  int square = 0;
  for (int64_t d = 0; d < rank; ++d) {
    const float near = std::nearbyint(std::clamp(point[d], -1.0f * kMostKeyCode, 1.0f * kMostKeyCode));
    codes[d] = static_cast<int8_t>(near);
    square += codes[d] * codes[d];
  }
  if (square <= kLongestKey * kLongestKey) return;
  const float factor = kLongestKey / std::sqrt(static_cast<float>(square));
  for (int64_t d = 0; d < rank; ++d) codes[d] = static_cast<int8_t>(static_cast<float>(codes[d]) * factor);
}

// The codes of a query. Returns what it was multiplied by.
inline float round_query_point(const float* point, int64_t rank, int8_t* codes) {
  float top = 1e-30f, square = 1e-30f;
  for (int64_t d = 0; d < rank; ++d) {
    top = std::max(top, std::abs(point[d]));
    square += point[d] * point[d];
  }
  const float unit = std::min(kMostQueryCode / top, kLongestQuery / std::sqrt(square));
  for (int64_t d = 0; d < rank; ++d) codes[d] = static_cast<int8_t>(std::nearbyint(point[d] * unit));
  return unit;
}

inline void round_points(Rounding& work) {
  std::atomic<bool> nonfinite{false};
  const int64_t parts = (work.count + kRoundedTogether - 1) / kRoundedTogether;
  parallel(work.threads, parts, [&](int64_t task) {
    const int64_t last = std::min(work.count, (task + 1) * kRoundedTogether);
    for (int64_t i = task * kRoundedTogether; i < last; ++i) {
      const float* point = work.points + i * work.rank;
      int8_t* codes = work.codes + i * work.width;
      float poison = 0.0f;
      for (int64_t d = 0; d < work.rank; ++d) poison += 0.0f * point[d];
      if (poison != 0.0f) {
        nonfinite = true;
        std::memset(codes, 0, work.width);
        if (work.units) work.units[i] = 1.0f;
        continue;
      }
      if (work.units)
        work.units[i] = round_query_point(point, work.rank, codes);
      else
        round_key(point, work.rank, codes);
      std::memset(codes + work.rank, 0, work.width - work.rank);
    }
  });
  work.nonfinite = nonfinite;
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
