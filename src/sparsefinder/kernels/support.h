// The support of a forward pass: for every row the keys that got weight and their weights. Far less than n × m.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace sparsefinder {

struct Support {
  struct Row {
    int* keys = nullptr;
    float* weights = nullptr;
    // Up to the next multiple of 8 there are entries with a real key and no weight, so that eight can be taken at once.
    int count = 0;
    int padded() const { return (count + 7) & ~7; }
  };

  // What the rows of one task of the forward pass point to.
  struct Chunk {
    std::unique_ptr<int[]> keys;
    std::unique_ptr<float[]> weights;
  };

  std::vector<Row> rows;  // (batch, head, query), in that order
  std::vector<Chunk> chunks;

  Support() = default;
  Support(const Support&) = delete;
  Support& operator=(const Support&) = delete;

  int64_t total() const;
  // Every entry's row, key and weight, each into `total()` numbers: row by row, and the keys of a row in order.
  void write(int64_t* rows_out, int64_t* keys_out, float* weights_out) const;
};

}  // namespace sparsefinder
