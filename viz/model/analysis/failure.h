// What a recording of a run that failed shows of its end: who waited for what never came, after what
// nothing more was heard of a rank, and where to look first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// The waits that a failed run broke off, by rank, at most one each: a rank's last wait, when it
// computed nothing after it and its hop was not over. None of a run that ended well.
std::vector<SliceId> unfinished_waits(const Trace& trace);

struct FailurePlace {
  std::optional<SliceId> slice;  // a wait that was broken off
  int rank = -1;                 // the one that failed, where it is known
  std::int64_t at_ns = 0;        // a moment at which all is over but the waiting
};
// Of the unfinished waits the failed rank's own, or else the longest; without any, the moment at
// which the failed rank was last seen. None of a run that ended well.
std::optional<FailurePlace> failure_place(const Trace& trace, const std::vector<SliceId>& waits);

// Where the last slice of a rank of a recording of ours ends; nullopt: it has none.
std::optional<std::int64_t> last_seen_ns(const Trace& trace, int rank);

// In sentences: who was waiting for whom when it ended, and what nobody heard any more.
std::vector<std::string> findings_of_failure(const Trace& trace, const std::vector<SliceId>& waits);

}  // namespace ringscope::viz
