// The viewer's interface to the program: `ringscope view TRACE... [--screenshot OUT.png [--size
// WxH] [--step T] [--at PASS:T] [--select WORDS [--zoom]] [--difference] [--axis A] [--story K] [--panel P] [--what-if [SETTING=VALUE,...]]]`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/text.h"
#include "core/trace/event.h"

namespace ringscope::viz {

struct ViewOptions {
  std::vector<std::string> traces;        // at least one
  std::optional<std::string> screenshot;  // write a PNG instead of opening a window
  std::optional<std::string> html;        // write a page that holds the recordings and the viewer
  int width = 1600, height = 900;
  std::optional<int> step;             // put the playhead at this ring step
  bool in_backward = false;            // `step` is one of the backward pass
  std::optional<std::string> select;   // words of a search: select the first slice it finds
  bool zoom = false;                   // to the selected slice
  bool difference = false;             // of several recordings: what has changed from the first
  std::optional<std::string> axis;     // "time" or "steps"
  std::optional<int> story;            // the story's paragraph, from 1; 0 hides the story
  std::optional<Figure> panel;         // show only this panel, large
  std::optional<std::string> what_if;  // show a prediction with these settings changed
  std::optional<std::string> theme;    // "dark" or "light"; none: as last time (screenshot: dark)
};

// Take a step from a text such as "3" or "back:3". Return whether it is one.
inline bool take_step(ViewOptions& options, std::string_view text) {
  options.in_backward = text.starts_with("back:");
  options.step = parse_number<int>(text.substr(options.in_backward ? 5 : 0));
  return options.step && *options.step >= 0;
}

// Return when the window is closed or the picture is written (whole or not at all). Throw
// InputError for traces that can't be read, a step, paragraph or panel that they don't have, a path
// that can't be written to, or a missing display. Throw RunError when drawing fails.
void view(const ViewOptions& options);

// Return whether there is a display on which a window can be opened.
bool display_is_there();

}  // namespace ringscope::viz
