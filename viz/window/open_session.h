// Makes the session that the viewer shows from trace files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "viz/model/session/session.h"
#include "viz/model/trace/trace_loader.h"
#include "viz/window/view.h"

namespace ringscope::viz {

// Throw InputError for files that are missing, empty or directories, which is known before reading.
void require_openable(const std::vector<std::string>& paths);

// Return the place that a text names on the session's axis: a time, or a number of steps.
std::optional<double> place_on_axis(const Session& session, std::string_view text);

// Return the session of recordings in memory.
Session recorded_session(const std::vector<Recording>& recordings);

// Return the session of `paths`, with several recordings side by side, opened as `options` ask.
// Throw as load_traces does, and InputError for a step, paragraph or panel that a trace lacks.
Session open_session(const std::vector<std::string>& paths, const ViewOptions& options,
                     LoadProgress* progress);

}  // namespace ringscope::viz
