// Runs that are meant to fail: how they end, and what their recordings show.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/threads/run.h"
#include "lessons/book/page.h"

namespace ringscope::lessons {

struct Ending {
  std::string message;  // "ends well", or which rank failed, where, and how
  Recording recording;  // up to the end
  AttentionOutputs outputs;
};

// [ending_of
inline Ending ending_of(const Problem& config, const AttentionInputs& in) {
  try {
    RingRun run = run_on_threads(config, in);
    return {"ends well", std::move(run.recording), std::move(run.outputs)};
  } catch (const RunFailure& failure) {
    return {fmt::format("rank {}, step {}: {}", failure.rank(), failure.step(), failure.what()),
            failure.recording(),
            {}};
  }
}
// ending_of]

// Return the rank that `rank` last waited for, or -1 if there was none.
inline int last_awaited(const Recording& recording, int rank) {
  int awaited = -1;
  for (const TraceEvent& event : recording.events[static_cast<std::size_t>(rank)])
    if (event.lane == Lane::wait) awaited = event.waiting_for;
  return awaited;
}

}  // namespace ringscope::lessons
