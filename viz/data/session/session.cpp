#include "viz/data/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/session/format.h"
#include "viz/data/session/search.h"

namespace ringscope::viz {
namespace {

constexpr double kSlowest = 1.0 / 64, kFastest = 64;
constexpr double kSecondsForAll = 10;

// Return the distance below which two moments are one, so that a playhead put on a step's beginning
// stands on it even if its position was rounded.
double slack(AxisMode mode) { return mode == AxisMode::time ? 0.5 : 1e-9; }

constexpr std::size_t kHistory = 100;
constexpr double kPlainToSee = 0.02;  // of the view's width: slices as wide need no zoom

// ---
// What a story's paragraph points at.

// Return the middle of step `step` of the step axis on `rank`.
double middle_of_step(const Axis& axis, AxisMode mode, int rank, int step) {
  if (mode == AxisMode::steps) return step + 0.5;
  return (axis.position(mode, rank, axis.step_begin_ns(rank, step)) +
          axis.position(mode, rank, axis.step_begin_ns(rank, step + 1))) /
         2;
}

}  // namespace

void Playback::toggle(double length) {
  if (!playing_ && position_ >= length) position_ = 0;
  playing_ = !playing_ && length > 0;
}

void Playback::seek(double position, double length) {
  position_ = std::isnan(position) ? 0 : std::clamp(position, 0.0, std::max(length, 0.0));
}

void Playback::faster() { speed_ = std::min(speed_ * 2, kFastest); }
void Playback::slower() { speed_ = std::max(speed_ / 2, kSlowest); }

void Playback::advance(double seconds, AxisMode mode, double length) {
  if (!playing_ || !(seconds > 0)) return;
  position_ += seconds * speed_ * (mode == AxisMode::time ? length / kSecondsForAll : 1);
  if (position_ < length) return;
  position_ = length;
  playing_ = false;
}

double next_step(const Axis& axis, AxisMode mode, int rank, double position) {
  const double end = axis.length(mode);
  if (mode == AxisMode::steps) return std::min(end, std::floor(position + slack(mode)) + 1);
  double next = end;  // not every rank has every step, so begins need not be in order
  for (int step = 0; step < axis.steps(); ++step) {
    const double begin = axis.step_position(mode, rank, step);
    if (begin > position + slack(mode)) next = std::min(next, begin);
  }
  return next;
}

double previous_step(const Axis& axis, AxisMode mode, int rank, double position) {
  if (mode == AxisMode::steps) return std::max(0.0, std::ceil(position - slack(mode)) - 1);
  double previous = 0;
  for (int step = 0; step < axis.steps(); ++step) {
    const double begin = axis.step_position(mode, rank, step);
    if (begin < position - slack(mode)) previous = std::max(previous, begin);
  }
  return previous;
}

Session::Session(std::vector<Document> opened) : documents(std::move(opened)) {
  compare_all();
  if (!comparison.figures.empty()) {
    comparing = true;
    axis_mode = AxisMode::steps;
    look.mask_order = MaskOrder::local;  // shows what each rank does at a step
  }
  if (documents.empty()) return;
  if (length() <= 0) axis_mode = AxisMode::time;
  view = fitted(length());
  begin_with_overview();
  if (comparing) return;
  if (story_shown())
    tell(0);
  else
    go_to_failure();
}

// Begin with all ranks at once if they are many, in the figure that shows what cost the most, or how
// recordings differ, and with the order in which the mask's colours tell ranks apart.
void Session::begin_with_overview() {
  if (document().mask && document().mask->mixes_ranks()) look.mask_order = MaskOrder::local;
  show_overview(document().trace.ranks.size() > kMostInSlices);
  if (rank_map.shown)
    rank_map.metric = comparing ? 2 : telling_metric(document().balance, document().why);
}

void Session::show_overview(bool on) {
  rank_map.shown = on && document().balance.ranks > 0 && !document().trace.info.failure;
}

void Session::open_slice(int rank, int step) {
  go_to_step(active, rank, step);
  rank_map.shown = false;
  if (selected) set_view(view_of(*selected));
}

// Compare all recordings of ours if they have one world_size.
void Session::compare_all() {
  std::vector<const Document*> all;
  for (const std::size_t ring : rings()) all.push_back(&documents[ring]);
  const bool comparable =
      all.size() >= 2 && std::all_of(all.begin(), all.end(), [&](const Document* d) {
        return d->trace.info.world_size == all[0]->trace.info.world_size;
      });
  comparison = comparable ? compare(all) : Comparison();
}

std::vector<std::size_t> Session::rings() const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < documents.size(); ++i)
    if (documents[i].trace.is_ring) indices.push_back(i);
  return indices;
}

