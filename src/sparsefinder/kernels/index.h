// An index of keys, kept beside them while decoding: their codes in panels of 32, head by head, with room for more. A
// query is compared with all codes, a fraction of the memory of the keys, and looks only at the keys that pass: of the
// others, neither key nor value is read.
#pragma once

#include "decode.h"
#include "rules.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int64_t kAppended = 8 * kScreenPanel;  // keys of a task: whole panels, so that no two tasks write to one
// Keys of an exact index that no code is for have this product with every query; the others have less.
constexpr int16_t kAlways = 32000;
constexpr float kRoundedUp = 1.0f + 1e-5f;  // more than rounding in float32 takes away
// What rounding may move a point by, in whole numbers: a fifth more than it mostly does. Other keys have no code.
inline float bounded_remainder(int64_t rank) { return 1.2f * std::sqrt(static_cast<float>(rank) / 12.0f); }
// Keys of an exact index are looked at in steps of so much of a score.
constexpr double kStep = 0.4;
constexpr int kFetched = 16;  // keys are asked for so many before they are looked at

// Write the codes of a key to its place.
inline void put_codes(const int8_t* codes, int64_t count, int64_t j, uint8_t* panel) {
  const int place = screen_place(static_cast<int>(j));
  auto* bytes = reinterpret_cast<int8_t*>(panel);
  int total = 0;
  for (int64_t d = 0; d < count; ++d) {
    code_at(bytes, place, d) = codes[d];
    total += codes[d];
  }
  const auto start = static_cast<int16_t>(-64 * total);
  std::memcpy(panel + kScreenPanel * count + 2 * place, &start, sizeof start);
}

// The codes of a key whose rest counts too (bounded.py): of the leading `rank` numbers, of how long the others are, and
// of how long the codes themselves are, both rounded up. Returns whether they say less than the truth.
inline bool round_bounded(const float* point, int64_t rank, int64_t depth, float most, int8_t* codes) {
  float rest = 0.0f, length = 0.0f, remainder = 0.0f;
  for (int64_t d = 0; d < rank; ++d) {
    const float whole = std::nearbyint(point[d]);
    if (!(std::abs(whole) <= kMostKeyCode)) return true;
    codes[d] = static_cast<int8_t>(whole);
    length += whole * whole;
    remainder += (point[d] - whole) * (point[d] - whole);
  }
  for (int64_t d = rank; d < depth; ++d) rest += point[d] * point[d];
  rest = std::ceil(std::sqrt(rest) * kRoundedUp);
  length = std::ceil(std::sqrt(length) * (kRoundedUp * kMostKeyCode / kLongestKey));
  if (!(rest <= kMostKeyCode && length <= kMostKeyCode && std::sqrt(remainder) <= most)) return true;
  codes[rank] = static_cast<int8_t>(rest);
  codes[rank + 1] = static_cast<int8_t>(length);
  return false;
}

