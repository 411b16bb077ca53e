// Runs that are meant to fail: how they end, and what their recordings show.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

// Return the recording of a failed ring in steps of a millisecond. Measured, its few hops would be lost
// beside the timeout, and threads on few cores record them out of order. Each step has its computing, and
// the hop that was started with it; of the waits those that never ended are left.
inline Recording in_even_steps(Recording recording) {
  constexpr std::int64_t ms = 1'000'000;
  std::int64_t end = 0;
  for (const auto& events : recording.events)
    for (const TraceEvent& event : events) end = std::max(end, event.end_ns);
  for (auto& events : recording.events) {
    std::erase_if(events, [&](const TraceEvent& event) {
      return event.lane == Lane::wait && event.duration_ns() < end / 2;
    });
    std::int64_t computed = 0;
    for (TraceEvent& event : events) {
      if (event.lane == Lane::wait) continue;
      event.begin_ns = event.step * ms;
      event.end_ns = event.begin_ns + (event.lane == Lane::compute ? ms : 8 * ms / 10);
      event.cpu_ns = event.lane == Lane::compute ? ms : 0;
      event.moved_ns = 0;
      computed = std::max(computed, event.end_ns);
    }
    for (TraceEvent& event : events)
      if (event.lane == Lane::wait)
        event.begin_ns = computed, event.end_ns = (recording.info.world_size + 1) * ms;
  }
  recording.info.base_time_ns = 0;  // at no time of day
  return recording;
}

}  // namespace ringscope::lessons
