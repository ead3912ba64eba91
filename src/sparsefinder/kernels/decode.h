// Few queries, many keys, as in decoding: every key is read once, where it lies, and nothing is packed. Reading the
// keys is all the time it takes; asking for them ahead changed nothing.
#pragma once

#include "forward.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// Fewer keys than this are not worth a thread of their own.
constexpr int64_t kLeastPart = 2048;
// Keys after which it is looked whether a list has grown enough to be refreshed.
constexpr int64_t kBetweenRefreshes = 256;

// Whether every query looks at one stretch of keys and so few of them share a key head that packing would not pay.
inline bool decoding(const Problem& problem) {
  return problem.pieces.size() == 1 && problem.pieces[0].kind == Kind::band && !problem.screened &&
         problem.n * (problem.heads / problem.key_heads) <= kFewQueries;
}

// The keys that a query of a band sees: low … high - 1.
struct Stretch {
  int64_t low, high;
};

inline Stretch stretch(const Problem& problem, int64_t b, int64_t h, int64_t i) {
  const int64_t position = problem.position(b, i), seen = problem.limit(b, i);
  const int64_t low = position + problem.pieces[0].first_of_band(h);
  const int64_t high = position + problem.pieces[0].last_of_band(h) + 1;
  return {std::max<int64_t>(low, 0), std::min(high, seen)};
}

// The products with fewer than eight keys; the last of them stands for those that are missing. Rarely needed, so kept
// out of the loop that asks for it.
[[gnu::noinline]] inline Floats last_dots(const float* query, const float* keys, int count, int64_t apart,
                                          int64_t depth) {
  const float* eight[8];
  for (int i = 0; i < 8; ++i) eight[i] = keys + std::min(i, count - 1) * apart;
  return dots(query, eight, depth);
}

// The queries that share a key head, ready to look at its keys.
struct Lookers {
  int count;
  const float* scaled;  // [count, depth]
  Stretch stretches[kFewQueries];
  int powers[kFewQueries];
  Stretch any{std::numeric_limits<int64_t>::max(), 0};  // what at least one of them sees lies within
  bool nonfinite = false;
};

