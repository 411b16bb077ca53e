// Places the parts of the what-if panel: the settings at the left, and at the right their effect in
// a sentence, in figures, and as two timelines on one axis.
#pragma once

#include <vector>

#include "viz/panels/drawing.h"

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

// Maps a place on the bar, in [0, 1], to a value and back.
struct SliderScale {
  double least = 0, most = 1;  // least < most
  bool logarithmic = false;    // then 0 < least

  double share_of(double value) const;  // within [0, 1]
  double value_at(double share) const;
};

}  // namespace ringscope::viz
