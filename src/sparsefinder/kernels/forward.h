// The forward pass: the queries of all heads cut into tasks, and the tasks shared between threads.
#pragma once

#include "task.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int kBucketRows = 512;  // queries whose lists stay in the second-level cache while buckets are walked
constexpr int kMostBucketRows = 16384;

// How many queries a task has: enough to share what is read, few enough for their candidates to stay in the cache.
inline int64_t task_rows(const Problem& problem, const Plan& plan) {
  int64_t rows = kDenseRows;
  for (const PiecePlan& planned : plan.pieces) {
    const Piece& piece = *planned.piece;
    if (piece.kind == Kind::buckets) {
      if (!plan.one_bucket()) return kBucketRows;
      // Queries that are done with their bucket: the more the better, as long as every thread has tasks.
      const int64_t shared = problem.batch * problem.heads * problem.n / (4 * problem.threads);
      return std::clamp<int64_t>(shared, kBucketRows, kMostBucketRows);
    }
    if (piece.kind == Kind::blocks && piece.query_size >= kLeastBlock && piece.query_size <= kGroupRows)
      rows = kGroupRows / piece.query_size * piece.query_size;
  }
  return rows;
}

template <int Depth>
void run_forward(const Problem& problem, Support* support, Report& report) {
  const Plan plan(problem);
  const int64_t rows = task_rows(problem, plan), per_head = (problem.n + rows - 1) / rows;
  const int64_t heads = problem.batch * problem.heads;
  // A task that has all queries of a head is the only one that needs their buckets' keys.
  const Packed packed(problem, plan, !(plan.one_bucket() && rows >= problem.n));
  if (support) {
    support->rows.resize(heads * problem.n);
    support->chunks.resize(heads * per_head);
  }
  std::atomic<bool> nonfinite{packed.nonfinite()};
  std::vector<uint8_t> screened(heads);
  if (packed.screens())
    parallel(problem.threads, heads, [&](int64_t head) {
      screened[head] = screen_pays<Depth>(problem, plan, packed, head / problem.heads, head % problem.heads);
    });
  parallel(problem.threads, heads * per_head, [&](int64_t task) {
    // Under a causal mask the last queries have the most to do: they go first.
    const int64_t head = task / per_head, first = (per_head - 1 - task % per_head) * rows;
    const int64_t size = std::min(problem.n - first, rows);
    Task<Depth> work(
        {problem, plan, packed, head / problem.heads, head % problem.heads, first, size, screened[head] != 0}, support);
    work.run(task);
    if (problem.computed) __atomic_fetch_add(problem.computed + head, work.computed(), __ATOMIC_RELAXED);
    if (work.nonfinite()) nonfinite = true;
  });
  report.nonfinite = nonfinite;
}

inline void forward(const Problem& problem, Support* support, Report& report) {
  switch (problem.depth) {
    case 32:
      return run_forward<32>(problem, support, report);
    case 64:
      return run_forward<64>(problem, support, report);
    case 128:
      return run_forward<128>(problem, support, report);
    default:
      return run_forward<0>(problem, support, report);
  }
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
