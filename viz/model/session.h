// What the person is looking at: one selection, one playhead and one set of switches that all
// panels share. Panels read and change this and nothing else; it can be driven and asserted without
// a screen.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viz/model/commands.h"
#include "viz/model/comparison.h"
#include "viz/model/document.h"
#include "viz/model/playback.h"
#include "viz/model/search.h"
#include "viz/model/timeline_layout.h"

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

  const Document& document() const { return documents[active]; }
  double length() const;  // of the active document's axis
  // The position of the playhead in document `d`, whose axis may have another length: in steps mode
  // the same step, in time mode the same time.
  RingMoment moment(std::size_t d) const;

  void run(Command command);
  void activate(std::size_t document);
  void select(std::optional<SliceId> slice);
  // Selects, and brings the slice into view.
  void reveal(SliceId slice);
  void select_rank(int rank);
  void set_axis_mode(AxisMode mode);  // keeps playhead and view at the same moments
  void set_search(std::string text);
  void set_view(const TimelineView& next);  // remembers the one before, for go_back
  void seek(double position);
  void seek_step(int step);  // to the middle of step `step`, on the step axis

 private:
  std::vector<TimelineView> history_;
};

// A second of people's time later.
void advance(Session& session, double seconds);

}  // namespace ringscope::viz
