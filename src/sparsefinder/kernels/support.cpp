#include "support.h"

#include <algorithm>
#include <utility>

namespace sparsefinder {

int64_t Support::total() const {
  int64_t total = 0;
  for (const Row& row : rows) total += row.count;
  return total;
}

void Support::write(int64_t* rows_out, int64_t* keys_out, float* weights_out) const {
  std::vector<std::pair<int, float>> entries;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    std::fill_n(rows_out, row.count, static_cast<int64_t>(r));
    if (std::is_sorted(row.keys, row.keys + row.count)) {
      std::copy_n(row.keys, row.count, keys_out);
      std::copy_n(row.weights, row.count, weights_out);
    } else {
      // Found bucket by bucket, or best ones first.
      entries.clear();
      for (int j = 0; j < row.count; ++j) entries.emplace_back(row.keys[j], row.weights[j]);
      std::sort(entries.begin(), entries.end());
      for (int j = 0; j < row.count; ++j) {
        keys_out[j] = entries[static_cast<size_t>(j)].first;
        weights_out[j] = entries[static_cast<size_t>(j)].second;
      }
    }
    rows_out += row.count;
    keys_out += row.count;
    weights_out += row.count;
  }
}

}  // namespace sparsefinder
