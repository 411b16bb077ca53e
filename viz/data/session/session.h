// Holds what the user looks at, and the playhead that moves through it. Panels share nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/trace/event.h"
#include "viz/data/analysis/comparison.h"
#include "viz/data/analysis/what_if.h"
#include "viz/data/session/document.h"
#include "viz/data/session/search.h"
#include "viz/data/timeline/axis.h"
#include "viz/data/timeline/timeline_layout.h"
#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// ---
// Moves the playhead. Its position is on the axis (nanoseconds or ring steps), so in steps mode
// every rank, and every trace of a comparison, is shown at the same point of the same step,
// whatever its clock said.

class Playback {
 public:
  double position() const { return position_; }
  bool playing() const { return playing_; }
  double speed() const { return speed_; }

  // Play or pause. `length` is the axis' end; playing from the end starts over.
  void toggle(double length);
  void pause() { playing_ = false; }
  void seek(double position, double length);
  // Double or halve the speed, which stays between 1/64 and 64.
  void faster();
  void slower();
  // Move by `seconds` of real time. At speed 1 the whole axis takes about ten seconds in time mode,
  // and a step takes one second in steps mode. Stops at the end.
  void advance(double seconds, AxisMode mode, double length);

 private:
  double position_ = 0;
  double speed_ = 1;
  bool playing_ = false;
};

// Return the beginning of the next (previous) step after (before) `position`: the next whole number
// in steps mode, and the next moment at which `rank` begins a step in time mode,
// or the first rank if it is -1.
double next_step(const Axis& axis, AxisMode mode, int rank, double position);
double previous_step(const Axis& axis, AxisMode mode, int rank, double position);

// ---
// Holds what the user is looking at: one selection, one playhead and one set of switches that all
// panels share. Panels read and change only this, so it can be driven and tested without a screen.

struct Measure {
  double from = 0, to = 0;   // on the present axis
  std::vector<int> ranks{};  // empty: all

  bool holds(int rank) const {
    return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
};

// How things are drawn.
struct Look {
  ColorBy color_by = ColorBy::owner;
  Theme theme = Theme::dark;
  MaskOrder mask_order = MaskOrder::global;
  bool flows = true, critical_path = false;
};

// Which panels there are.
struct Panels {
  std::optional<Figure> front;  // the figure to bring to the front; reset when it is there
  std::optional<Figure> alone;  // its panel takes all the room beside the story
  std::optional<Figure> under_mouse;
  bool bare = false;   // neither toolbar nor transport
  bool print = false;  // one panel as a paper's figure, without what only a window needs
  bool table = false;  // of what is selected (selection.h)
  bool help = false;
  int tile_step = 0;  // of the recorded tile's computation, in [0, kTileSteps)
};
inline constexpr int kTileSteps = 7;

struct Sought {
  std::string text;
  SearchResult found;
  std::size_t at = 0;
  std::vector<SliceId> marked;  // beside what is found, as long as the mouse points at a bin
  bool open = false;            // the field to type in
};

struct Telling {
  bool shown = true;
  int at = -1;          // the last paragraph told; -1: none yet
  bool points = false;  // highlights what the paragraph is about
};

// The timeline's panel may show all ranks x steps instead of slices.
struct RankMap {
  bool shown = false;
  bool by_deviation = true;  // the ranks that differ most first, else by number
  int metric = 0;            // index in kHeatMetrics, of every heat map
};

// What the window is asked for.
struct Wishes {
  std::string copied;   // text for the clipboard
  std::string said;     // a line to show for a while
  bool file = false;    // another recording
  std::string picture;  // the ending of one to write; "": none
};

class Session {
 public:
  explicit Session(std::vector<Document> documents);

  std::vector<Document> documents;
  std::size_t active = 0;   // the document that single panels show
  bool comparing = false;   // several documents side by side
  bool difference = false;  // of them: what has changed from the first, instead of all of them
  Comparison comparison;    // of our recordings; empty below two or if world_sizes differ

  AxisMode axis_mode = AxisMode::time;
  TimelineView view;
  RankOrder order;  // of the timeline's ranks
  Playback playback;
  std::optional<SliceId> selected;  // in the active document
  std::optional<SliceId> hovered;
  int selected_rank = -1;  // follows `selected`; -1 if there is none
  std::optional<Measure> measure;
  Look look;
  Panels panels;
  Sought sought;
  std::optional<Note> writing;  // the note on the active document whose text is typed
  Telling telling;
  RankMap rank_map;
  Wishes wishes;
  std::unique_ptr<WhatIf> what_if;  // predicts for the active document while it is shown

