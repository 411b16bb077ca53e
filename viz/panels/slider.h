// A bar to drag along, below its name and its value, with a mark at the original value.
#pragma once

#include <optional>
#include <string>

#include "viz/panels/panels.h"

namespace ringscope::viz {

// Maps a place on the bar, in [0, 1], to a value and back.
struct SliderScale {
  double least = 0, most = 1;  // least < most
  bool logarithmic = false;    // then 0 < least

  double share_of(double value) const;  // within [0, 1]
  double value_at(double share) const;
};

struct Slider {
  const char* name = "";
  std::string value;                // as displayed
  double share = 0;                 // position on the bar
  std::optional<double> mark = {};  // position of the original value
  const char* help = "";            // the tooltip
  bool enabled = true;
};

struct SliderTouch {
  std::optional<double> share;  // the place it was dragged to in this frame
  bool reset = false;           // return to the mark, after a click with the right button
};

inline constexpr float kSliderHeight = 38;

// Draw the slider at ImGui's cursor, as wide as there is room, and move the cursor below it.
// Sliders of one window need different names.
SliderTouch draw_slider(const PanelContext& context, const Slider& slider);

}  // namespace ringscope::viz
