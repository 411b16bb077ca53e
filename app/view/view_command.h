// Opens the viewer and writes the pictures of commands, in builds that can.
#pragma once

#include <string>
#include <vector>

#include "core/trace/event.h"
#include "viz/window/view.h"

namespace ringscope {

// Write the panel that a paragraph of a recording's story, from 0, points at as SVG, whole or
// not at all. Throw InputError if the path can't be written to, and RunError if the disk is full.
void write_story_picture(const Recording& recording, int paragraph, const std::string& path);

// Return a PNG of what the viewer begins with, or "" in builds without it.
std::string example_picture(const std::vector<Recording>& recordings);

// Return the recordings that the viewer offers where none is given, on the desktop and in a site. They
// are simulated, or run on threads, when they are recorded.
std::vector<viz::Example> viewer_examples();

// Return why there is no viewer and how to get it, or "" where there is one.
const char* why_no_viewer();

// Return whether a window could be opened here.
bool can_show_windows();

}  // namespace ringscope
