// The compiled part of sparsefinder, as Python sees it.
#include <nanobind/nanobind.h>

namespace {

// The widest instructions that the kernels may use here, asked of the processor at run time.
const char *instruction_set() {
#if (defined(__x86_64__) || defined(_M_X64)) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
    return "scalar";
}

}  // namespace

NB_MODULE(_native, m) {
    m.def("instruction_set", &instruction_set, "The instructions that the kernels use on this processor.");
}