double Session::length() const {
  const double length = document().axis.length(axis_mode);
  if (!what_if || what_if->shown() == nullptr) return length;
  return std::max(length, what_if->shown()->document.axis.length(axis_mode));
}

RingMoment Session::moment(std::size_t d) const {
  const Document& shown = documents[d];
  if (!shown.trace.is_ring) return {};
  const double position = std::min(playback.position(), shown.axis.length(axis_mode));
  // Several panels ask for the same moment in a frame.
  const MomentKey key(shown.number, axis_mode, position);
  if (moment_key_ != key)
    moment_ = ring_at(shown.trace, shown.axis, shown.links, axis_mode, position);
  moment_key_ = key;
  return moment_;
}

int Session::step_now(std::size_t d) const {
  const std::vector<RankMoment> ranks = moment(d).ranks;
  if (documents[d].axis.steps() == 0 || ranks.empty()) return -1;
  return ranks[std::min<std::size_t>(rank_now(), ranks.size() - 1)].step;
}

void Session::activate(std::size_t next) {
  if (next >= documents.size() || next == active) return;
  if (document().trace.ranks.size() > kMostInSlices) rank_map.metric = 0;  // it was for many ranks
  active = next;
  forget_slices();
  order = {};
  telling.at = -1;
  telling.points = false;
  panels.front.reset();
  // The next trace may have no steps.
  if (axis_mode == AxisMode::steps && length() <= 0) {
    axis_mode = AxisMode::time;
    playback.seek(0, length());
  }
  view = fitted(length());
  playback.seek(playback.position(), length());
  begin_with_overview();
  set_search(sought.text);
}

// Forget what belongs to the slices of another trace than the present one.
void Session::forget_slices() {
  what_if.reset();
  selected.reset();
  select_rank(selected_rank);  // keeps the rank if this trace has it
  hovered.reset();
  measure.reset();
  writing.reset();
  sought.marked.clear();
  history_.clear();
}

void Session::show_layer(std::size_t layer, Pass pass) {
  if (layer >= document().trace.layers.size()) return;
  if (layer != document().trace.layer) {
    forget_slices();
    try {
      Document shown = make_document(document().trace.of_layer(layer));
      shown.notes = std::move(documents[active].notes);
      documents[active] = std::move(shown);
    } catch (const InputError& error) {
      documents[active].trace.notices.emplace_back(error.what());
      return;
    }
    compare_all();
    view = fitted(length());
    set_search(sought.text);
  }
  const Axis& axis = document().axis;
  const int step = pass == Pass::forward ? 0 : axis.forward_steps();
  playback.pause();
  seek(axis.position(axis_mode, rank_now(), axis.step_begin_ns(rank_now(), step)));
}

void Session::show_difference(bool on) {
  if (on && !difference) rank_map.metric = 2;
  difference = on;
}

void Session::select(std::optional<SliceId> slice) {
  selected = slice;
  selected_rank = slice ? document().trace.rank_of_row(slice->row) : -1;
}

void Session::go_to_in_rank(std::optional<SliceId> slice, int rank) {
  if (slice)
    go_to(*slice);
  else
    select_rank(rank);
}

