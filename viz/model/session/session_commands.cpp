// Defines what every command does to the session.
#include <algorithm>

#include "viz/model/session/selection.h"

namespace ringscope::viz {
namespace {

constexpr double kZoomStep = 1.5;
constexpr double kPanStep = 0.2;    // of the visible width
constexpr double kJumpStep = 0.05;  // of the whole, for a trace without steps

void zoom(Session& session, double factor) {
  const TimelineView& view = session.view;
  session.set_view(
      zoomed(view, (view.begin + view.end) / 2, factor, session.length(), session.axis_mode));
}

void pan(Session& session, double share) {
  session.set_view(panned(session.view, share * session.view.width(), session.length()));
}

void fit(Session& session) {
  TimelineView whole = fitted(session.length());
  whole.scroll_y = session.view.scroll_y;
  session.set_view(whole);
}

// Show the selected slice from edge to edge, or everything if it already fills the view.
void focus(Session& session) {
  if (!session.selected) return fit(session);
  const TimelineView close = session.view_of(*session.selected);
  if (session.view == close)
    fit(session);
  else
    session.set_view(close);
}

void step(Session& session, bool forward) {
  const Document& document = session.document();
  session.playback.pause();
  const double position = session.playback.position();
  if (document.axis.steps() == 0) {
    const double by = kJumpStep * session.length();
    return session.seek(forward ? position + by : position - by);
  }
  const int rank = std::max(session.selected_rank, 0);
  session.seek(forward ? next_step(document.axis, session.axis_mode, rank, position)
                       : previous_step(document.axis, session.axis_mode, rank, position));
}

// Go to the selection's neighbour by `neighbour`, or to the first slice if none is selected.
template <class Neighbour>
void go_to_neighbour(Session& session, Neighbour&& neighbour) {
  const Trace& trace = session.document().trace;
  if (session.selected) {
    SliceId id = *session.selected;
    if (neighbour(trace, id)) session.reveal(id);
    return;
  }
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row)
    if (!trace.rows[row].slices.empty() &&
        (session.selected_rank < 0 ||
         static_cast<int>(trace.rank_of_row(row)) == session.selected_rank))
      return session.reveal({row, 0});
}

// Walk around the hits. The first time, go to the hit at which the walk stands.
void go_to_found(Session& session, bool forward) {
  const std::vector<SliceId>& hits = session.found.slices;
  if (hits.empty()) return;
  const bool stands_there = session.selected == hits[session.found_at];
  if (stands_there) {
    const std::size_t by = forward ? 1 : hits.size() - 1;
    session.found_at = (session.found_at + by) % hits.size();
  }
  session.reveal(hits[session.found_at]);
}

// Go to the first mark after the playhead, and from the last mark to the first.
void go_to_next_mark(Session& session) {
  const double position = session.playback.position();
  const Mark *next = nullptr, *first = nullptr;
  for (const Mark& mark : session.marks) {
    if (mark.mode != session.axis_mode) continue;
    if (!first || mark.position < first->position) first = &mark;
    if (mark.position > position && (!next || mark.position < next->position)) next = &mark;
  }
  if (!next) next = first;
  if (!next) return;
  session.playback.pause();
  session.seek(next->position);
  if (next->position < session.view.begin || next->position > session.view.end)
    session.set_view(panned(session.view,
                            next->position - (session.view.begin + session.view.end) / 2,
                            session.length()));
}

// Add a mark, or remove the one that is already there.
void toggle_mark(Session& session) {
  const double position = session.playback.position();
  const AxisMode mode = session.axis_mode;
  const auto removed = std::remove_if(
      session.marks.begin(), session.marks.end(),
      [&](const Mark& mark) { return mark.mode == mode && mark.position == position; });
  if (removed != session.marks.end())
    session.marks.erase(removed, session.marks.end());
  else
    session.marks.push_back({position, mode});
}

// Cancel one thing at a time, the topmost first.
void cancel(Session& session) {
  if (session.show_help) {
    session.show_help = false;
  } else if (session.what_if && !session.search_open) {
    session.show_what_if(false);
  } else if (session.search_open) {
    session.search_open = false;
    session.set_search("");
  } else if (session.overview && session.node >= 0) {
    session.show_overview(true);
  } else {
    session.select(std::nullopt);
    session.measure.reset();
    session.pointing = false;
    if (!session.search_text.empty()) session.set_search("");
  }
}

// Tell the story's next paragraph if there is one; otherwise play or pause.
void go_on(Session& session) {
  if (session.story_shown() && !session.story_over() && !session.playback.playing())
    return session.tell(session.story_at + 1);
  session.pointing = false;
  session.playback.toggle(session.length(), session.document().trace.goes_on());
}

// Enlarge the panel under the mouse, or else the one that the story is about, or the timeline.
void enlarge(Session& session) {
  if (session.alone) return session.show_alone(std::nullopt);
  std::optional<Figure> panel = session.under_mouse;
  if (const StoryStep* told = session.pointed_at(); !panel && told != nullptr) panel = told->figure;
  session.show_alone(panel.value_or(Figure::timeline));
}

void flip(bool& on) { on = !on; }

template <class Switch>
void other(Switch& value, Switch one, Switch two) {
  value = value == one ? two : one;
}

}  // namespace

