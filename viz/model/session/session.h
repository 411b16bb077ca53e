// What the person is looking at: one selection, one playhead and one set of switches that all
// panels share. Panels read and change this and nothing else; it can be driven and asserted without
// a screen.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viz/model/analysis/comparison.h"
#include "viz/model/analysis/what_if.h"
#include "viz/model/session/commands.h"
#include "viz/model/session/document.h"
#include "viz/model/session/playback.h"
#include "viz/model/session/search.h"
#include "viz/model/timeline/timeline_layout.h"

namespace ringscope::viz {

struct Mark {
  double position = 0;  // on the axis of `mode`
  AxisMode mode = AxisMode::time;
};

struct Measure {
  double from = 0, to = 0;  // on the present axis
};

class Session {
 public:
  explicit Session(std::vector<Document> documents);

  std::vector<Document> documents;
  std::size_t active = 0;  // the document that single panels show
  bool comparing = false;  // several documents side by side
  Comparison comparison;   // of all documents that are ours; empty below two

  AxisMode axis_mode = AxisMode::time;
  ColorBy color_by = ColorBy::owner;
  Theme theme = Theme::dark;
  MaskOrder mask_order = MaskOrder::global;
  bool show_flows = true;
  bool show_critical_path = false;
  bool show_help = false;

  TimelineView view;
  Playback playback;
  std::optional<SliceId> selected;  // in the active document
  std::optional<SliceId> hovered;
  int selected_rank = -1;  // follows `selected`; -1: none
  std::optional<Measure> measure;
  std::vector<Mark> marks;
  std::string search_text;
  SearchResult found;
  std::size_t found_at = 0;
  bool search_open = false;
  bool wants_screenshot = false;
  bool show_story = true;
  int story_at = -1;             // the paragraph that was told last; -1: none yet
  bool pointing = false;         // what it points at is to be set apart
  std::optional<Figure> figure;  // just told to look there, until that figure has come to the front
  std::optional<Figure> alone;   // its panel has all the room there is beside the story
  std::optional<Figure> under_mouse;
  std::unique_ptr<WhatIf> what_if;  // the active document beside a prediction, while it is there

  const Document& document() const { return documents[active]; }
  // Of the active document's axis; beside a prediction, of the longer of both.
  double length() const;
  // The position of the playhead in document `d`, whose axis may have another length: in steps mode
  // the same step, in time mode the same time.
  RingMoment moment(std::size_t d) const;

  void run(Command command);
  void activate(std::size_t document);
  void select(std::optional<SliceId> slice);
  // Selects, and brings the slice into view.
  void reveal(SliceId slice);
  void bring_into_view(SliceId slice);
  void select_rank(int rank);
  void set_axis_mode(AxisMode mode);  // keeps playhead and view at the same moments
  void set_search(std::string text);
  void set_view(const TimelineView& next);  // remembers the one before, for go_back
  void seek(double position);
  void seek_step(int step);  // to the middle of step `step`, on the step axis

  // The active document's, which nothing else than the story of one recording has beside it.
  const std::vector<StoryStep>& story() const { return document().trace.story; }
  bool story_shown() const { return show_story && !comparing && !what_if && !story().empty(); }
  bool story_over() const { return story_at + 1 >= static_cast<int>(story().size()); }
  // Goes to a paragraph: moves the playhead to its moment, or to that of the last one before it that
  // has one, and selects what it is about; the mask, if it is about that, is shown in local order.
  // The nearest one for a number that there is not.
  void tell(int paragraph);

  // Where the active document's run failed: the playhead goes there, and what shows it is selected.
  // False, and nothing changes, where it did not.
  bool go_to_failure();
  void show_alone(std::optional<Figure> panel);

  // Shows the active document, and no others, beside a prediction; `open`: or without.
  void show_what_if(bool open);
  // Once a frame: what the prediction's settings ask for begins, what is ready is shown.
  void update_what_if();
  // The prediction becomes a document like the others, and the active one. Nothing happens unless
  // it is whole.
  void keep_prediction();

 private:
  void compare_all();

  std::vector<TimelineView> history_;
};

// A second of people's time later.
void advance(Session& session, double seconds);

}  // namespace ringscope::viz