void Session::select_rank(int rank) {
  const bool there = rank >= 0 && rank < document().trace.rank_count();
  selected_rank = there ? rank : -1;
  if (selected && document().trace.rank_of_row(selected->row) != selected_rank) selected.reset();
}

std::pair<double, double> Session::span_of(SliceId id) const {
  const TraceEvent& slice = document().trace.slice(id);
  const int rank = document().trace.rank_of_row(id.row);
  return {document().axis.position(axis_mode, rank, slice.begin_ns),
          document().axis.end_position(axis_mode, rank, slice)};
}

TimelineView Session::view_of(SliceId slice) const {
  const auto [begin, end] = span_of(slice);
  return framed(begin, end, length(), axis_mode, view.scroll_y);
}

void Session::reveal(SliceId slice, bool zooms) {
  bring_into_view(slice);
  const auto [begin, end] = span_of(slice);
  if (zooms && end - begin < kPlainToSee * view.width()) set_view(view_of(slice));
  go_to(slice);
}

void Session::go_to(SliceId slice) {
  select(slice);
  // All panels show the playhead's moment. Unless it is in the slice already, go to its beginning.
  const auto [begin, end] = span_of(slice);
  if (playback.position() >= begin && playback.position() < end) return;
  playback.pause();
  seek(begin);
}

void Session::go_to_step(std::size_t d, int rank, int step) {
  const Axis& axis = documents[d].axis;
  const auto slice = compute_slice(documents[d], rank, step);
  if (d == active && slice) return go_to(*slice);
  select_rank(rank);
  playback.pause();
  if (slice) {
    seek(axis.position(axis_mode, rank, documents[d].trace.slice(*slice).begin_ns));
    return;
  }
  seek(axis.step_position(axis_mode, -1, step));
  wishes.said = fmt::format(
      "rank {} attends nothing at {}", rank,
      words_of_step(axis.is_backward(step) ? Pass::backward : Pass::forward, axis.ring_step(step)));
}

void Session::bring_into_view(SliceId slice) {
  rank_map.shown = false;
  const auto [begin, end] = span_of(slice);
  if (begin >= view.begin && end <= view.end) return;
  if (end - begin > view.width())
    set_view(view_of(slice));
  else
    set_view(panned(view, (begin + end) / 2 - (view.begin + view.end) / 2, length()));
}

double Session::position_of(const Note& note) const {
  return document().axis.position(axis_mode, note.rank, document().trace.begin_ns + note.ns);
}

void Session::go_to(const Note& note) {
  const double position = position_of(note);
  if (writing && !has_unkept_text()) writing = note;
  rank_map.shown = false;
  select_rank(note.rank);
  playback.pause();
  seek(position);
  if (position < view.begin || position > view.end)
    set_view(panned(view, position - (view.begin + view.end) / 2, length()));
}

void Session::put(std::size_t d, const Note& note) {
  for (Document& each : documents)
    if (&each == &documents[d] ||
        (share_notes(each.trace, documents[d].trace) && lies_within(each.trace, note)))
      put_note(each.notes, note);
}

bool Session::has_unkept_text() const {
  const std::vector<Note>& kept = document().notes;
  return writing && !writing->text.empty() &&
         std::find(kept.begin(), kept.end(), *writing) == kept.end();
}

void Session::write_note() {
  if (has_unkept_text()) return;
  const int rank = rank_now();
  if (rank >= document().trace.rank_count()) return;
  const std::int64_t now = document().axis.time_at(axis_mode, rank, playback.position());
  writing = Note{rank, now - document().trace.begin_ns, ""};
  for (const Note& note : document().notes)
    if (note.rank == rank && (note.ns == writing->ns || position_of(note) == playback.position()))
      writing = note;
}

void Session::set_view(const TimelineView& next) {
  if (next == view) return;
  remember();
  view = next;
}

void Session::remember() {
  if (history_.size() == kHistory) history_.erase(history_.begin());
  history_.emplace_back(view, order);
}

void Session::pin(int rank) {
  remember();
  if (std::erase(order.pinned, rank) == 0) order.pinned.push_back(rank);
}

