// A story's paragraph in lines: see viz/model/session/rich_text.h for how it is written.
#pragma once

#include <string_view>

#include "viz/panels/drawing.h"

namespace ringscope::viz {

// Lines of at most `width`. Returns the height. `lit`: as that which is to be read now.
float draw_rich(const PanelContext& context, ImDrawList& list, ImVec2 top_left, float width,
                bool lit, std::string_view text);
float rich_height(const PanelContext& context, float width, std::string_view text);

}  // namespace ringscope::viz
