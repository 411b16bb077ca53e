// Shows how a recorded run failed: who waited for what never came, when each rank was last heard
// of, and where to look first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Return the waits that a failed run broke off, by rank, at most one each: a rank's last wait, if
// the rank computed nothing after it and its hop was not over. Return none if the run ended well.
std::vector<SliceId> unfinished_waits(const Trace& trace);

// Return the ranks of these waits that wait for each other in a circle, each for the next; or none.
std::vector<int> circle_of(const Trace& trace, const std::vector<SliceId>& waits);

struct FailurePlace {
  std::optional<SliceId> slice;  // a wait that was broken off
  int rank = -1;                 // the rank that failed, if known; in a circle that of the slice
  std::int64_t at_ns = 0;        // where the wait begins
};
// Return the wait that closes a circle, or else the failed rank's own unfinished wait, or else the
// longest, or else the moment at which the failed rank was last seen. Return none for a run that ended
// well.
std::optional<FailurePlace> failure_place(const Trace& trace, const std::vector<SliceId>& waits);

// Return where a rank's last slice ends in a recording of ours; nullopt if it has none.
std::optional<std::int64_t> last_seen_ns(const Trace& trace, int rank);

// Return sentences: who waited for whom at the end, and what was last heard of a silent rank.
std::vector<std::string> findings_of_failure(const Trace& trace, const std::vector<SliceId>& waits);

}  // namespace ringscope::viz