// Map and round the keys that come after the first `work.first`.
inline void append_keys(Appending& work) {
  const Index& index = work.index;
  const int64_t end = work.first + work.count, begin = work.first / kAppended;
  const int64_t parts = (end + kAppended - 1) / kAppended - begin, group = index.heads / work.key_heads;
  std::atomic<bool> nonfinite{false};
  parallel(work.threads, index.batch * index.heads * parts, [&](int64_t task) {
    const int64_t head = task / parts, b = head / index.heads, h = head % index.heads;
    const int64_t rank = index.ranks[h], codes = index.codes(h), bytes = index.panel_bytes(h);
    const int64_t first = std::max(work.first, (begin + task % parts) * kAppended);
    const int64_t last = std::min(end, (begin + task % parts + 1) * kAppended);
    if (rank == 0) return;
    uint8_t* panels = index.of_head(b, h);
    static thread_local Buffer<float> memory;
    float* four = memory.get(kMappedTogether * index.width + kLanes);
    for (int64_t i = first; i < last; i += kMappedTogether) {
      const float* tokens[kMappedTogether];
      // The last key stands for those that are missing.
      for (int r = 0; r < kMappedTogether; ++r)
        tokens[r] = work.keys.at(b, h / group, std::min(i + r, last - 1) - work.first);
      map_four(tokens, index.depth, index.key_maps + h * index.depth * index.width, index.width, index.width, four);
      for (int r = 0; r < kMappedTogether && i + r < last; ++r) {
        const int64_t j = i + r;
        uint8_t* panel = panels + j / kScreenPanel * bytes;
        if (j % kScreenPanel == 0) std::memset(panel, 0, bytes);
        float* point = four + r * index.width;
        int8_t rounded[kMostCodes + kLanes] = {};
        if (!index.offsets) {
          if (round_key(point, rank, rounded)) nonfinite = true;
          put_codes(rounded, codes, j % kScreenPanel, panel);
          continue;
        }
        for (int64_t d = 0; d < index.depth; ++d) {
          point[d] -= index.offsets[h * index.width + d];
          if (!std::isfinite(point[d])) nonfinite = true;
        }
        const bool more = round_bounded(point, rank, index.depth, bounded_remainder(rank), rounded);
        if (more) std::memset(rounded, 0, sizeof rounded);
        put_codes(rounded, codes, j % kScreenPanel, panel);
        // Nothing to multiply, and a start that passes every query: whoever sees this key looks at it.
        if (more)
          std::memcpy(panel + kScreenPanel * codes + 2 * screen_place(j % kScreenPanel), &kAlways, sizeof kAlways);
      }
    }
  });
  work.nonfinite = nonfinite;
}

// How many of the products reach a limit.
KERNEL_INLINE int64_t count_reaching(const int16_t* products, int64_t panels, int16_t limit) {
  int64_t count = 0;
  for (int64_t p = 0; p < panels; ++p)
    count += __builtin_popcount(codes_above(products + p * kScreenPanel, static_cast<int16_t>(limit - 1)));
  return count;
}

// One query looking at what the index says.
template <int Depth>
class Asking {
 public:
  Asking(const IndexCall& call, int64_t b, int64_t h, int64_t i)
      : call_(call), problem_(call.problem), index_(call.index), b_(b), h_(h), i_(i), codes_(index_.codes(h)),
        scratch_(Scratch::mine()), low_(std::max<int64_t>(call.lows[b * problem_.n + i], 0)),
        high_(std::min(call.highs[b * problem_.n + i], problem_.m)) {}

  // Returns whether a number was not finite.
  bool run() {
    const int64_t seen = std::max<int64_t>(high_ - low_, 0);
    row_ = {scratch_.values.get(seen + kSlack), scratch_.keys.get(seen + kSlack), 0, 0, kNothing};
    query_ = scratch_.queries.get(problem_.depth);
    const auto factor = static_cast<float>(problem_.scale * steepness(problem_.alpha[h_]));
    bool nonfinite = seen > 0 && scale_query(problem_.q.at(b_, h_, i_), problem_.depth, factor, query_);
    if (seen > 0 && !nonfinite) nonfinite = codes_ == 0 ? look_at_all() : index_.offsets ? ask_exactly() : ask();
    finish();
    return nonfinite;
  }
  int64_t looked_at() const { return looked_at_; }

 private:
  const IndexCall& call_;
  const Problem& problem_;
  const Index& index_;
  const int64_t b_, h_, i_, codes_;
  Scratch& scratch_;
  const int64_t low_, high_;  // the keys it sees
  float* query_ = nullptr;    // scaled
  Candidates row_{};
  int64_t looked_at_ = 0;

  const float* key(int64_t j) const { return problem_.k.at(b_, problem_.key_head(h_), j); }

  // Without anything to compare, every key is looked at.
  bool look_at_all() {
    Lookers one;
    one.count = 1;
    one.scaled = query_;
    one.stretches[0] = {low_, high_};
    one.powers[0] = exponent(problem_.alpha[h_]).whole;
    looked_at_ = high_ - low_;
    return look_through<Depth>(problem_, key(0), one, low_, high_, &row_);
  }

