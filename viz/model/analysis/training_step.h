// What is different about the recording of a training step: the ring of one layer is part of a
// longer piece of work, which has a lane of its own. A rank is at the ring in two stretches of time,
// one a pass; outside of them it computes the rest of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// [begin_ns, end_ns)
struct Stretch {
  std::int64_t begin_ns = 0, end_ns = 0;
};

// When `rank` was at the ring, by time: from its first computation or wait in a pass to the last.
std::vector<Stretch> ring_stretches(const Trace& trace, int rank);

// Slices of the rank's model lane, outermost ones; empty where there is no such lane.
const std::vector<Slice>& model_slices(const Trace& trace, int rank);

// Which step and layer it is of, and how much of the step is attention; "" for other recordings.
std::string words_of_training(const Trace& trace);

}  // namespace ringscope::viz