  // The viewer begins with the overview if there are more ranks.
  static constexpr std::size_t kMostInSlices = 16;

  const Document& document() const { return documents[active]; }
  // Return the indices of the documents that are recordings of ours, in the order of `comparison`.
  std::vector<std::size_t> rings() const;
  // Return the length of the active document's axis; beside a prediction, the longer of both.
  double length() const;
  // Return the ring at the playhead in document `d`, whose axis may have another length: the same
  // step in steps mode, the same time in time mode.
  RingMoment moment(std::size_t d) const;
  // Return whether the playhead is drawn. In print it marks a moment that was asked for.
  bool marks_now() const { return !panels.print || playback.position() < length(); }
  // "Now" is the same in all panels: the step that this rank is at, the selected one or else rank 0.
  int rank_now() const { return std::max(selected_rank, 0); }
  // Return that step of the step axis in document `d`; -1 if it has none.
  int step_now(std::size_t d) const;

  void activate(std::size_t document);
  // Show a layer of the active document's profile, at the beginning of a pass. Does nothing for a number out
  // of range.
  void show_layer(std::size_t layer, Pass pass = Pass::forward);
  // Show what has changed from the first recording, or all of them. Times tell most of it.
  void show_difference(bool on);
  void select(std::optional<SliceId> slice);
  // Go to the slice or, if there is none, only select the rank.
  void go_to_in_rank(std::optional<SliceId> slice, int rank);
  // Return where a slice of the active document begins and ends on the axis.
  std::pair<double, double> span_of(SliceId slice) const;
  // Return the view that shows a slice from edge to edge.
  TimelineView view_of(SliceId slice) const;
  // Select the slice and move the playhead to it.
  void go_to(SliceId slice);
  // Select the rank, and move the playhead to what it computes at a step of document `d`. If it computes
  // nothing there, say so, and move it to where the first rank begins the step.
  void go_to_step(std::size_t d, int rank, int step);
  // Do the same and bring it into view, large enough to be seen if `zooms`.
  void reveal(SliceId slice, bool zooms = false);
  void bring_into_view(SliceId slice);
  void select_rank(int rank);
  // Select the note's rank, and move the playhead to its moment, in view. If one is written, write this one.
  void go_to(const Note& note);
  double position_of(const Note& note) const;  // on the axis
  // Put a note on document `d`, and on those that share its notes and reach as far.
  void put(std::size_t d, const Note& note);
  // Begin to write a note at the playhead on the selected rank, or to change the one that is there.
  void write_note();
  // Return whether the note that is being written says what no kept one does.
  bool has_unkept_text() const;
  // Show what `rank` computes at a step from edge to edge, instead of the overview.
  void open_slice(int rank, int step);
  void show_overview(bool on);        // does nothing for a trace that has none
  void set_axis_mode(AxisMode mode);  // keeps playhead and view at the same moments
  void set_search(std::string text);
  void set_view(const TimelineView& next);  // remembers the last view for go_back
  void pin(int rank);                       // moves a rank to the top, or back; remembered as well
  void fold(int rank);                      // leaves one low row of a rank, or all again
  void go_back();                           // to what was remembered last
  void seek(double position);
  void seek_step(int step);  // to the middle of step `step`, on the step axis

  // The story is the active document's. It is shown only beside that one recording.
  const std::vector<StoryStep>& story() const { return document().trace.story; }
  bool story_shown() const { return telling.shown && !comparing && !what_if && !story().empty(); }
  // Return the paragraph that is pointed at now, or null.
  const StoryStep* pointed_at() const {
    return story_shown() && telling.points && telling.at >= 0 ? &story()[telling.at] : nullptr;
  }
  bool story_over() const { return telling.at + 1 >= static_cast<int>(story().size()); }
  // Go to a paragraph: move the playhead to its moment, or else to that of the last paragraph
  // before it that has one, and select what it is about. If that is the mask, show it in local
  // order. A number out of range means the nearest paragraph.
  void tell(int paragraph);