void Session::fold(int rank) {
  remember();
  if (std::erase(order.folded, rank) == 0) order.folded.push_back(rank);
}

void Session::go_back() {
  if (history_.empty()) return;
  std::tie(view, order) = history_.back();
  history_.pop_back();
}

void Session::set_axis_mode(AxisMode mode) {
  const Axis& axis = document().axis;
  if (mode == axis_mode || axis.length(mode) <= 0) return;
  // Every rank has its own time on the step axis. Keep the selected rank's, or the first's.
  const int rank = rank_now();
  const auto moved = [&](double position) {
    return axis.position(mode, rank, axis.time_at(axis_mode, rank, position));
  };
  const bool whole = view.begin <= 0 && view.end >= length();
  const double playhead = moved(playback.position());
  const TimelineView next{moved(view.begin), moved(view.end), view.scroll_y};
  if (measure) measure = Measure{moved(measure->from), moved(measure->to), measure->ranks};
  axis_mode = mode;
  playback.seek(playhead, length());
  // Forget the views of the other axis, because they mean nothing on this one.
  history_.clear();
  view = whole ? fitted(length()) : between(next.begin, next.end, length(), mode);
  view.scroll_y = next.scroll_y;
}

void Session::set_search(std::string text) {
  sought.text = std::move(text);
  sought.found = viz::search(document().trace, sought.text);
  sought.at = 0;
}

void Session::seek(double position) { playback.seek(position, length()); }

void Session::seek_step(int step) {
  set_axis_mode(AxisMode::steps);
  if (axis_mode != AxisMode::steps) return;
  playback.pause();
  seek(std::clamp(step, 0, document().axis.steps() - 1) + 0.5);
}

void Session::tell(int paragraph) {
  if (story().empty()) return;
  telling.at = std::clamp(paragraph, 0, static_cast<int>(story().size()) - 1);
  const StoryStep& told = story()[telling.at];
  const auto moment_at = [&](int at) {
    return moment_of(document().trace, document().axis, axis_mode, story()[at]);
  };
  const StoryMoment moment = moment_at(telling.at);
  // A paragraph about no moment is told at the moment of the last one before it.
  std::optional<double> position = moment.position;
  for (int before = telling.at; !position && before > 0; --before)
    position = moment_at(before - 1).position;
  playback.pause();
  telling.points = true;
  panels.front = told.figure;
  if (panels.alone && told.figure) panels.alone = told.figure;
  // In this order a rank's meeting with a block is one square.
  if (told.figure == Figure::mask) look.mask_order = MaskOrder::local;
  select(told.rank >= 0 ? moment.slice : std::nullopt);
  select_rank(told.rank);
  if (moment.slice) bring_into_view(*moment.slice);
  if (position) seek(*position);
}

bool Session::go_to_failure() {
  const auto place = failure_place(document().trace, document().unfinished);
  if (!place) return false;
  playback.pause();
  select(place->slice);
  if (place->rank >= 0) select_rank(place->rank);
  const double position = document().axis.position(axis_mode, rank_now(), place->at_ns);
  seek(position);
  // A time-out may be a thousand times as long as the run. Show what led to it, and its beginning.
  if (position > 0 && position < length() / 2) {
    TimelineView start = fitted(length());
    start.end = std::min(length(), 1.25 * position);
    set_view(start);
  }
  return true;
}

void Session::show_alone(std::optional<Figure> panel) {
  panels.alone = panel;
  if (panel) panels.front = panel;
}

void Session::show_what_if(bool open) {
  if (open == (what_if != nullptr) || documents.empty()) return;
  if (open) {
    comparing = false;
    what_if = std::make_unique<WhatIf>(document());
    what_if->update();
  } else {
    what_if.reset();
    seek(playback.position());  // it may have stood beyond the recording's end
  }
  history_.clear();
  measure.reset();
  view = fitted(length());
}

