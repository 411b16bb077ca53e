// Tells what is special about the recording of a training step: the ring of one layer is part of
// more work, which has a lane of its own. A rank is at the ring in two stretches of time, one per
// pass; outside of them it computes the rest of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// [begin_ns, end_ns) is the time that a Stretch covers.
struct Stretch {
  std::int64_t begin_ns = 0, end_ns = 0;
};

// Return when `rank` was at the ring, by time: from a pass's first computation or wait to its last.
std::vector<Stretch> ring_stretches(const Trace& trace, int rank);

// Return the outermost slices of the rank's model lane; empty if there is no such lane.
const std::vector<Slice>& model_slices(const Trace& trace, int rank);

// Return the step, the layer, and how much of the step is attention; "" for other recordings.
std::string words_of_training(const Trace& trace);

}  // namespace ringscope::viz
