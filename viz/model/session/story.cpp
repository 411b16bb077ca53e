#include "viz/model/session/story.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/model/session/format.h"
#include "viz/model/session/search.h"

namespace ringscope::viz {
namespace {

Kind kind_of(RingLane lane) { return static_cast<Kind>(lane); }
static_assert(name_of(Kind::compute) == name_of(RingLane::compute) &&
              name_of(Kind::wait) == name_of(RingLane::wait));

// Return the middle of step `step` of the step axis on `rank`.
double middle_of_step(const Axis& axis, AxisMode mode, int rank, int step) {
  if (mode == AxisMode::steps) return step + 0.5;
  return (axis.position(mode, rank, axis.step_begin_ns(rank, step)) +
          axis.position(mode, rank, axis.step_begin_ns(rank, step + 1))) /
         2;
}

}  // namespace

bool points_at_something(const StoryStep& told) {
  return told.pass || told.step >= 0 || told.rank >= 0 || told.lane;
}

bool points_at(const StoryStep& told, int rank, const Slice& slice) {
  return points_at_something(told) && (told.rank < 0 || told.rank == rank) &&
         (told.step < 0 || told.step == slice.step) && (!told.pass || *told.pass == slice.pass) &&
         (!told.lane || kind_of(*told.lane) == slice.kind);
}

StoryMoment moment_of(const Trace& trace, const Axis& axis, AxisMode mode, const StoryStep& told) {
  StoryMoment moment;
  if (told.rank < static_cast<int>(trace.ranks.size())) moment.rank = told.rank;
  // A rank or a pass as a whole is no moment.
  if (told.step < 0 && !told.lane) return moment;
  for (const Pass pass : kAllPasses)
    for (const RingLane lane : kAllLanes) {
      if (moment.slice || (told.lane && *told.lane != lane)) continue;
      moment.slice = longest_slice(trace, told.rank, lane, [&](const Slice& slice) {
        return slice.pass == pass && points_at(told, told.rank, slice);
      });
    }
  if (moment.slice) {
    const Slice& slice = trace.slice(*moment.slice);
    const int rank = static_cast<int>(trace.rank_of_row(moment.slice->row));
    moment.position = axis.position(mode, rank, slice.begin_ns + slice.duration_ns() / 2);
    return moment;
  }
  const bool backward = told.pass == Pass::backward;
  const int step = told.step + (backward ? axis.forward_steps() : 0);
  const int end = backward ? axis.steps() : axis.forward_steps();
  if (told.step >= 0 && step < end)
    moment.position = middle_of_step(axis, mode, std::max(moment.rank, 0), step);
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
