// `ringscope view`: the viewer, where this build has it.
#pragma once

#include "viz/window/view.h"

namespace ringscope {

// What to say where there is no viewer: why, and what brings it. "" where there is one.
const char* why_no_viewer();

// Whether a window could be opened here.
bool can_show_windows();

// Returns 0 when the window was closed or the picture written. Throws InputError, RunError,
// std::bad_alloc; InputError also where this build has no viewer.
int view_command(const viz::ViewOptions& options);

}  // namespace ringscope
