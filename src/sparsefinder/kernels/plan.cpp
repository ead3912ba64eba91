#include "plan.h"

#include "parallel.h"

namespace sparsefinder {

namespace {

void finish_lists(Lists& lists) {
  lists.packed_begins.resize(lists.begins.size());
  int place = 0;
  for (int list = 0; list < lists.count(); ++list) {
    lists.packed_begins[list] = place;
    place += (lists.size(list) + 15) / 16 * 16;
  }
  lists.packed_begins.back() = place;
  lists.keys.resize(lists.begins.back() + 64);
}

Lists single_list(std::vector<int> keys) {
  Lists lists;
  lists.begins = {0, static_cast<int>(keys.size())};
  lists.keys = std::move(keys);
  finish_lists(lists);
  return lists;
}

Lists column_list(const uint8_t* chosen, int64_t m) {
  std::vector<int> keys;
  for (int64_t j = 0; j < m; ++j)
    if (chosen[j]) keys.push_back(static_cast<int>(j));
  return single_list(std::move(keys));
}

// How far the keys of the diagonals lie ahead of their query, in ascending order.
Lists distance_list(const uint8_t* chosen, int64_t span, int64_t m) {
  std::vector<int> distances;
  for (int64_t place = span - 1; place >= 0; --place)
    if (chosen[place]) distances.push_back(static_cast<int>(m - 1 - place));
  return single_list(std::move(distances));
}

// Whether slot `slot` names a bucket that no earlier slot of the same token names.
bool fresh(const int64_t* slots, int64_t slot) {
  if (slots[slot] < 0) return false;
  for (int64_t earlier = 0; earlier < slot; ++earlier)
    if (slots[earlier] == slots[slot]) return false;
  return true;
}

Lists bucket_lists(const int64_t* buckets, int64_t m, int64_t slots, int64_t count) {
  Lists lists;
  lists.begins.assign(static_cast<size_t>(count) + 1, 0);
  for (int64_t j = 0; j < m; ++j)
    for (int64_t s = 0; s < slots; ++s)
      if (fresh(buckets + j * slots, s)) ++lists.begins[buckets[j * slots + s] + 1];
  for (int64_t c = 0; c < count; ++c) lists.begins[c + 1] += lists.begins[c];
  lists.keys.resize(lists.begins.back());
  std::vector<int> next(lists.begins.begin(), lists.begins.end());
  for (int64_t j = 0; j < m; ++j)
    for (int64_t s = 0; s < slots; ++s)
      if (fresh(buckets + j * slots, s)) lists.keys[next[buckets[j * slots + s]]++] = static_cast<int>(j);
  finish_lists(lists);
  return lists;
}

bool compares(const Piece& piece) { return piece.kind == Kind::rule || piece.kind == Kind::near; }

}  // namespace

Plan::Plan(const Problem& given) : problem(given) {
  for (const Piece& piece : problem.pieces) {
    PiecePlan plan;
    plan.piece = &piece;
    if (piece.kind == Kind::columns) {
      plan.tables.resize(piece.batch * piece.heads);
      parallel(problem.threads, piece.batch * piece.heads,
               [&](int64_t t) { plan.tables[t] = column_list(piece.chosen + t * problem.m, problem.m); });
    } else if (piece.kind == Kind::diagonals) {
      plan.tables.resize(piece.batch * piece.heads);
      parallel(problem.threads, piece.batch * piece.heads, [&](int64_t t) {
        plan.tables[t] = distance_list(piece.chosen + t * piece.span, piece.span, problem.m);
      });
    } else if (piece.query_buckets) {
      int64_t count = 0;
      const int64_t entries = piece.key_batch * piece.key_heads * problem.m * piece.key_slots;
      for (int64_t entry = 0; entry < entries; ++entry) count = std::max(count, piece.key_buckets[entry] + 1);
      plan.tables.resize(piece.key_batch * piece.key_heads);
      parallel(problem.threads, piece.key_batch * piece.key_heads, [&](int64_t t) {
        plan.tables[t] =
            bucket_lists(piece.key_buckets + t * problem.m * piece.key_slots, problem.m, piece.key_slots, count);
      });
      plan.repeats = piece.key_slots > 1 && piece.query_slots > 1;
    }
    if (piece.kind == Kind::rule) plan.reached.resize(problem.batch * problem.heads * problem.n);
    pieces.push_back(std::move(plan));
  }
  if (pieces.size() < 2 || problem.batch * problem.heads * problem.n == 0) return;
  // How large a piece is, a query in the middle tells.
  const auto before = [&](const PiecePlan& one, const PiecePlan& other) {
    const bool rule = compares(*one.piece), other_rule = compares(*other.piece);
    if (rule || other_rule) return !rule && other_rule;
    return most_keys(one, 0, 0, problem.n / 2) > most_keys(other, 0, 0, problem.n / 2);
  };
  std::stable_sort(pieces.begin(), pieces.end(), before);
}

bool Plan::reaches(const PiecePlan& plan, int64_t b, int64_t h, int64_t i, int64_t j) const {
  const Piece& piece = *plan.piece;
  const int8_t* query = piece.query_codes + piece.token(b, h, problem.n, i);
  const int8_t* key = piece.key_codes + piece.token(b, h, problem.m, j);
  int product = 0;
  for (int64_t d = 0; d < piece.ranks[h]; ++d) product += query[d] * key[d];
  return product >= plan.reached[(b * problem.heads + h) * problem.n + i];
}

// Dimension by dimension and without fused operations, as everywhere: so that all who ask get the same answer.
float Plan::squared_distance(const Piece& piece, int64_t b, int64_t h, int64_t i, int64_t j) const {
  const float* query = piece.query_points + piece.token(b, h, problem.n, i);
  const float* key = piece.key_points + piece.token(b, h, problem.m, j);
  float total = 0.0f;
  for (int64_t d = 0; d < piece.rank; ++d) total += (query[d] - key[d]) * (query[d] - key[d]);
  return total;
}

bool Plan::contains(size_t index, int64_t b, int64_t h, int64_t i, int64_t j) const {
  const Piece& piece = *pieces[index].piece;
  switch (piece.kind) {
    case Kind::band: {
      const int64_t distance = j - problem.position(b, i);
      return distance >= piece.first_of_band(h) && distance <= piece.last_of_band(h);
    }
    case Kind::diagonals: {
      const int64_t place = problem.position(b, i) - j + problem.m - 1;
      return place >= 0 && place < piece.span && piece.chosen[piece.table(b, h) * piece.span + place];
    }
    case Kind::columns:
      return piece.chosen[piece.table(b, h) * problem.m + j];
    case Kind::rows:
      return piece.chosen[piece.table(b, h) * problem.n + i];
    case Kind::blocks: {
      const int64_t row = piece.table(b, h) * piece.query_blocks + i / piece.query_size;
      return std::binary_search(piece.blocks + piece.offsets[row], piece.blocks + piece.offsets[row + 1],
                                j / piece.key_size);
    }
    case Kind::rule:
      if (!reaches(pieces[index], b, h, i, j)) return false;
      if (!piece.query_buckets) return true;
      break;
    case Kind::near:
      return squared_distance(piece, b, h, i, j) <= piece.radii[h];
    case Kind::buckets:
      break;
  }
  const int64_t* mine = piece.query_buckets + (piece.table(b, h) * problem.n + i) * piece.query_slots;
  const int64_t* theirs = piece.key_buckets + (piece.key_table(b, h) * problem.m + j) * piece.key_slots;
  for (int64_t s = 0; s < piece.query_slots; ++s)
    if (mine[s] >= 0 && std::find(theirs, theirs + piece.key_slots, mine[s]) != theirs + piece.key_slots) return true;
  return false;
}

bool Plan::first_shared(const Piece& piece, int64_t b, int64_t h, int64_t i, int64_t j, int64_t bucket) const {
  const int64_t* mine = piece.query_buckets + (piece.table(b, h) * problem.n + i) * piece.query_slots;
  const int64_t* theirs = piece.key_buckets + (piece.key_table(b, h) * problem.m + j) * piece.key_slots;
  for (int64_t s = 0; s < piece.query_slots; ++s) {
    if (mine[s] == bucket) return true;
    if (mine[s] >= 0 && std::find(theirs, theirs + piece.key_slots, mine[s]) != theirs + piece.key_slots) return false;
  }
  return false;
}

int64_t Plan::most_keys(const PiecePlan& plan, int64_t b, int64_t h, int64_t i) const {
  const Piece& piece = *plan.piece;
  switch (piece.kind) {
    case Kind::band:
      return std::clamp<int64_t>(piece.last_of_band(h) - piece.first_of_band(h) + 1, 0, problem.m);
    case Kind::columns:
    case Kind::diagonals:
      return plan.lists(b, h).begins.back();
    case Kind::rows:
      return piece.chosen[piece.table(b, h) * problem.n + i] ? problem.m : 0;
    case Kind::blocks: {
      const int64_t row = piece.table(b, h) * piece.query_blocks + i / piece.query_size;
      return (piece.offsets[row + 1] - piece.offsets[row]) * piece.key_size;
    }
    case Kind::rule:
    case Kind::near:
      return problem.m;
    case Kind::buckets:
      break;
  }
  const Lists& lists = plan.lists(b, h);
  const int64_t* mine = piece.query_buckets + (piece.table(b, h) * problem.n + i) * piece.query_slots;
  int64_t most = 0;
  for (int64_t s = 0; s < piece.query_slots; ++s)
    if (mine[s] >= 0 && mine[s] < lists.count()) most += lists.size(static_cast<int>(mine[s]));
  return most;
}

int64_t Plan::most_keys(int64_t b, int64_t h, int64_t i) const {
  int64_t most = 0;
  for (const PiecePlan& plan : pieces) most += most_keys(plan, b, h, i);
  return most;
}

}  // namespace sparsefinder
