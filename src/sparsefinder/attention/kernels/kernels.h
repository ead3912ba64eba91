// The kernels as module.cpp calls them: one table for each set of instructions they were compiled for.
#pragma once

#include "problem.h"
#include "support.h"

namespace sparsefinder {

struct Kernels {
  void (*forward)(const Problem&, Support*, Report&);
  // Adds up dα in blocks of queries; `alpha` is [batch, heads, blocks] or null.
  void (*backward)(const Problem&, const Support&, const Vectors& grad, float* q, float* k, float* v, double* alpha);
  int64_t (*backward_blocks)(int64_t n);
};

const Kernels& scalar_kernels();
#if defined(SPARSEFINDER_AVX2)
const Kernels& avx2_kernels();
#endif

}  // namespace sparsefinder
