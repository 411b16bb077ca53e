// The parts of the what-if panel: settings at the left; at the right what they lead to, in a
// sentence, in figures, and as two timelines on one axis.
#pragma once

#include <vector>

#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

struct WhatIfLayout {
  Box settings;
  Box words;                 // the sentences
  std::vector<Box> figures;  // one a figure; none where there is no room
  Box ruler;                 // the gutter of the strips included
  Box recorded, foretold;    // strips, below a line of words each
};

inline constexpr float kWhatIfTitle = 20;  // of a strip, above it

// In `room`, for sentences of `words` pixels.
WhatIfLayout what_if_layout(const Box& room, float words, int figures, int recorded_ranks,
                            int foretold_ranks);

// what_if_controls.cpp: in the ImGui window that the caller has begun.
void draw_what_if_controls(const PanelContext& context);

// what_if_timelines.cpp
void draw_what_if_timelines(const PanelContext& context, const WhatIfLayout& layout);

}  // namespace ringscope::viz
