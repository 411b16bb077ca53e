// The look of widgets: colours of the palette, round corners, padding.
#pragma once

#include <imgui.h>

#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

void apply_style(ImGuiStyle& style, const Palette& palette, Theme theme);

}  // namespace ringscope::viz
