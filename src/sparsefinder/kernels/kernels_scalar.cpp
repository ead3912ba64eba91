// The kernels for any processor.
#include "table.inc"

namespace sparsefinder {

const Kernels& scalar_kernels() { return scalar::kTable; }

}  // namespace sparsefinder
