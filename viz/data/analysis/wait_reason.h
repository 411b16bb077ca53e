// Says why a rank waited: what the awaited message waited for, and what that waited for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// Return whom a wait is for: "rank 3", or "its own hop" where the rank itself has not done its part.
std::string words_of_awaited(const Trace& trace, SliceId wait);

// Return the last message of its kind that had come from the awaited rank when the wait ended.
std::optional<SliceId> message_that_ended(const Trace& trace, SliceId wait);

// Return why a rank of a recording of ours waited, each sentence with the reason of the one before:
// "KV 7 has not come: rank 0 awaits it from rank 7", "rank 7 computes on KV 6". The last is of what took
// longest of the wait, and none is about a rank that one before it is about. Empty where nothing that was
// recorded tells.
std::vector<std::string> reasons_of_wait(const Trace& trace, SliceId wait);

}  // namespace ringscope::viz
