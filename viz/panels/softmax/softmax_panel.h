// A recording's softmax samples, sorted by the query rows that they belong to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

struct SoftmaxRow {
  std::int64_t query = 0;  // global position
  int rank = 0;
  std::vector<SoftmaxSample> samples;  // by step
};
std::vector<SoftmaxRow> softmax_rows(const Trace& trace);  // by query

// The row that shows most at first: whose state changes at the most steps, and of those the last.
int default_softmax_row(const std::vector<SoftmaxRow>& rows);

// Four decimals; "-inf" for a row that has seen no key.
std::string softmax_text(float value);

}  // namespace ringscope::viz
