// The register tile, where nearly all the time goes: the scores of up to 6 queries with the 16 keys of a panel. While
// they are in registers, the running maximum of each row is taken and scores above the row's threshold are marked.
#pragma once

#include "panels.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kTileRows = 6;
constexpr int kGroupRows = 64;                 // at most so many queries share a pass over the keys
constexpr int kChunk = 1024;                   // scores of a row that are kept at a time
constexpr int kScoreStride = kChunk + kPanel;  // not a power of two: rows would evict each other from the cache
constexpr int kMarks = kChunk / kPanel;

// The queries that pass over some keys together, and what the pass leaves.
struct Group {
  int size;
  int rows[kGroupRows];  // which queries they are, counted within the task
  const float* queries;  // [size][depth], scaled
  int low[kGroupRows];   // the columns that each may see: low … high - 1
  int high[kGroupRows];
  float bounds[kGroupRows];  // scores up to here get no weight
  alignas(64) float tops[kGroupRows * kLanes];
  alignas(64) float scores[kGroupRows * kScoreStride];
  alignas(64) uint16_t marks[kGroupRows * kMarks];
};

enum class Columns { all, marked, masked };

// Depth is the size of a query, or 0 if it is only known at run time.
template <int Rows, int Depth, Columns Mode>
KERNEL_INLINE void tile(Group& group, int row, int64_t depth, const float* panel, int column, int place) {
  const int64_t size = Depth ? Depth : depth;
  const float* q = group.queries + row * size;
  Floats left[Rows], right[Rows];
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) left[r] = right[r] = zeros();
#pragma GCC unroll 4
  for (int64_t d = 0; d < size; ++d) {
    const Floats low = load(panel + d * kPanel), high = load(panel + d * kPanel + kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
      const Floats query = spread(q[r * size + d]);
      left[r] = fused(query, low, left[r]);
      right[r] = fused(query, high, right[r]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
    const int g = row + r;
    if (Mode == Columns::masked) {
      left[r] = only_between(left[r], column, group.low[g], group.high[g]);
      right[r] = only_between(right[r], column + kLanes, group.low[g], group.high[g]);
    }
    float* scores = group.scores + g * kScoreStride + place;
    store(scores, left[r]);
    store(scores + kLanes, right[r]);
    float* top = group.tops + g * kLanes;
    store(top, larger(load(top), larger(left[r], right[r])));
    if (Mode != Columns::all) {
      const Floats bound = spread(group.bounds[g]);
      group.marks[g * kMarks + place / kPanel] =
          static_cast<uint16_t>(bits_above(left[r], bound) | bits_above(right[r], bound) << 8);
    }
  }
}

template <int Depth, Columns Mode>
void tile_rows(int rows, Group& group, int row, int64_t depth, const float* panel, int column, int place) {
  switch (rows) {
    case 6:
      return tile<6, Depth, Mode>(group, row, depth, panel, column, place);
    case 5:
      return tile<5, Depth, Mode>(group, row, depth, panel, column, place);
    case 4:
      return tile<4, Depth, Mode>(group, row, depth, panel, column, place);
    case 3:
      return tile<3, Depth, Mode>(group, row, depth, panel, column, place);
    case 2:
      return tile<2, Depth, Mode>(group, row, depth, panel, column, place);
    default:
      return tile<1, Depth, Mode>(group, row, depth, panel, column, place);
  }
}

// The scores of a group with the keys in columns first … last - 1, both multiples of 16 and at most a chunk apart.
// `places` says which panel the columns from 16 · place on are; null if they are in order. With `known`, some rows have
// a threshold already and scores above it are marked.
template <int Depth>
void score_chunk(Group& group, int64_t depth, const float* panels, const int* places, int first, int last, bool known) {
  int low = group.low[0], high = group.high[0];
  for (int r = 1; r < group.size; ++r) {
    low = std::max(low, group.low[r]);
    high = std::min(high, group.high[r]);
  }
  for (int column = first; column < last; column += kPanel) {
    const float* panel = panels + (places ? places[column / kPanel] * kPanel : column) * (Depth ? Depth : depth);
    const bool masked = column < low || column + kPanel > high;
    for (int row = 0; row < group.size; row += kTileRows) {
      const int rows = std::min(group.size - row, kTileRows);
      const int place = column - first;
      if (masked)
        tile_rows<Depth, Columns::masked>(rows, group, row, depth, panel, column, place);
      else if (known)
        tile_rows<Depth, Columns::marked>(rows, group, row, depth, panel, column, place);
      else
        tile_rows<Depth, Columns::all>(rows, group, row, depth, panel, column, place);
    }
  }
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
