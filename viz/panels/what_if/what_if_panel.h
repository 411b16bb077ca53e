// Places the parts of the what-if panel: the settings at the left, and at the right their effect in
// a sentence, in figures, and as two timelines on one axis.
#pragma once

#include <vector>

#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

struct WhatIfLayout {
  Box settings;
  Box words;                 // the sentences
  std::vector<Box> figures;  // one per figure; empty if there is no room
  Box ruler;                 // includes the strips' gutter
  Box recorded, predicted;   // strips, each below its title
};

inline constexpr float kWhatIfTitle = 20;  // height of the title above a strip

// Return the layout in `room`, with sentences that are `words` pixels high.
WhatIfLayout what_if_layout(const Box& room, float words, int figures, int recorded_ranks,
                            int predicted_ranks);

// what_if_controls.cpp: draws into the ImGui window that the caller has begun.
void draw_what_if_controls(const PanelContext& context);

// what_if_timelines.cpp
void draw_what_if_timelines(const PanelContext& context, const WhatIfLayout& layout);

}  // namespace ringscope::viz
