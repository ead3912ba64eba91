// Few queries, many keys, as in decoding: every key is read once, where it lies, and nothing is packed. Reading the
// keys is all the time it takes; asking for them ahead changed nothing.
#pragma once

#include "forward.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Fewer keys than this are not worth a thread of their own.
constexpr int64_t kLeastPart = 2048;

// Whether every query looks at one stretch of keys and so few of them share a key head that packing would not pay.
inline bool decoding(const Problem& problem) {
  return problem.pieces.size() == 1 && problem.pieces[0].kind == Kind::band && !problem.screened &&
         problem.n * (problem.heads / problem.key_heads) <= kFewQueries;
}

// The keys that a query of a band sees: low … high - 1.
struct Stretch {
  int64_t low, high;
};

inline Stretch stretch(const Problem& problem, int64_t b, int64_t i) {
  const int64_t position = problem.position(b, i), seen = problem.limit(b, i);
  const int64_t low = position + problem.pieces[0].lower, high = position + problem.pieces[0].upper + 1;
  return {low < 0 ? 0 : low, high < seen ? high : seen};
}

// The products with fewer than eight keys; the last of them stands for those that are missing.
inline Floats last_dots(const float* query, const float* keys, int count, int64_t apart, int64_t depth) {
  const float* eight[8];
  for (int i = 0; i < 8; ++i) eight[i] = keys + (i < count ? i : count - 1) * apart;
  return dots(query, eight, depth);
}

// Let `count` queries, scaled, look at the keys first … last - 1, eight at a time.
template <int Depth>
bool look_through(const Problem& problem, const float* keys, const float* queries, int count, const Stretch* stretches,
                  int64_t first, int64_t last, const int* powers, Candidates* rows) {
  constexpr int64_t kBetweenRefreshes = 256;
  const int64_t apart = problem.k.row, depth = Depth ? Depth : problem.depth;
  Floats poison = zeros();
  for (int64_t start = first; start < last; start += kBetweenRefreshes) {
    const int64_t stop = last - start < kBetweenRefreshes ? last : start + kBetweenRefreshes;
    Floats tops[kFewQueries];
    for (int r = 0; r < count; ++r) tops[r] = spread(kNothing);
    for (int64_t j = start; j < stop; j += kLanes) {
      const float* key = keys + j * apart;
      for (int r = 0; r < count; ++r) {
        const float* query = queries + r * depth;
        Floats scores = j + kLanes <= stop ? dots_in_order<Depth>(query, key, apart, depth)
                                           : last_dots(query, key, static_cast<int>(stop - j), apart, depth);
        poison = poisoned(poison, scores);
        const Stretch& seen = stretches[r];
        if (j < seen.low || j + kLanes > seen.high || j + kLanes > stop)
          scores = only_between(scores, 0, static_cast<int>(seen.low - j),
                                static_cast<int>((seen.high < stop ? seen.high : stop) - j));
        tops[r] = larger(tops[r], scores);
        Candidates& row = rows[r];
        const unsigned mask = bits_above(scores, spread(row.bound));
        if (!mask) continue;
        store(row.values + row.count, to_front(scores, mask));
        store(row.keys + row.count, places_from(static_cast<int>(j), mask));
        row.count += __builtin_popcount(mask);
      }
    }
    for (int r = 0; r < count; ++r) {
      const float top = largest(tops[r]);
      if (top > kNothing) raise(rows[r], top);
      if (grown(rows[r])) refresh(rows[r], powers[r]);
    }
  }
  return any_nonfinite(poison);
}