  bool ask() {
    const int64_t first = low_ / kScreenPanel, panels = (high_ - 1) / kScreenPanel + 1 - first;
    int16_t* products = scratch_.products.get((panels + 1) * kScreenPanel + high_ - low_ + kSlack);
    int32_t* rounded = scratch_.rounded.get(codes_ / 2 + 1);
    const float unit = round_the_query(rounded);
    if (std::isnan(unit)) return true;
    const int16_t top = multiply(rounded, first, panels, products);
    if (call_.slack) {
      const auto most = static_cast<int32_t>(std::min(std::floor(unit * call_.slack[h_]), 1.0 * kMost));
      const Passed passed = best(products, first, panels, top, most);
      return look_at(passed.keys, passed.count);
    }
    const int32_t limit = limit_of_share(products, panels, top);  // what a product has to exceed
    return limit < 32767 && look(products, first, panels, static_cast<int16_t>(std::max<int32_t>(limit, kHidden)));
  }

  // The product of codes and what is added to it for the rest is at least unit · (q · k − q · mean) − error.
  struct Bounding {
    double unit, error, mean;
  };

  // Of all keys, those that no bound rules out. The first few are looked at before, so that there is a threshold.
  bool ask_exactly() {
    const int64_t first = low_ / kScreenPanel, panels = (high_ - 1) / kScreenPanel + 1 - first;
    int16_t* products = scratch_.products.get((panels + 1) * kScreenPanel);
    int32_t* rounded = scratch_.rounded.get(codes_ / 2 + 1);
    Bounding bounding;
    if (!bound_the_query(rounded, bounding)) return true;
    int16_t top = multiply(rounded, first, panels, products);
    if (top >= kAlways) {
      top = kHidden;
      for (int64_t j = 0; j < panels * kScreenPanel; ++j)
        if (products[j] < kAlways) top = std::max(top, products[j]);
    }
    // From the highest bounds downwards: what is looked at raises the threshold, and so what has to be looked at yet.
    const double scale = problem_.scale * steepness(problem_.alpha[h_]), unit = bounding.unit;
    auto step = std::max(static_cast<int32_t>(std::min(kStep / problem_.scale * unit, 30000.0)), 1);
    int32_t before = 32767, limit = kHidden;
    for (int32_t next = top - step; before > limit; step += step / 2 + 1, next -= step) {
      next = std::max(next, limit);
      if (look(products, first, panels, static_cast<int16_t>(next), static_cast<int16_t>(before))) return true;
      refresh(row_, exponent(problem_.alpha[h_]).whole);
      before = next;
      // What exceeds the threshold has a higher product than this.
      const double least = std::floor((row_.bound / scale - bounding.mean) * unit - bounding.error) - 1.0;
      limit = static_cast<int32_t>(std::clamp(least, 1.0 * kHidden, 1.0 * kAlways - 1.0));
    }
    return false;
  }

  // Round the query, with what the rest of keys and the length of codes are multiplied by after it. False if a number
  // was not finite.
  bool bound_the_query(int32_t* rounded, Bounding& bounding) const {
    const float* query = problem_.q.at(b_, h_, i_);
    const float* tokens[kMappedTogether] = {query, query, query, query};
    const int64_t rank = index_.ranks[h_], depth = index_.depth;
    float* points = scratch_.gathered.get(kMappedTogether * index_.width);
    map_four(tokens, depth, index_.query_maps + h_ * depth * index_.width, index_.width, index_.width, points);
    double top = 1e-30, square = 1e-60, rest = 1e-60, mean = 0.0;
    for (int64_t d = 0; d < rank; ++d) {
      top = std::max(top, 1.0 * std::abs(points[d]));
      square += 1.0 * points[d] * points[d];
    }
    for (int64_t d = rank; d < depth; ++d) rest += 1.0 * points[d] * points[d];
    for (int64_t d = 0; d < depth; ++d) mean += 1.0 * query[d] * index_.means[h_ * depth + d];
    if (!std::isfinite(square + rest + mean)) return false;
    const double most = std::sqrt(static_cast<double>(rank)) / 2;  // that rounding moves it by
    const double length = std::sqrt(square), others = std::sqrt(rest) * kRoundedUp;
    // All that is multiplied and added stays below what keys without a code have.
    const double room = kAlways - 1.0 - kLongestKey * most - kMostKeyCode * (2.0 + most * kLongestKey / kMostKeyCode);
    const double unit = std::min(
        {kMostQueryCode / top, kMostQueryCode / others, room / (length * kLongestKey + others * kMostKeyCode)});
    int8_t codes[kMostCodes + kLanes] = {};
    double moved = 0.0, rounded_length = 0.0;
    for (int64_t d = 0; d < rank; ++d) {
      const double x = points[d] * unit, whole = std::nearbyint(x);
      codes[d] = static_cast<int8_t>(whole);
      moved += (x - whole) * (x - whole);
      rounded_length += whole * whole;
    }
    moved = std::sqrt(moved);
    codes[rank] = static_cast<int8_t>(std::min(std::ceil(others * unit), 1.0 * kMostQueryCode));
    codes[rank + 1] = static_cast<int8_t>(std::ceil(moved * kLongestKey / kMostKeyCode));
    spread_codes(codes, codes_, rounded);
    // Sums in float32, of maps and of products, are right to a ten-thousandth of what they are at the most.
    const double error = (std::sqrt(rounded_length) + moved) * bounded_remainder(rank) +
                         1e-4 * unit * (length * kLongestKey + others * kMostKeyCode) + 2.0;
    bounding = {unit, error, mean};
    return true;
  }

