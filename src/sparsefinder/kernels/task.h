// A run of neighbouring queries of one head, from candidates to results. The pieces of the graph are walked one after
// the other, each as groups of queries that pass over panels of keys together. Dense attention is the graph of one
// piece without limits.
#pragma once

#include "buckets.h"
#include "rules.h"
#include "screening.h"

namespace sparsefinder::KERNEL_NAMESPACE {

template <int Depth>
class Task {
 public:
  Task(const Share& share, Support* support)
      : share_(share), rows_(share), support_(support), alone_(share.plan.one_bucket()), lent_(alone_ && !support) {
    bool buckets_only = !share.problem.screened;
    for (const Piece& piece : share.problem.pieces) buckets_only = buckets_only && piece.kind == Kind::buckets;
    if (!buckets_only) rows_.scale_all();
    if (!lent_) rows_.make_lists();
  }

  bool nonfinite() const { return rows_.nonfinite(); }
  int64_t computed() const { return rows_.computed(); }

  void run(int64_t task) {
    for (size_t index = 0; index < share_.plan.pieces.size(); ++index) walk(index);
    if (share_.problem.screened) walk_all(share_.plan.pieces.size());
    if (!alone_) rows_.finish(nullptr, share_.size);
    if (support_)
      keep(share_.problem, share_.b, share_.h, share_.first, share_.size, rows_.candidates(), *support_, task);
    Scratch::mine().trim();
  }

 private:
  const Share share_;
  Rows<Depth> rows_;
  Support* support_;
  bool alone_, lent_;  // for buckets

  void walk(size_t index) {
    const Piece& piece = *share_.plan.pieces[index].piece;
    switch (piece.kind) {
      case Kind::band:
        return walk_band(index, piece.first_of_band(share_.h), piece.last_of_band(share_.h));
      case Kind::diagonals:
        return walk_diagonals(index);
      case Kind::columns:
        return walk_columns(index);
      case Kind::rows:
        return walk_rows(index, piece);
      case Kind::blocks:
        return by_panels(piece) ? walk_blocks(index, piece) : walk_pairs(index, piece);
      case Kind::buckets:
        return BucketWalk<Depth>(share_, rows_, index, alone_, lent_).run();
      case Kind::rule:
        return RuleWalk<Depth>(share_, rows_, index).run();
      case Kind::near:
        return NearWalk<Depth>(share_, rows_, index).run();
    }
  }

  // All keys, as if the piece had them.
  void walk_all(size_t index) {
    if (share_.screened) return Screening<Depth>(share_, rows_, index).run();
    for (int64_t start = 0; start < share_.size; start += kDenseRows) {
      const int64_t count = std::min<int64_t>(share_.size - start, kDenseRows);
      rows_.take(start, count);
      for (int r = 0; r < count; ++r) rows_.see(r, 0, share_.problem.m);
      rows_.pass(index);
    }
  }

  // Keys at distances first … last from their query. A narrow band is walked in small groups, whose keys differ little.
  void walk_band(size_t index, int64_t first, int64_t last) {
    const int64_t width = last - first + 1;
    if (width <= 0) return;
    const int64_t step = width >= 2 * kDenseRows ? kDenseRows : width / 2 / kTileRows * kTileRows + kTileRows;
    for (int64_t start = 0; start < share_.size; start += step) {
      const int64_t count = std::min(share_.size - start, step);
      rows_.take(start, count);
      for (int r = 0; r < count; ++r) {
        const int64_t position = share_.problem.position(share_.b, share_.first + start + r);
        rows_.see(r, position + first, position + last + 1);
      }
      rows_.pass(index);
    }
  }

  // Neighbouring diagonals as bands, the others key by key.
  void walk_diagonals(size_t index) {
    const Lists& lists = share_.lists(index);
    const int *distances = lists.keys.data(), *end = distances + lists.size(0);
    std::vector<int> single;
    for (const int *first = distances, *last; first < end; first = last) {
      for (last = first + 1; last < end && *last == last[-1] + 1;) ++last;
      if (last - first >= kLeastBand)
        walk_band(index, *first, last[-1]);
      else
        single.insert(single.end(), first, last);
    }
    int* listed = Scratch::mine().listed.get(kChunk + kSlack);
    for (int64_t r = 0; r < share_.size; ++r) {
      const int64_t position = share_.problem.position(share_.b, share_.first + r), seen = share_.limit(r);
      auto distance = std::lower_bound(single.begin(), single.end(), -position);
      while (distance != single.end() && position + *distance < seen) {
        int count = 0;
        for (; count < kChunk && distance != single.end() && position + *distance < seen; ++distance)
          listed[count++] = static_cast<int>(position + *distance);
        rows_.look_at(index, r, listed, count);
      }
    }
  }

