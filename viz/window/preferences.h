// What the viewer remembers from one time to the next. Kept where the platform keeps such things
// ($XDG_CONFIG_HOME or ~/.config, ringscope/viewer.json), never beside a trace.
#pragma once

#include <string>

#include "viz/model/timeline/palette.h"
#include "viz/window/workspace.h"

namespace ringscope::viz {

struct Preferences {
  Theme theme = Theme::dark;
  ColorBy color_by = ColorBy::owner;
  int width = 1600, height = 900;
  bool placed = false;  // whether x and y mean anything
  int x = 0, y = 0;
  bool maximized = false;
  Splits splits;
  bool operator==(const Preferences&) const = default;
};

// The file's path; "" where there is no home.
std::string preferences_path();

// Defaults for everything that is missing or makes no sense.
Preferences parse_preferences(const std::string& text);
std::string preferences_text(const Preferences& preferences);

Preferences load_preferences();
// Does nothing where it can't: nobody closes a window to be told about that.
void save_preferences(const Preferences& preferences);

}  // namespace ringscope::viz
