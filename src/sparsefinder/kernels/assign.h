// Which buckets tokens belong to: those of their nearest centroids, or the bins between edges. Short loops over short
// vectors, which a library for matrices takes longer to begin than to do.
#pragma once

#include "kernels.h"
#include "memory.h"
#include "parallel.h"
#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

constexpr int64_t kAssigned = 512;         // tokens of a task
constexpr int64_t kLeastShared = 1 << 21;  // with fewer comparisons, waking another thread takes as long as the work

// The highest score of eight tokens so far, and the centroid it is of, as a float.
struct Best {
  Floats score = spread(kNothing), place = zeros();
  // Centroids come in ascending order, so that a better one has a higher number: no step waits for the last but one.
  KERNEL_INLINE void enter(Floats other, Floats its_place) {
    place = larger(place, one_above(other, score) * its_place);
    score = larger(other, score);
  }
  KERNEL_INLINE Floats place_at(int64_t) const { return place; }
};

// The highest `count` of them.
struct Several {
  int64_t count;
  Floats scores[kMostNearest], places[kMostNearest];
  explicit Several(int64_t count) : count(count) {
    for (int64_t slot = 0; slot < count; ++slot) {
      scores[slot] = spread(kNothing);
      places[slot] = zeros();
    }
  }
  KERNEL_INLINE void enter(Floats score, Floats place) {
    Floats better = zeros();
    for (int64_t slot = 0; slot < count; ++slot) {
      const Floats old_score = scores[slot], old_place = places[slot];
      // From where it is better on, all move by one slot: of equal ones, the first stays before.
      better = larger(better, one_above(score, old_score));
      scores[slot] = larger(score, old_score);
      places[slot] = fused(better, place - old_place, old_place);
      score = zeros() - larger(zeros() - score, zeros() - old_score);
      place = fused(better, old_place - place, place);
    }
  }
  KERNEL_INLINE Floats place_at(int64_t slot) const { return places[slot]; }
};

// Compare eight tokens, dimension by dimension, with all centroids of a head.
template <class Found>
KERNEL_INLINE void compare(const Nearest& work, int64_t head, const float* eight, Found& found) {
  const float* centroids = work.centroids + head * work.width * work.depth;
  const float* offsets = work.offsets + head * work.width;
  for (int64_t c = 0; c < work.width; c += kCentroidsTogether) {
    Floats scores[kCentroidsTogether];
#pragma GCC unroll 4
    for (int j = 0; j < kCentroidsTogether; ++j) scores[j] = spread(offsets[c + j]);
    for (int64_t d = 0; d < work.depth; ++d) {
      const Floats numbers = load(eight + d * kLanes);
#pragma GCC unroll 4
      for (int j = 0; j < kCentroidsTogether; ++j)
        scores[j] = fused(numbers, spread(centroids[(c + j) * work.depth + d]), scores[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kCentroidsTogether; ++j) found.enter(scores[j], spread(static_cast<float>(c + j)));
  }
}

inline void nearest(const Nearest& work) {
  const int64_t parts = (work.length + kAssigned - 1) / kAssigned;
  const int64_t comparisons = work.batch * work.heads * work.length * work.width * work.depth;
  parallel(comparisons < kLeastShared ? 1 : work.threads, work.batch * work.heads * parts, [&](int64_t task) {
    static thread_local Buffer<float> memory;
    float* eight = memory.get(work.depth * kLanes);
    const int64_t head = task / parts, first = task % parts * kAssigned;
    const int64_t last = std::min(work.length, first + kAssigned);
    for (int64_t i = first; i < last; i += kLanes) {
      // The last token stands for those that are missing.
      for (int64_t l = 0; l < kLanes; ++l) {
        const float* token = work.tokens.at(head / work.heads, head % work.heads, std::min(i + l, last - 1));
        for (int64_t d = 0; d < work.depth; ++d) eight[d * kLanes + l] = token[d * work.apart];
      }
      const auto find = [&](auto found) {
        compare(work, head % work.heads, eight, found);
        for (int64_t slot = 0; slot < work.count; ++slot) {
          float places[kLanes];
          store(places, found.place_at(slot));
          for (int64_t l = 0; l < kLanes && i + l < last; ++l)
            work.out[(head * work.length + i + l) * work.count + slot] = static_cast<int64_t>(places[l]);
        }
      };
      work.count == 1 ? find(Best{}) : find(Several(work.count));
    }
  });
}

inline void bins(const Bins& work) {
  const int64_t comparisons = work.heads * work.length * work.count * work.depth;
  parallel(comparisons < kLeastShared ? 1 : work.threads, work.heads, [&](int64_t head) {
    for (int64_t dimension = 0; dimension < work.depth; ++dimension) {
      const int64_t row = head * work.depth + dimension, first = dimension * work.bins + work.count;
      const float* numbers = work.numbers + row * work.length;
      const float* edges = work.edges + row * work.count;
      int64_t* out = work.out + head * work.length * work.depth + dimension;
      for (int64_t i = 0; i < work.length; i += kLanes) {
        float eight[kLanes] = {};
        const int64_t left = std::min<int64_t>(work.length - i, kLanes);
        std::memcpy(eight, numbers + i, left * sizeof(float));
        Floats above = zeros();
        for (int64_t e = 0; e < work.count; ++e) above = above + one_above(spread(edges[e]), load(eight));
        store(eight, above);
        for (int64_t l = 0; l < left; ++l) out[(i + l) * work.depth] = first - static_cast<int64_t>(eight[l]);
      }
    }
  });
}

}  // namespace sparsefinder::KERNEL_NAMESPACE
