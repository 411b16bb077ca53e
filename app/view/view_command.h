// `ringscope view` opens the viewer, in builds that have it.
#pragma once

#include "viz/window/view.h"

namespace ringscope {

// Return why there is no viewer and how to get it, or "" where there is one.
const char* why_no_viewer();

// Return whether a window could be opened here.
bool can_show_windows();

// Return 0 when the window was closed or the picture written. Throw InputError, RunError,
// std::bad_alloc. Throw InputError also in a build without a viewer.
int view_command(const viz::ViewOptions& options);

}  // namespace ringscope
