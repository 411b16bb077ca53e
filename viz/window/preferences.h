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
  std::vector<std::vector<std::string>> recent;  // [recording]: its files; the latest first
  bool operator==(const Preferences&) const = default;
};

inline constexpr float kLeastTextScale = 0.5f, kMostTextScale = 3;
// Return the next larger (1) or smaller (-1) scale of text, or that of the beginning (0).
float changed_text_scale(float scale, int change);

// Return by how much a window or picture of so many pixels magnifies everything, rather than show more:
// quarters of what 1600 x 900 pixels show.
float magnification(int width, int height);
// Return how many pixels a window of so many has per pixel of its layout, which larger text makes no
// smaller than 320 x 240, the size of the smallest window.
float scale_in_window(float content_scale, int width, int height, float text_scale);

// Put a recording first among the recent ones, which are few and leave room in the file for the rest: as
// it was named, or by its files' folder where that holds no others.
void note_recent(Preferences& preferences, const Trace& trace);

// Return the file's path, or "" if there is no home folder.
std::string preferences_path();

// Parse the text. Whatever is missing or makes no sense gets its default.
Preferences parse_preferences(const std::string& text);
std::string preferences_text(const Preferences& preferences);

Preferences load_preferences();
// Save the preferences. Failures are ignored because nobody closes a window to read about them.
void save_preferences(const Preferences& preferences);

}  // namespace ringscope::viz
