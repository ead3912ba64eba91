// The kernels for processors with AVX2 and FMA; compiled with -mavx2 -mfma, and called only where they are there.
#include "table.inc"

namespace sparsefinder {

const Kernels& avx2_kernels() { return avx2::kTable; }

}  // namespace sparsefinder
