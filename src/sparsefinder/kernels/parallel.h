// Work shared between threads: torch's own OpenMP threads, as many as torch would use.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

namespace sparsefinder {

// True in a child of fork(), which has none of its parent's threads: waiting for them would never end.
bool forked();

// Do tasks 0 … tasks - 1, each once, in about that order. The thread count is a clause and never a global setting,
// which would change torch's own.
template <class Work>
void parallel(int threads, int64_t tasks, const Work& work) {
  threads = static_cast<int>(std::min<int64_t>(threads, tasks));
  if (threads <= 1 || forked()) {
    for (int64_t task = 0; task < tasks; ++task) work(task);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
#pragma omp parallel num_threads(threads)
  {
    // An exception must not leave the parallel region.
    try {
      for (int64_t task = next.fetch_add(1); task < tasks && !failed; task = next.fetch_add(1)) work(task);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failure);
}

}  // namespace sparsefinder
