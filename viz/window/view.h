// The viewer's interface to the program: `ringscope view [TRACE...] [--screenshot OUT.png [--size
// WxH] ...]`, whose flags app/view/view_command.cpp declares.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/trace/event.h"
#include "viz/data/session/notes.h"
#include "viz/data/session/search.h"
#include "viz/data/timeline/timeline_layout.h"

namespace ringscope::viz {

// Recordings that are offered where none is given. Several are compared.
struct Example {
  std::string name;  // of a file
  std::string title, text;
  std::function<std::vector<Recording>()> record;
};

struct ViewOptions {
  std::vector<std::string> traces;        // none: the start screen
  std::vector<Example> examples;          // what the start screen offers
  std::optional<std::string> screenshot;  // write a PNG, SVG or PDF instead of opening a window
  std::optional<std::string> animate;     // write a WebP, GIF or MP4 in which the playhead moves
  std::optional<std::string> from, to;    // the part of the axis that it moves through
  double seconds = 8;                     // that this takes
  int fps = 10;                           // pictures in each of them
  bool bare = false;                      // without toolbar and transport; with `panel`, for print
  std::optional<std::string> csv;         // write the slices found, or all
  std::optional<std::string> perfetto;    // write all recordings as one trace for Perfetto
  std::optional<std::string> html;        // write a page that holds the recordings and the viewer
  int width = 0, height = 0;              // 0: 1600 x 900, or what a panel for print needs
  std::optional<int> step;                // put the playhead at this ring step
  bool in_backward = false;               // `step` is one of the backward pass
  std::optional<double> at_ns, at_steps;  // put it at this place of an axis instead
  std::optional<std::string> select;      // words of a search: select the first slice it finds
  bool zoom = false;                      // to the selected slice
  std::optional<std::string> range;       // "FROM..TO": zoom to this part of the axis
  RankOrder order;                        // the ranks that are pinned, and those that are folded
  bool table = false;                     // list what is selected
  bool difference = false;                // of several recordings: what has changed from the first
  std::optional<std::string> layer;       // "iteration:layer" of a profile; none: the median one
  std::optional<std::string> axis;        // "time" or "steps"
  std::optional<int> story;               // the story's paragraph, from 1; 0 hides the story
  std::optional<Figure> panel;            // show only this panel, large
  std::optional<std::string> what_if;     // show a prediction with these settings changed
  std::optional<std::string> theme;  // "dark" or "light"; none: as last time (screenshot: dark)
  // Notes, and on which recording each is, from 1.
  std::vector<std::pair<int, Note>> notes;
};

// Take a moment from a text: "3" or "back:3" is the middle of a step, "2.75" a place on the step
// axis, and "1.5ms" a time. Return whether it is one. Builds without the viewer need it, too.
inline bool take_moment(ViewOptions& options, std::string_view text) {
  options.in_backward = text.starts_with("back:");
  options.step = parse_number<int>(text.substr(options.in_backward ? 5 : 0));
  if (options.step || options.in_backward) return options.step && *options.step >= 0;
  options.at_steps = parse_number<double>(text);
  if (!options.at_steps) options.at_ns = duration_ns(text);
  return options.at_ns || (options.at_steps && *options.at_steps >= 0);
}

// Take different ranks such as "3,7" from a text. Return whether they are.
inline bool take_ranks(std::vector<int>& ranks, std::string_view text) {
  for (const std::string_view part : split(text, ',')) {
    const auto rank = parse_number<int>(part);
    if (!rank || *rank < 0 || std::find(ranks.begin(), ranks.end(), *rank) != ranks.end())
      return false;
    ranks.push_back(*rank);
  }
  return true;
}

// Take a note such as "3@1.5ms:late", or "2/3@1.5ms:late" on the second recording. Return whether it is one.
inline bool take_note(ViewOptions& options, std::string_view text) {
  const std::size_t slash = text.substr(0, text.find('@')).find('/');
  const bool numbered = slash != text.npos;
  const auto recording = numbered ? parse_number<int>(text.substr(0, slash)) : std::optional(1);
  const std::optional<Note> note = parse_note(text.substr(numbered ? slash + 1 : 0));
  if (!note || !recording || *recording < 1) return false;
  options.notes.emplace_back(*recording, *note);
  return true;
}
inline constexpr const char* kAcceptedNotes = "RANK@TIME:TEXT, such as 3@1.5ms:late";

// Return when the window is closed or the picture is written (whole or not at all). Throw
// InputError for traces that can't be read, a step, paragraph or panel that they don't have, a path
// that can't be written to, or a missing display. Throw RunError when drawing fails.
void view(const ViewOptions& options);

// Return an SVG of the panel that a paragraph of a recording's story points at, alone, as wide as a
// column of text. Paragraphs count from 0.
std::string story_picture(const Recording& recording, int paragraph);

// Return a PNG of 960 x 540 pixels of what the viewer shows of recordings, without its bars.
std::string example_picture(const std::vector<Recording>& recordings);

// Return whether there is a display on which a window can be opened.
bool display_is_there();

}  // namespace ringscope::viz