// Let them look at the keys first … last - 1, eight at a time. Returns whether a score was not finite.
template <int Depth>
bool look_through(const Problem& problem, const float* keys, const Lookers& lookers, int64_t first, int64_t last,
                  Candidates* rows) {
  const int64_t apart = problem.k.row, depth = Depth ? Depth : problem.depth;
  const int count = lookers.count;
  Floats poison = zeros();
  for (int64_t start = first; start < last; start += kBetweenRefreshes) {
    const int64_t stop = std::min(last, start + kBetweenRefreshes);
    Floats tops[kFewQueries];
    for (int r = 0; r < count; ++r) tops[r] = spread(kNothing);
    for (int64_t j = start; j < stop; j += kLanes) {
      const float* key = keys + j * apart;
      for (int r = 0; r < count; ++r) {
        const float* query = lookers.scaled + r * depth;
        Floats scores = j + kLanes <= stop ? dots_in_order<Depth>(query, key, apart, depth)
                                           : last_dots(query, key, static_cast<int>(stop - j), apart, depth);
        poison = poisoned(poison, scores);
        const Stretch& seen = lookers.stretches[r];
        if (j < seen.low || j + kLanes > seen.high || j + kLanes > stop)
          scores =
              only_between(scores, 0, static_cast<int>(seen.low - j), static_cast<int>(std::min(seen.high, stop) - j));
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
      if (grown(rows[r])) refresh(rows[r], lookers.powers[r]);
    }
  }
  return any_nonfinite(poison);
}

template <int Depth>
class Decoding {
 public:
  Decoding(const Problem& problem, Support* support)
      : problem_(problem), support_(support), key_heads_(problem.batch * problem.key_heads),
        group_(problem.heads / problem.key_heads), queries_(group_ * problem.n), parts_(parts_of(problem)),
        part_keys_(((problem.m + parts_ - 1) / parts_ + kLanes - 1) / kLanes * kLanes),
        room_(problem.m + parts_ * kSlack), lists_(2 * key_heads_ * parts_ * queries_ * room_),
        rows_(memory_of_rows_.get(key_heads_ * parts_ * queries_)) {
    if (!support) return;
    support->rows.resize(problem.batch * problem.heads * problem.n);
    support->chunks.resize(problem.batch * problem.heads);
  }

  // Returns whether a number was not finite.
  bool run() {
    parallel(problem_.threads, key_heads_ * parts_, [&](int64_t task) {
      look(task);
      if (parts_ == 1) conclude_head(task);
    });
    if (parts_ > 1)
      parallel(problem_.threads, key_heads_, [&](int64_t head) {
        merge(head);
        conclude_head(head);
      });
    return nonfinite_;
  }

 private:
  const Problem& problem_;
  Support* support_;
  const int64_t key_heads_;
  const int64_t group_, queries_;  // heads that share a key head, and queries of all of them
  // The keys of a head are looked at in parts. Each query has a list in every part; the first has room for what the
  // others find.
  const int64_t parts_, part_keys_, room_;
  const Shared lists_;
  Buffer<Candidates> memory_of_rows_;
  Candidates* const rows_;  // [key heads, parts, queries]
  std::atomic<bool> nonfinite_{false};

  // Long caches of few heads are cut into parts, one for each thread that would have nothing to do.
  static int64_t parts_of(const Problem& problem) {
    const int64_t heads = std::max<int64_t>(problem.batch * problem.key_heads, 1);
    const int64_t most = std::max<int64_t>(problem.m / kLeastPart, 1);
    return std::clamp<int64_t>((problem.threads + heads - 1) / heads, 1, most);
  }

  // Query r of those that share a key head: which head it is of.
  int64_t query_head(int64_t head, int64_t r) const { return head % problem_.key_heads * group_ + r / problem_.n; }

  // Empty lists for the queries in one part.
  void lend_lists(int64_t task) {
    float* values = lists_.data();
    int* keys = reinterpret_cast<int*>(values + key_heads_ * parts_ * queries_ * room_);
    for (int64_t list = task * queries_; list < (task + 1) * queries_; ++list)
      rows_[list] = {values + list * room_, keys + list * room_, 0, 0, kNothing};
  }

  Lookers lookers(int64_t head) const {
    const int64_t b = head / problem_.key_heads, depth = problem_.depth;
    float* scaled = Scratch::mine().queries.get(queries_ * depth);
    Lookers found;
    found.count = static_cast<int>(queries_);
    found.scaled = scaled;
    for (int64_t r = 0; r < queries_; ++r) {
      const int64_t h = query_head(head, r), i = r % problem_.n;
      Stretch& seen = found.stretches[r];
      seen = stretch(problem_, b, h, i);
      found.powers[r] = exponent(problem_.alpha[h]).whole;
      if (seen.low >= seen.high) {
        // Queries that see nothing may hold anything.
        seen = {0, 0};
        std::memset(scaled + r * depth, 0, depth * sizeof(float));
        continue;
      }
      const auto factor = static_cast<float>(problem_.scale * steepness(problem_.alpha[h]));
      found.nonfinite |= scale_query(problem_.q.at(b, h, i), depth, factor, scaled + r * depth);
      found.any = {std::min(found.any.low, seen.low), std::max(found.any.high, seen.high)};
    }
    return found;
  }

  // The queries of a key head look at one part of its keys.
  void look(int64_t task) {
    const int64_t head = task / parts_, b = head / problem_.key_heads, begin = task % parts_ * part_keys_;
    lend_lists(task);
    const Lookers mine = lookers(head);
    const int64_t first = std::max(mine.any.low / kLanes * kLanes, begin);
    const int64_t last = std::min(mine.any.high, begin + part_keys_);
    const float* keys = problem_.k.at(b, head % problem_.key_heads, 0);
    if (look_through<Depth>(problem_, keys, mine, first, last, rows_ + task * queries_) || mine.nonfinite)
      nonfinite_ = true;
    if (problem_.computed && last > first)
      for (int64_t r = 0; r < queries_; ++r)
        __atomic_fetch_add(problem_.computed + b * problem_.heads + query_head(head, r), last - first,
                           __ATOMIC_RELAXED);
  }

  // Put what was found in the other parts into the first.
  void merge(int64_t head) {
    Candidates* mine = rows_ + head * parts_ * queries_;
    for (int64_t r = 0; r < queries_; ++r)
      for (int64_t part = 1; part < parts_; ++part) {
        const Candidates& other = mine[part * queries_ + r];
        std::memcpy(mine[r].values + mine[r].count, other.values, other.count * sizeof(float));
        std::memcpy(mine[r].keys + mine[r].count, other.keys, other.count * sizeof(int));
        mine[r].count += other.count;
        mine[r].bound = std::max(mine[r].bound, other.bound);
      }
  }

  void conclude_head(int64_t head) {
    const int64_t b = head / problem_.key_heads, n = problem_.n;
    float* transposed = Scratch::mine().transposed.get(kTransposed * kLanes);
    for (int64_t g = 0; g < group_; ++g) {
      const int64_t h = head % problem_.key_heads * group_ + g;
      Candidates* mine = rows_ + head * parts_ * queries_ + g * n;
      const Exponent power = exponent(problem_.alpha[h]);
      for (int64_t i = 0; i < n; ++i) {
        mine[i].count = keep_above(mine[i].values, mine[i].keys, mine[i].count, mine[i].bound);
        refresh(mine[i], power.whole);
      }
      conclude(mine, nullptr, n, power, transposed, Sums(problem_, b, h, 0, mine));
      if (support_) keep(problem_, b, h, 0, n, mine, *support_, b * problem_.heads + h);
    }
  }
};

template <int Depth>
void run_decode(const Problem& problem, Support* support, Report& report) {
  report.nonfinite = Decoding<Depth>(problem, support).run();
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
