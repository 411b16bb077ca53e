// Sets a story's paragraph in lines. viz/model/session/rich_text.h describes the markup.
#pragma once

#include <string_view>

#include "viz/panels/drawing.h"

namespace ringscope::viz {

// Draw lines of at most `width` and return their height. `lit` marks the text to be read now.
float draw_rich(const PanelContext& context, ImVec2 top_left, float width, bool lit,
                std::string_view text);
float rich_height(const PanelContext& context, float width, std::string_view text);

}  // namespace ringscope::viz
