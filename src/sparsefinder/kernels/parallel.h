// Work shared between threads: torch's own OpenMP threads, as many as torch would use.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

namespace sparsefinder {

// True in a child of fork(), which has none of its parent's threads: waiting for them would never end.
bool forked();

// Thrown between tasks once the Watch of the calling thread says that somebody wants to stop.
struct Interrupted : std::exception {};

// While it is there, tasks of this thread's calls ask now and then whether to go on. Only the thread that called asks:
// Python hears Ctrl-C in one thread.
class Watch {
 public:
  explicit Watch(bool (*stop)());
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

// Whether this thread's watch says to stop. A look at the clock, most of the time.
bool interrupted();

// Do tasks 0 … tasks - 1, each once, in about that order. The thread count is a clause and never a global setting,
// which would change torch's own.
template <class Work>
void parallel(int threads, int64_t tasks, const Work& work) {
  threads = static_cast<int>(std::min<int64_t>(threads, tasks));
  if (threads <= 1 || forked()) {
    for (int64_t task = 0; task < tasks; ++task) {
      if (interrupted()) throw Interrupted{};
      work(task);
    }
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
#pragma omp parallel num_threads(threads)
  {
    // An exception must not leave the parallel region.
    try {
      for (int64_t task = next.fetch_add(1); task < tasks && !failed; task = next.fetch_add(1)) {
        if (interrupted()) throw Interrupted{};
        work(task);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failure);
}

}  // namespace sparsefinder