void Session::try_settings(const std::string& settings) {
  show_what_if(true);
  if (!what_if || !what_if->refusal().empty()) return;
  try {
    Scenario wanted = what_if->unmoved_settings();
    apply(wanted, what_if->unmoved_settings(), settings);
    what_if->settings = wanted;
  } catch (const InputError&) {  // the panel opens unmoved
  }
}

void Session::update_what_if() {
  if (!what_if) return;
  const double before = length();
  const bool whole = view.begin <= 0 && view.end >= before;
  what_if->update();
  if (length() == before) return;
  view = whole ? fitted(length()) : panned(view, 0, length());
  if (playback.position() > length()) seek(length());
}

void Session::keep_prediction() {
  const Prediction* shown = what_if ? what_if->shown() : nullptr;
  if (shown == nullptr || !shown->whole) return;
  Document kept = make_document(shown->document.trace);
  const Trace& recorded = document().trace;
  kept.predicted_from = recorded.path;
  kept.trace.more_paths = recorded.more_paths;
  if (!recorded.layers.empty()) kept.trace.layers = {recorded.layers[recorded.layer]};
  kept.predicted_by = settings_of(what_if->unmoved_settings(), shown->settings);
  documents.push_back(std::move(kept));
  compare_all();
  activate(documents.size() - 1);
}

std::optional<SliceId> compute_slice(const Document& document, int rank, int step) {
  const Trace& trace = document.trace;
  if (!trace.is_ring || rank < 0 || rank >= trace.rank_count()) return std::nullopt;
  return find_slice(trace, rank, Lane::compute, [&](const TraceEvent& slice) {
    return axis_step(slice, document.axis.forward_steps()) == step;
  });
}

void advance(Session& session, double seconds) {
  session.playback.advance(seconds, session.axis_mode, session.length());
}

bool points_at_something(const StoryStep& told) {
  return told.pass || told.step >= 0 || told.rank >= 0 || told.lane;
}

bool points_at(const StoryStep& told, int rank, const TraceEvent& slice) {
  return points_at_something(told) && (told.rank < 0 || told.rank == rank) &&
         (told.step < 0 || told.step == slice.step) && (!told.pass || *told.pass == slice.pass) &&
         (!told.lane || *told.lane == slice.lane);
}

StoryMoment moment_of(const Trace& trace, const Axis& axis, AxisMode mode, const StoryStep& told) {
  StoryMoment moment;
  // A rank or a pass as a whole is no moment.
  if (told.step < 0 && !told.lane) return moment;
  for (const Pass pass : kAllPasses)
    for (const Lane lane : kAllLanes) {
      if (moment.slice || (told.lane && *told.lane != lane)) continue;
      moment.slice = longest_slice(trace, told.rank, lane, [&](const TraceEvent& slice) {
        return slice.pass == pass && points_at(told, told.rank, slice);
      });
    }
  if (moment.slice) {
    const TraceEvent& slice = trace.slice(*moment.slice);
    const int rank = trace.rank_of_row(moment.slice->row);
    moment.position = axis.position(mode, rank, slice.begin_ns + slice.duration_ns() / 2);
    return moment;
  }
  const bool backward = told.pass == Pass::backward;
  const int step = told.step + (backward ? axis.forward_steps() : 0);
  const int end = backward ? axis.steps() : axis.forward_steps();
  if (told.step >= 0 && step < end)
    moment.position = middle_of_step(
        axis, mode, told.rank < trace.rank_count() ? std::max(told.rank, 0) : 0, step);
  return moment;
}

std::string place_of(const StoryStep& told) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " · ") + part; };
  if (told.rank >= 0) add(fmt::format("rank {}", told.rank));
  if (told.step >= 0)
    add(words_of_step(told.pass.value_or(Pass::forward), told.step));
  else if (told.pass)
    add(fmt::format("{} pass", name_of(*told.pass)));
  if (told.lane) add(std::string(name_of(*told.lane)));
  return text;
}

}  // namespace ringscope::viz
