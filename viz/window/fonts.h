// The typeface, compiled into the program, so that a picture does not depend on the machine that it
// is drawn on. Where it was not there to be compiled in, ImGui's own stands in.
#pragma once

#include <imgui.h>

#include <string_view>

#include "viz/model/timeline/palette.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// Adds all sizes to `atlas`, `scale` pixels to a point. The atlas then still has to be built.
Fonts add_fonts(ImFontAtlas& atlas, float scale);

// What `atlas` looks like; builds it if it has not been.
Image atlas_image(ImFontAtlas& atlas);

// Tells typefaces apart: pictures are alike only where this is.
std::string_view font_name();

}  // namespace ringscope::viz
