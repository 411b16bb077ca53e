// Quantiles of a few numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringscope {

// Return the value below which `share` of the values lie, 0 for no values.
inline double quantile_of(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

// Return the middle value, or the mean of the two in the middle.
inline double median_of(const std::vector<double>& values) {
  if (values.size() % 2 == 1 || values.empty()) return quantile_of(values, 0.5);
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return (sorted[sorted.size() / 2 - 1] + sorted[sorted.size() / 2]) / 2;
}

}  // namespace ringscope
