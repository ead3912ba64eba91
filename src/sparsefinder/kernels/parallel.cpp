#include "parallel.h"

#include <pthread.h>

#include <chrono>

namespace sparsefinder {

namespace {
std::atomic<bool> in_child{false};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { in_child = true; });

// Often enough for whoever waits, seldom enough that it costs nothing to take Python's lock for it.
constexpr std::chrono::milliseconds kBetween{100};
thread_local bool (*watching)() = nullptr;
thread_local std::chrono::steady_clock::time_point again;
}  // namespace

Watch::Watch(bool (*stop)()) {
  watching = stop;
  again = std::chrono::steady_clock::now() + kBetween;
}

Watch::~Watch() { watching = nullptr; }

bool interrupted() {
  if (!watching) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < again) return false;
  again = now + kBetween;
  return watching();
}

bool forked() { return in_child; }

}  // namespace sparsefinder
