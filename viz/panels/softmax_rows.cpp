#include "viz/panels/softmax_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace ringscope::viz {

std::vector<SoftmaxRow> softmax_rows(const Trace& trace) {
  std::map<std::pair<std::int64_t, int>, SoftmaxRow> by_query;
  for (const SoftmaxSample& sample : trace.samples) {
    SoftmaxRow& row = by_query[{sample.query, sample.rank}];
    row.query = sample.query;
    row.rank = sample.rank;
    row.samples.push_back(sample);
  }
  std::vector<SoftmaxRow> rows;
  for (auto& [query, row] : by_query) {
    std::stable_sort(
        row.samples.begin(), row.samples.end(),
        [](const SoftmaxSample& a, const SoftmaxSample& b) { return a.step < b.step; });
    rows.push_back(std::move(row));
  }
  return rows;
}

int default_softmax_row(const std::vector<SoftmaxRow>& rows) {
  int best = 0;
  std::ptrdiff_t most = -1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // Steps at which the state changed.
    std::ptrdiff_t changes = 0;
    for (std::size_t s = 1; s < rows[i].samples.size(); ++s)
      changes += rows[i].samples[s].row_sum != rows[i].samples[s - 1].row_sum;
    if (changes >= most) {
      most = changes;
      best = static_cast<int>(i);
    }
  }
  return best;
}

std::string softmax_text(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const float size = std::fabs(value);
  return size != 0 && (size >= 1e5f || size < 1e-3f) ? fmt::format("{:.3e}", value)
                                                     : fmt::format("{:.4f}", value);
}

}  // namespace ringscope::viz