void Session::run(Command command) {
  switch (command) {
    case Command::go_on:
      return go_on(*this);
    case Command::play_pause:
      pointing = false;
      return playback.toggle(length(), document().trace.goes_on());
    case Command::story_back:
      if (story_shown()) tell(story_at - 1);
      return;
    case Command::toggle_story:
      return flip(show_story);
    case Command::step_forward:
      return step(*this, true);
    case Command::step_back:
      return step(*this, false);
    case Command::faster:
      return playback.faster();
    case Command::slower:
      return playback.slower();
    case Command::to_start:
      return seek(0);
    case Command::to_end:
      return seek(length());
    case Command::zoom_in:
      return zoom(*this, kZoomStep);
    case Command::zoom_out:
      return zoom(*this, 1 / kZoomStep);
    case Command::pan_left:
      return pan(*this, -kPanStep);
    case Command::pan_right:
      return pan(*this, kPanStep);
    case Command::fit_all:
      return set_view(fitted(length()));
    case Command::focus_selection:
      return focus(*this);
    case Command::go_back:
      if (overview && node >= 0) return show_overview(true);
      if (history_.empty()) return;
      view = history_.back();
      history_.pop_back();
      return;
    case Command::next_slice:
      return go_to_neighbour(*this, viz::next_slice);
    case Command::previous_slice:
      return go_to_neighbour(*this, viz::previous_slice);
    case Command::follow_flow:
    case Command::follow_flow_back:
      return go_to_neighbour(*this, [&](const Trace& trace, SliceId& id) {
        return viz::follow_flow(trace, id, command == Command::follow_flow);
      });
    case Command::search:
      search_open = true;
      return;
    case Command::next_found:
      return go_to_found(*this, true);
    case Command::previous_found:
      return go_to_found(*this, false);
    case Command::add_mark:
      return toggle_mark(*this);
    case Command::next_mark:
      return go_to_next_mark(*this);
    case Command::toggle_overview:
      return show_overview(!overview);
    case Command::toggle_order:
      return flip(by_deviation);
    case Command::toggle_flows:
      return flip(show_flows);
    case Command::toggle_critical_path:
      return flip(show_critical_path);
    case Command::toggle_axis:
      return set_axis_mode(axis_mode == AxisMode::time ? AxisMode::steps : AxisMode::time);
    case Command::toggle_colors:
      return other(color_by, ColorBy::owner, ColorBy::kind);
    case Command::toggle_theme:
      return other(theme, Theme::dark, Theme::light);
    case Command::toggle_mask_order:
      return other(mask_order, MaskOrder::global, MaskOrder::local);
    case Command::next_trace:
      if (!documents.empty()) activate((active + 1) % documents.size());
      return;
    case Command::toggle_compare:
      show_what_if(false);
      comparing = !comparing && !comparison.figures.empty();
      return;
    case Command::toggle_difference:
      if (comparison.differences.size() < 2) return;
      show_what_if(false);
      difference = !comparing || !difference;
      comparing = true;
      return;
    case Command::toggle_what_if:
      return show_what_if(what_if == nullptr);
    case Command::enlarge:
      return enlarge(*this);
    case Command::toggle_table:
      return flip(show_table);
    case Command::copy_command:
      copied = view_command(*this);
      return;
    case Command::copy_table:
      copied = csv_of(document().trace, selection_of(*this).slices);
      return;
    case Command::screenshot:
      wants_screenshot = true;
      return;
    case Command::help:
      return flip(show_help);
    case Command::cancel:
      return cancel(*this);
  }
}

}  // namespace ringscope::viz
