// The viewer as the program calls it: `ringscope view TRACE... [--screenshot OUT.png [--size WxH]
// [--step T] [--story K] [--panel P] [--what-if [SETTING=VALUE,...]]]`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace ringscope::viz {

struct ViewOptions {
  std::vector<std::string> traces;        // at least one
  std::optional<std::string> screenshot;  // a PNG instead of a window
  int width = 1600, height = 900;
  std::optional<int> step;             // the playhead at this ring step
  std::optional<int> story;            // its paragraph, from 1; 0: the story is not shown
  std::optional<Figure> panel;         // this one alone, large
  std::optional<std::string> what_if;  // beside a prediction, with these settings changed
  std::optional<std::string> theme;    // "dark" or "light"; none: as last time (screenshot: dark)
};

// Returns when the window is closed or the picture written (whole or not at all). Throws InputError
// for traces that can't be read, a step, paragraph or panel that they don't have, a place that can't
// be written to, or a missing display; RunError when drawing fails.
void view(const ViewOptions& options);

// Whether a window could be opened here: a display is there.
bool display_is_there();

}  // namespace ringscope::viz
