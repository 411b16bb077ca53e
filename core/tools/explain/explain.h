// Says why a recorded run took as long as it did. Each cause is one thing in the recorded times that
// is set right; the run's graph (recorded_run.h) is evaluated with them, and the difference is what the
// cause cost. So a wait counts for what made the awaited rank or block late, however many
// ranks pass the delay on, and not for the rank that it names.
#pragma once

#include <string>

#include "core/tools/explain/diagnosis.h"
#include "core/trace/event.h"

namespace ringscope {

inline constexpr double kLeastShare = 0.01;

// Explain a recording. Throw InputError for one without events, unless the run failed, for a real run of
// several ranks of which one was recorded, and beyond kMostExplainedRanks.
Explanation explain(const Recording& recording);

// Return what a finding is and what it costs, in one sentence without its full stop.
std::string headline_of(const Diagnosis& finding);
// Return the same and what was seen, as one paragraph.
std::string sentence_of(const Diagnosis& finding);

// Return the headline of the first finding; "" if there is none, not every rank was recorded, or
// there are too many to say it at once.
std::string largest_loss(const Recording& recording);

}  // namespace ringscope
