// The kernels for processors with AVX2 and FMA; compiled with -mavx2 -mfma, and called only where they are there.
// Linked after the others: of a function that several files define, such as one of std::vector's, the linker takes the
// first, and that has to run on any processor.
#include "table.inc"

namespace sparsefinder {

const Kernels& avx2_kernels() { return avx2::kTable; }

}  // namespace sparsefinder
