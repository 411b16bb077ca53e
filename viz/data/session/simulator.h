// Rings that the viewer simulates by itself: its examples, and what the sliders of its start screen say.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/sim/scenario.h"

namespace ringscope::viz {

// Names and values of settings as the flags of `ringscope simulate` have them (core/tools/sim/scenario_rows.h).
using Settings = std::vector<std::pair<std::string, std::string>>;

// Return a causal ring of eight H100s with 4096 positions each, changed by `settings`. Throw InputError
// for values that are refused.
Scenario ring_of(const Settings& settings);

// A slider chooses one of a few values of a setting.
struct Slider {
  const char* label;
  std::string_view setting;
  std::vector<const char*> values;
  int place;                // the index of the value that it begins with
  const char* before = "";  // what a setting's text has before the value
  const char* unit = "";    // what the slider says behind it
};
const std::vector<Slider>& sliders();

// Return the settings of sliders that stand at these places, and the command that records the same.
Settings settings_at(const std::vector<int>& places);
std::string command_at(const std::vector<int>& places);

}  // namespace ringscope::viz
