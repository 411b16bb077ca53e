// What lies over the panels, or in their place: loading, an error, a short notice.
#pragma once

#include <string>

#include "viz/model/trace/trace_loader.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// How far loading is, in the middle of the ImGui window that the caller has begun.
void draw_loading(const LoadProgress& progress, const Fonts& fonts, const Palette& palette);

// A dialog; true when it was closed.
bool draw_error(const std::string& text, const Fonts& fonts, const Palette& palette);

// At the bottom, `opacity` in [0, 1].
void draw_notice(const std::string& text, float opacity, const Palette& palette);

}  // namespace ringscope::viz