  // Returns what the mapped query was multiplied by, or NaN if a number was not finite.
  float round_the_query(int32_t* rounded) const {
    const float* query = problem_.q.at(b_, h_, i_);
    const float* tokens[kMappedTogether] = {query, query, query, query};
    const int64_t rank = index_.ranks[h_], columns = (rank + kLanes - 1) / kLanes * kLanes;
    float points[kMappedTogether * (kMostCodes + kLanes)];
    map_four(tokens, index_.depth, index_.query_maps + h_ * index_.depth * index_.width, index_.width, columns, points);
    int8_t codes[kMostCodes + kLanes] = {};
    const float unit = round_query_point(points, rank, codes);
    if (!std::isnan(unit)) spread_codes(codes, codes_, rounded);
    return unit;
  }

  // The products with all keys that it sees; the others of their panels are hidden. Returns the highest.
  int16_t multiply(const int32_t* rounded, int64_t first, int64_t panels, int16_t* out) const {
    const uint8_t* codes = index_.of_head(b_, h_) + first * index_.panel_bytes(h_);
    int16_t top = kHidden;
    multiply_panels<1>(rounded, codes_ / 2, codes, panels, out, 0, &top);
    const int64_t before = low_ % kScreenPanel, after = (first + panels) * kScreenPanel - high_;
    if (before == 0 && after == 0) return top;
    for (int64_t j = 0; j < before; ++j) out[screen_place(static_cast<int>(j))] = kHidden;
    for (int64_t j = kScreenPanel - after; j < kScreenPanel; ++j)
      out[(panels - 1) * kScreenPanel + screen_place(static_cast<int>(j))] = kHidden;
    // What was hidden may have been the highest.
    return *std::max_element(out, out + panels * kScreenPanel);
  }

  // The wanted share of what it sees, and what is as high as the last of it: by halving, as counting takes no time.
  int32_t limit_of_share(const int16_t* products, int64_t panels, int16_t top) const {
    const double wanted = std::ceil(static_cast<double>(high_ - low_) * call_.share[h_] - kShareRounding);
    if (wanted < 1) return 32767;
    int32_t reached = kHidden + 1, missed = top + 1;  // enough products reach the first, too few the second
    while (missed - reached > 1) {
      const int32_t middle = reached + (missed - reached) / 2;
      (static_cast<double>(count_reaching(products, panels, static_cast<int16_t>(middle))) >= wanted ? reached
                                                                                                     : missed) = middle;
    }
    return reached - 1;
  }

