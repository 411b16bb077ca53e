// What goes into a recording, whichever backend it comes from: slices and samples, but for their
// times.
#pragma once

#include <vector>

#include "core/attention/views.h"
#include "core/ring/block_backend.h"
#include "core/trace/event.h"

namespace ringscope {

TraceEvent wait_event(const StepInfo& step, Payload payload);
// With the work that `stats` counted.
TraceEvent compute_event(const StepInfo& step, const AttentionParams& params,
                         const BlockStats& stats);

// Calls f(row) for the local rows whose softmax state is kept: first, middle, last, as far as they
// are there and differ.
template <class F>
void for_sampled_rows(Index rows, F&& f) {
  Index last = -1;
  for (const Index row : {Index{0}, rows / 2, rows - 1})
    if (row > last && row < rows) f(last = row);
}

// The state of the query at global position `query` after a step; lse_error is left for
// set_lse_errors.
SoftmaxSample sample_of(int rank, int step, Index query, std::int64_t at_ns, float row_max,
                        double row_sum);

// When a rank's last sample of each row is there, whose lse is the final one.
void set_lse_errors(std::vector<SoftmaxSample>& samples);

}  // namespace ringscope
