#include "support.h"

#include <cstdlib>
#include <new>

namespace sparsefinder {

Support::~Support() {
  for (void* chunk : chunks) std::free(chunk);
}

int* Support::chunk(int64_t task, int64_t total) {
  void* memory = std::malloc(static_cast<size_t>(total) * (sizeof(int) + sizeof(float)) + 1);
  if (!memory) throw std::bad_alloc();
  chunks[static_cast<size_t>(task)] = memory;
  return static_cast<int*>(memory);
}

int64_t Support::total() const {
  int64_t total = 0;
  for (const Row& row : rows) total += row.count;
  return total;
}

}  // namespace sparsefinder
