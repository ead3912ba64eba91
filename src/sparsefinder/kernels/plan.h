// What is worked out about the graph's pieces once per call: the keys of every bucket and of the columns as lists, and
// answers to "does this piece have that pair". Nothing here is worth vector instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace sparsefinder {

// Lists of keys of one head, one after the other, the keys of each in ascending order. Packed, every list begins at a
// multiple of 16, so that it fills whole panels. 64 numbers past the last key can be read.
struct Lists {
  std::vector<int> begins, keys, packed_begins;
  int count() const { return static_cast<int>(begins.size()) - 1; }
  int size(int list) const { return begins[list + 1] - begins[list]; }
};

struct PiecePlan {
  const Piece* piece = nullptr;
  // Of columns and of diagonals (a single list: of keys, or of distances from the query), buckets, and rules within
  // buckets.
  std::vector<Lists> tables;
  bool repeats = false;  // whether a query and a key can share more than one bucket
  // Of rules: what a product has to reach, per row. Written when the row is walked, by the thread that walks it.
  mutable std::vector<int32_t> reached;

  const Lists& lists(int64_t b, int64_t h) const {
    return tables[(piece->query_buckets ? piece->key_table(b, h) : piece->table(b, h))];
  }
};

class Plan {
 public:
  explicit Plan(const Problem& problem);

  const Problem& problem;
  // In the order in which they are walked: the largest first, as what is there already has to be asked for every pair
  // that comes later; rules last, as asking them takes longest.
  std::vector<PiecePlan> pieces;

  // Whether piece number `index` has the pair, whatever the layout lets be seen.
  bool contains(size_t index, int64_t b, int64_t h, int64_t i, int64_t j) const;
  // Whether a piece before number `index` has it: then it has been taken already.
  bool taken_before(size_t index, int64_t b, int64_t h, int64_t i, int64_t j) const {
    for (size_t earlier = 0; earlier < index; ++earlier)
      if (contains(earlier, b, h, i, j)) return true;
    return false;
  }
  // Whether `bucket` is the first of the query's buckets that the key is in too: only there the pair is taken.
  bool first_shared(const Piece& piece, int64_t b, int64_t h, int64_t i, int64_t j, int64_t bucket) const;
  // Whether there is nothing but buckets, and every query is in one at the most.
  bool one_bucket() const {
    return pieces.size() == 1 && pieces[0].piece->kind == Kind::buckets && pieces[0].piece->query_slots == 1 &&
           !problem.screened;
  }
  // At most how many keys the pieces name for a query, repeated ones included.
  int64_t most_keys(int64_t b, int64_t h, int64_t i) const;

 private:
  int64_t most_keys(const PiecePlan& plan, int64_t b, int64_t h, int64_t i) const;
  bool reaches(const PiecePlan& plan, int64_t b, int64_t h, int64_t i, int64_t j) const;
  float squared_distance(const Piece& piece, int64_t b, int64_t h, int64_t i, int64_t j) const;
};

}  // namespace sparsefinder
