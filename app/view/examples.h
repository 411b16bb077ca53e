// The recordings that the viewer offers where none is given, on the desktop and in a site.
#pragma once

#include <vector>

#include "viz/window/view.h"

namespace ringscope {

// Return the examples. They are simulated, or run on threads, when they are recorded.
std::vector<viz::Example> viewer_examples();

}  // namespace ringscope