  void walk_columns(size_t index) {
    const Lists& lists = share_.lists(index);
    for (int64_t start = 0; start < share_.size; start += kDenseRows) {
      const int64_t count = std::min<int64_t>(share_.size - start, kDenseRows);
      rows_.take(start, count);
      for (int r = 0; r < count; ++r) rows_.see_list(r, lists.keys.data(), lists.size(0));
      rows_.pass(index, rows_.panels_of(index, 0), lists.keys.data());
    }
  }

  void walk_rows(size_t index, const Piece& piece) {
    const uint8_t* chosen = piece.chosen + piece.table(share_.b, share_.h) * share_.problem.n + share_.first;
    int members[kDenseRows], count = 0;
    for (int64_t r = 0; r <= share_.size; ++r) {
      if (r < share_.size && chosen[r]) members[count++] = static_cast<int>(r);
      if (count == 0 || (count < kDenseRows && r < share_.size)) continue;
      rows_.gather(members, count);
      for (int g = 0; g < count; ++g) rows_.see(g, 0, share_.problem.m);
      rows_.pass(index);
      count = 0;
    }
  }

  void walk_blocks(size_t index, const Piece& piece) {
    for (int64_t start = 0, count; start < share_.size; start += count) {
      const int64_t block = (share_.first + start) / piece.query_size;
      count = std::min((block + 1) * piece.query_size - share_.first, share_.size) - start;
      if (count > kGroupRows) count = kDenseRows;
      rows_.take(start, count);
      const int64_t row = piece.table(share_.b, share_.h) * piece.query_blocks + block;
      const int64_t *chosen = piece.blocks + piece.offsets[row], *end = piece.blocks + piece.offsets[row + 1];
      piece.key_size % kPanel ? pass_stretches(index, piece.key_size, chosen, end, count)
                              : pass_panels(index, piece.key_size, chosen, end, count);
    }
  }

  void pass_stretches(size_t index, int64_t key_size, const int64_t* chosen, const int64_t* end, int64_t count) {
    while (chosen < end) {
      const int64_t low = *chosen * key_size;
      int64_t high = low + key_size;
      // Adjacent blocks are one stretch of keys.
      for (++chosen; chosen < end && *chosen * key_size == high; ++chosen) high += key_size;
      for (int r = 0; r < count; ++r) rows_.see(r, low, high);
      rows_.pass(index);
    }
  }

  // Blocks of whole panels: all of a chunk in one pass, wherever they lie.
  void pass_panels(size_t index, int64_t key_size, const int64_t* chosen, const int64_t* end, int64_t count) {
    int places[kChunk / kPanel], number = 0;
    int* ids = Scratch::mine().listed.get(kChunk + kSlack);
    const int64_t panels = key_size / kPanel, last = (share_.problem.m + kPanel - 1) / kPanel;
    const auto pass = [&] {
      for (int r = 0; r < count; ++r) rows_.see_list(r, ids, number * kPanel);
      rows_.pass_over(index, places, ids);
      number = 0;
    };
    for (; chosen < end; ++chosen)
      for (int64_t panel = *chosen * panels; panel < std::min((*chosen + 1) * panels, last); ++panel) {
        for (int i = 0; i < kPanel; ++i) ids[number * kPanel + i] = static_cast<int>(panel * kPanel + i);
        places[number++] = static_cast<int>(panel);
        if (number == kChunk / kPanel) pass();
      }
    if (number) pass();
  }

  // Key by key: blocks too small for a tile, explicit pairs above all.
  void walk_pairs(size_t index, const Piece& piece) {
    int* listed = Scratch::mine().listed.get(kChunk + kSlack);
    for (int64_t r = 0; r < share_.size; ++r) {
      const int64_t block = (share_.first + r) / piece.query_size, seen = share_.limit(r);
      const int64_t row = piece.table(share_.b, share_.h) * piece.query_blocks + block;
      int count = 0;
      for (int64_t entry = piece.offsets[row]; entry < piece.offsets[row + 1]; ++entry) {
        const int64_t low = piece.blocks[entry] * piece.key_size;
        for (int64_t j = low; j < low + piece.key_size && j < seen; ++j) {
          listed[count++] = static_cast<int>(j);
          if (count == kChunk) {
            rows_.look_at(index, r, listed, count);
            count = 0;
          }
        }
      }
      rows_.look_at(index, r, listed, count);
    }
  }
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
