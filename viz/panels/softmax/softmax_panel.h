// A recording's softmax samples, grouped by query row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

struct SoftmaxRow {
  std::int64_t query = 0;  // global position
  int rank = 0;
  std::vector<SoftmaxSample> samples;  // in order of steps
};
std::vector<SoftmaxRow> softmax_rows(const Trace& trace);  // in order of queries

// Return the row whose state changes at the most steps; among several, return the last one.
int default_softmax_row(const std::vector<SoftmaxRow>& rows);

// Format four decimals, or "-inf" for a row that has seen no key.
std::string softmax_text(float value);

}  // namespace ringscope::viz