  // Move the playhead to where the active document's run failed, and select what shows the failure.
  // Return false and change nothing if it did not fail.
  bool go_to_failure();
  void show_alone(std::optional<Figure> panel);

  // Show (if `open`) or close a prediction beside the active document, without other documents.
  void show_what_if(bool open);
  // Show the prediction for `settings` (apply()), unless none can be made for them.
  void try_settings(const std::string& settings);
  // Start the prediction that the settings ask for, and show what is ready. Call it once per frame.
  void update_what_if();
  // Make the prediction a document like the others, and the active one. Does nothing unless the
  // prediction holds all ranks.
  void keep_prediction();

 private:
  void compare_all();
  void forget_slices();
  void begin_with_overview();

  void remember();

  std::vector<std::pair<TimelineView, RankOrder>> history_;
  using MomentKey = std::tuple<std::uint64_t, AxisMode, double>;
  mutable MomentKey moment_key_{0, AxisMode::time, 0};
  mutable RingMoment moment_;  // of moment_key_
};

// Return the slice in which `rank` attends at step `step` of the step axis, or none if it did not.
std::optional<SliceId> compute_slice(const Document& document, int rank, int step);

// Advance the playhead by `seconds` of real time.
void advance(Session& session, double seconds);

// ---
// Finds what a paragraph of a recording's story points at: the slices that it is about, and the
// moment at which to look at them.

// Return whether the paragraph is about less than the whole run.
bool points_at_something(const StoryStep& told);
// Return whether it is about `slice` of a rank; false if it is about the whole run.
bool points_at(const StoryStep& told, int rank, const TraceEvent& slice);

struct StoryMoment {
  std::optional<SliceId> slice;    // the slice that the playhead stands in
  std::optional<double> position;  // on the axis; none if the paragraph is about no moment
};

// Return the middle of the longest slice that the paragraph is about, forward slices before
// backward ones and lanes in their order. A step without such slices still has a middle. `trace` is
// a recording of ours and `axis` is its own.
StoryMoment moment_of(const Trace& trace, const Axis& axis, AxisMode mode, const StoryStep& told);

// Return "rank 1 · backward step 2 · wait", or "" for the whole run.
std::string place_of(const StoryStep& told);

// ---
// Every key in one table, so that the viewer obeys exactly what `?` lists.

// What keys and buttons do to the session. Each has a key.
using Command = void(Session& session);
namespace commands {

Command go_on;  // to the story's next paragraph; without one, or at its end, like play_pause
Command play_pause, story_back, step_forward, step_back, faster, slower;
Command to_start, to_end;  // move the playhead
Command zoom_in, zoom_out, pan_left, pan_right, fit_all, focus_selection;
Command go_back;              // to the previous view
Command pin_rank, fold_rank;  // the selected one
Command next_slice, previous_slice, follow_flow, follow_flow_back;
Command search, next_found, previous_found;
Command toggle_overview, toggle_order, toggle_flows, toggle_critical_path, toggle_axis;
Command toggle_colors, toggle_theme, toggle_mask_order, next_trace, toggle_compare;
Command next_layer, previous_layer;
Command toggle_difference, toggle_story, toggle_what_if;
Command next_in_tile, previous_in_tile;
Command enlarge;  // enlarges one panel, or shows all of them again
Command toggle_table, copy_command, copy_table, help;
Command write_note, next_note, previous_note, save_notes;
Command toggle_bare, picture_png, picture_svg, open_file;
Command cancel;  // closes what is open, else clears selection and measure

}  // namespace commands

// A key is a printable character or one of these. Shift is part of the character ('?' is '?').
enum class SpecialKey : std::uint8_t {
  none,
  left,
  right,
  home,
  end,
  backspace,
  escape,
  enter,
  tab
};

struct Key {
  char32_t character = 0;  // as typed; 0 for a special key
  SpecialKey special = SpecialKey::none;
  bool shift = false;  // special keys only
  bool operator==(const Key&) const = default;
};

struct KeyBinding {
  Key key;
  Command* command;
};
// Return all bindings. Two keys may mean one command.
const std::vector<KeyBinding>& key_bindings();

// A HelpLine gives keys or mouse gestures as people read them, what they do, and the keys' bindings.
struct HelpLine {
  std::string_view keys, text;
  std::vector<KeyBinding> bindings{};
};
std::span<const HelpLine> help_lines();

}  // namespace ringscope::viz