template <int Depth>
void run_decode(const Problem& problem, Support* support, Report& report) {
  const int64_t key_heads = problem.batch * problem.key_heads, group = problem.heads / problem.key_heads;
  const int64_t n = problem.n, queries = group * n, m = problem.m;
  // Long caches of few heads are cut into parts, one for each thread that would have nothing to do.
  int64_t parts = key_heads < problem.threads ? (problem.threads + key_heads - 1) / key_heads : 1;
  if (parts > m / kLeastPart) parts = m / kLeastPart > 1 ? m / kLeastPart : 1;
  const int64_t part_keys = ((m + parts - 1) / parts + kLanes - 1) / kLanes * kLanes;
  // The first part's lists have room for what the others find.
  const int64_t room = m + parts * kSlack, lists = key_heads * parts * queries;
  Shared memory_of_lists(2 * lists * room);
  float* values = memory_of_lists.data();
  int* keys = reinterpret_cast<int*>(values + lists * room);
  Buffer<Candidates> memory;
  Candidates* rows = memory.get(lists);
  std::atomic<bool> nonfinite{false};
  if (support) {
    support->rows.resize(problem.batch * problem.heads * n);
    support->chunks.resize(problem.batch * problem.heads);
  }
  const auto merge = [&](int64_t head) {
    const int64_t b = head / problem.key_heads, h = head % problem.key_heads;
    Candidates* mine = rows + head * parts * queries;
    for (int64_t r = 0; r < queries; ++r)
      for (int64_t part = 1; part < parts; ++part) {
        const Candidates& other = mine[part * queries + r];
        std::memcpy(mine[r].values + mine[r].count, other.values, other.count * sizeof(float));
        std::memcpy(mine[r].keys + mine[r].count, other.keys, other.count * sizeof(int));
        mine[r].count += other.count;
        if (other.bound > mine[r].bound) mine[r].bound = other.bound;
      }
    float* transposed = Scratch::mine().transposed.get(kTransposed * kLanes);
    for (int64_t g = 0; g < group; ++g) {
      const int64_t query_head = h * group + g;
      const Exponent power = exponent(problem.alpha[query_head]);
      for (int64_t i = 0; i < n; ++i) {
        Candidates& row = mine[g * n + i];
        row.count = keep_above(row.values, row.keys, row.count, row.bound);
        refresh(row, power.whole);
      }
      const Sums sums(problem, b, query_head, 0, mine + g * n);
      conclude(mine + g * n, nullptr, n, power, transposed, sums);
      if (support) keep(problem, b, query_head, 0, n, mine + g * n, *support, b * problem.heads + query_head);
    }
  };
  parallel(problem.threads, key_heads * parts, [&](int64_t task) {
    const int64_t head = task / parts, b = head / problem.key_heads, h = head % problem.key_heads;
    float* scaled = Scratch::mine().queries.get(queries * problem.depth);
    Stretch stretches[kFewQueries];
    int powers[kFewQueries];
    int64_t first = m, last = 0;
    bool found = false;
    for (int64_t r = 0; r < queries; ++r) {
      const int64_t query_head = h * group + r / n, list = task * queries + r;
      rows[list] = {values + list * room, keys + list * room, 0, 0, kNothing};
      powers[r] = exponent(problem.alpha[query_head]).whole;
      stretches[r] = stretch(problem, b, r % n);
      const auto factor = static_cast<float>(problem.scale * (problem.alpha[query_head] - 1.0));
      if (stretches[r].low >= stretches[r].high) stretches[r] = {0, 0};
      if (stretches[r].high == 0) {
        std::memset(scaled + r * problem.depth, 0, problem.depth * sizeof(float));
        continue;
      }
      found |= scale_query(problem.q.at(b, query_head, r % n), problem.depth, factor, scaled + r * problem.depth);
      first = stretches[r].low < first ? stretches[r].low : first;
      last = stretches[r].high > last ? stretches[r].high : last;
    }
    const int64_t begin = task % parts * part_keys, end = begin + part_keys;
    first = first / kLanes * kLanes;
    if (first < begin) first = begin;
    if (last > end) last = end;
    found |= look_through<Depth>(problem, problem.k.at(b, h, 0), scaled, static_cast<int>(queries), stretches, first,
                                 last, powers, rows + task * queries);
    if (found) nonfinite = true;
    if (problem.computed && last > first)
      for (int64_t r = 0; r < queries; ++r)
        __atomic_fetch_add(problem.computed + b * problem.heads + h * group + r / n, last - first, __ATOMIC_RELAXED);
    if (parts == 1) merge(task);
  });
  if (parts > 1) parallel(problem.threads, key_heads, merge);
  report.nonfinite = nonfinite;
}

inline void decode(const Problem& problem, Support* support, Report& report) {
  switch (problem.depth) {
    case 64:
      return run_decode<64>(problem, support, report);
    case 128:
      return run_decode<128>(problem, support, report);
    default:
      return run_decode<0>(problem, support, report);
  }
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
