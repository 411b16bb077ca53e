// The settings that the viewer keeps between runs. They live in the platform's folder for settings
// ($XDG_CONFIG_HOME or ~/.config, ringscope/viewer.json), never beside a trace.
#pragma once

#include <string>
#include <vector>

#include "viz/data/timeline/palette.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {

struct Preferences {
  Theme theme = Theme::dark;
  ColorBy color_by = ColorBy::owner;
  int width = 1600, height = 900;
  float text_scale = 1;  // of everything, beside what the screen and the window's size ask for
  Splits splits;
  std::vector<std::string> recent;  // recordings that were opened, the latest first
  bool operator==(const Preferences&) const = default;
};

// Put `path` first among the recent ones, which are few.
void note_recent(Preferences& preferences, const std::string& path);

// Return the file's path, or "" if there is no home folder.
std::string preferences_path();

// Parse the text. Whatever is missing or makes no sense gets its default.
Preferences parse_preferences(const std::string& text);
std::string preferences_text(const Preferences& preferences);

Preferences load_preferences();
// Save the preferences. Failures are ignored because nobody closes a window to read about them.
void save_preferences(const Preferences& preferences);

}  // namespace ringscope::viz
