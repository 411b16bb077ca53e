// A bar to drag along, below its name and its value, with a mark where the value once stood.
#pragma once

#include <optional>
#include <string>

#include "viz/panels/panels.h"

namespace ringscope::viz {

// From a place on the bar, in [0, 1], to a value and back.
struct SliderScale {
  double least = 0, most = 1;  // least < most
  bool logarithmic = false;    // then 0 < least

  double share_of(double value) const;  // within [0, 1]
  double value_at(double share) const;
};

struct Slider {
  const char* name = "";
  std::string value;                // as people read it
  double share = 0;                 // of the bar
  std::optional<double> mark = {};  // where the value once stood
  const char* help = "";            // what it is about
  bool enabled = true;
};

struct SliderTouch {
  std::optional<double> share;  // where it was dragged to in this frame
  bool reset = false;           // back to the mark: a click with the right button
};

inline constexpr float kSliderHeight = 38;

// At ImGui's cursor, as wide as there is room; the cursor then stands below. Names tell sliders of
// a window apart.
SliderTouch draw_slider(const PanelContext& context, const Slider& slider);

}  // namespace ringscope::viz
