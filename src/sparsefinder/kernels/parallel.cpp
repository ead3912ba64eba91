#include "parallel.h"

#include <pthread.h>

namespace sparsefinder {

namespace {
std::atomic<bool> in_child{false};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { in_child = true; });
}  // namespace

bool forked() { return in_child; }

}  // namespace sparsefinder
