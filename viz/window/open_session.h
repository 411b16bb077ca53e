// From files to what is shown of them.
#pragma once

#include <string>
#include <vector>

#include "viz/model/session/session.h"
#include "viz/model/trace/trace_loader.h"
#include "viz/window/view.h"

namespace ringscope::viz {

// Throws InputError for what can be known about files before they are read: that they are missing,
// empty or directories.
void require_openable(const std::vector<std::string>& paths);

// What `paths` hold, several recordings side by side, with the theme, step, paragraph and panel that
// `options` ask for. Throws as load_traces does, and InputError for what a trace does not have.
Session open_session(const std::vector<std::string>& paths, const ViewOptions& options,
                     LoadProgress* progress);

}  // namespace ringscope::viz