  // Look at the keys whose product is above the limit, and not above what was the limit before.
  bool look(int16_t* products, int64_t first, int64_t panels, int16_t limit, int16_t before = 32767) {
    Passed passed{scratch_.listed.get(high_ - low_ + kSlack), products, 0};
    for (int64_t p = 0; p < panels; p += 2) {
      uint64_t marks = 0;
      for (int64_t next = p; next < std::min(p + 2, panels); ++next) {
        uint32_t found = codes_above(products + next * kScreenPanel, limit);
        if (before < 32767) found &= ~codes_above(products + next * kScreenPanel, before);
        marks |= uint64_t{found} << (next - p) * kScreenPanel;
      }
      passed.append<false>(marks, products, static_cast<int>((first + p) * kScreenPanel), nullptr);
    }
    return look_at(passed.keys, passed.count);
  }

  // The keys that lack no more than `most` to all better ones, whose products there is room for after all products.
  Passed best(int16_t* products, int64_t first, int64_t panels, int16_t top, int32_t most) {
    Passed passed{scratch_.listed.get(high_ - low_ + kSlack), products + (panels + 1) * kScreenPanel, 0};
    // What the first keys say spares most of the others to be compared.
    const int64_t some = std::min<int64_t>(panels * kScreenPanel, kCodeChunk);
    const int32_t first_reach = best_reach(products, some, top - most / 2, top - most, most);
    const auto limit = static_cast<int16_t>(std::max<int32_t>(first_reach - 1, kHidden));
    for (int64_t p = 0; p < panels; p += 2) {
      const int16_t* two = products + p * kScreenPanel;
      passed.append<true>(two_above(two, limit, (panels - p) * kScreenPanel), two,
                          static_cast<int>((first + p) * kScreenPanel), nullptr);
    }
    const int32_t reach = passed.reach(first_reach, most);
    passed.keep(reach);
    return passed;
  }

  bool look_at(int* keys, int count) {
    const int power = exponent(problem_.alpha[h_]).whole;
    // Of fewer than eight at the end, the last stands for those that are missing.
    for (int i = 0; i < kLanes; ++i) keys[count + i] = keys[std::max(count - 1, 0)];
    for (int j = 0; j < std::min(count, kFetched); ++j) prefetch(key(keys[j]), problem_.depth);
    Floats poison = zeros();
    for (int j = 0; j < count; j += kLanes) {
      const float* eight[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        eight[i] = key(keys[j + i]);
        if (j + i + kFetched < count) prefetch(key(keys[j + i + kFetched]), problem_.depth);
      }
      Floats scores = dots(query_, eight, Depth ? Depth : problem_.depth);
      poison = poisoned(poison, scores);
      if (count - j < kLanes) scores = only_between(scores, 0, 0, count - j);
      raise(row_, largest(scores));
      const unsigned mask = bits_above(scores, spread(row_.bound));
      store(row_.values + row_.count, to_front(scores, mask));
      store(row_.keys + row_.count, to_front(load(keys + j), mask));
      row_.count += __builtin_popcount(mask);
      if (grown(row_)) refresh(row_, power);
    }
    looked_at_ += count;
    return any_nonfinite(poison);
  }

  void finish() {
    const Exponent power = exponent(problem_.alpha[h_]);
    row_.count = keep_above(row_.values, row_.keys, row_.count, row_.bound);
    refresh(row_, power.whole);
    conclude(&row_, nullptr, 1, power, scratch_.transposed.get(kTransposed * kLanes),
             Sums(problem_, b_, h_, i_, &row_));
    scratch_.trim();
  }
};

template <int Depth>
void run_index(IndexCall& call) {
  const Problem& problem = call.problem;
  std::atomic<bool> nonfinite{false};
  parallel(problem.threads, problem.batch * problem.heads * problem.n, [&](int64_t task) {
    const int64_t head = task / problem.n;
    Asking<Depth> one(call, head / problem.heads, head % problem.heads, task % problem.n);
    if (one.run()) nonfinite = true;
    if (problem.computed) __atomic_fetch_add(problem.computed + head, one.looked_at(), __ATOMIC_RELAXED);
  });
  call.nonfinite = nonfinite;
}

inline void ask_index(IndexCall& call) { call.problem.depth == 64 ? run_index<64>(call) : run_index<0>(call); }

}  // namespace sparsefinder::KERNEL_NAMESPACE
