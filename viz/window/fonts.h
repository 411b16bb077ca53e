// Sets the look of the viewer: its typeface and the style of its widgets.
#pragma once

#include <imgui.h>

#include <string_view>

#include "viz/model/timeline/palette.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// ---
// The typeface is compiled into the program, so a picture does not depend on the machine that draws
// it. ImGui's own typeface replaces it if the build did not find it.

// Add all sizes to `atlas`, at `scale` pixels per point. The atlas must still be built.
Fonts add_fonts(ImFontAtlas& atlas, float scale);

// Return the picture of `atlas`, which is built first if necessary.
Image atlas_image(ImFontAtlas& atlas);

// Return the typeface's name. Pictures are comparable only between equal names.
std::string_view font_name();

// ---
// The look of widgets: colours of the palette, round corners, padding.

void apply_style(ImGuiStyle& style, const Palette& palette, Theme theme);

}  // namespace ringscope::viz
