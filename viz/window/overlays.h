// What is drawn over the panels or instead of them: loading, an error, a short notice.
#pragma once

#include <string>

#include "viz/model/trace/trace_loader.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// Draw the progress of loading in the middle of the ImGui window that the caller has begun.
void draw_loading(const LoadProgress& progress, const Fonts& fonts, const Palette& palette);

// Draw a dialog. Return true if it was closed.
bool draw_error(const std::string& text, const Fonts& fonts, const Palette& palette);

// Draw a notice at the bottom, with `opacity` in [0, 1].
void draw_notice(const std::string& text, float opacity, const Palette& palette);

}  // namespace ringscope::viz
