#include "viz/data/timeline/timeline_layout.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {
namespace {

// Return the least width of a view: a pixel is about a nanosecond, or is one on the step axis in a
// step that takes seconds.
double closest(double length, AxisMode mode) {
  return std::min(length > 0 ? length : 1.0, mode == AxisMode::time ? 1000.0 : 1e-6);
}

TimelineView placed(double begin, double width, double length, double scroll_y) {
  begin = std::clamp(begin, 0.0, std::max(0.0, length - width));
  // Rounding may put the sum beyond the axis.
  return {begin, std::min(begin + width, fitted(length).end), scroll_y};
}

}  // namespace

TimelineView zoomed(const TimelineView& view, double at, double factor, double length,
                    AxisMode mode) {
  if (!(factor > 0)) return view;
  const double whole = fitted(length).width();
  const double width = std::clamp(view.width() / factor, closest(length, mode), whole);
  const double share = view.width() > 0 ? (at - view.begin) / view.width() : 0.5;
  return placed(at - share * width, width, length, view.scroll_y);
}

TimelineView panned(const TimelineView& view, double by, double length) {
  return placed(view.begin + by, view.width(), length, view.scroll_y);
}

TimelineView fitted(double length) { return {0, length > 0 ? length : 1, 0}; }

TimelineView between(double begin, double end, double length, AxisMode mode) {
  const double width = std::clamp(end - begin, closest(length, mode), fitted(length).width());
  // What the axis holds is left as it is, because begin + width may round to another end.
  if (width == end - begin && begin >= 0 && end <= fitted(length).end) return {begin, end, 0};
  return placed(begin, width, length, 0);
}

TimelineView framed(double begin, double end, double length, AxisMode mode, double scroll_y) {
  constexpr double kMargin = 0.1;  // of the width, on either side
  const double whole = fitted(length).width();
  const double width = std::clamp((end - begin) / (1 - 2 * kMargin), closest(length, mode), whole);
  return placed((begin + end - width) / 2, width, length, scroll_y);
}

double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= least * (1 - 1e-9)) return times * power;
  return 10 * power;
}

ScaleKey scale_key(const Axis& axis, AxisMode mode, const TimelineView& view, int step, float width,
                   float room) {
  const double unit = mode == AxisMode::time ? 1 : static_cast<double>(axis.step_length_ns(step));
  const double a_pixel = width > 0 ? unit * view.width() / static_cast<double>(width) : 0;
  if (!(a_pixel * room >= 2.5)) return {};
  const double ns = round_step(a_pixel * room / 2.5);  // at most the room
  return {static_cast<float>(ns / a_pixel), std::llround(ns)};
}

double TimelineLayout::position_at(const TimelineView& view, float x) const {
  return width > 0 ? view.begin + view.width() * static_cast<double>(x) / width : view.begin;
}

float TimelineLayout::x_of(const TimelineView& view, double position) const {
  return (position - view.begin) / view.width() * width;
}

std::optional<std::uint32_t> TimelineLayout::row_at(const TimelineView& view, float y) const {
  const auto at = static_cast<float>(y + view.scroll_y);
  const auto after = std::partition_point(rows.begin(), rows.end(),
                                          [&](const RowPlace& place) { return place.y <= at; });
  if (after == rows.begin()) return std::nullopt;
  const RowPlace& place = *(after - 1);
  if (at >= place.y + place.height) return std::nullopt;
  return place.row;
}

const RowPlace* TimelineLayout::place_of(std::uint32_t row) const {
  return row < index.size() && index[row] > 0 ? &rows[index[row] - 1] : nullptr;
}

void TimelineLayout::add(const RowPlace& place) {
  rows.push_back(place);
  index.resize(std::max<std::size_t>(index.size(), place.row + 1), 0);
  index[place.row] = static_cast<std::uint32_t>(rows.size());
}

namespace {

// A Line is a row that is laid out. A rank without rows still takes the room of one.
struct Line {
  enum Size : std::uint8_t { full, message, empty, folded } size = full;
  int rank = 0;
  std::optional<std::uint32_t> row;
};

std::vector<Line> lines_of(const Trace& trace, const RankOrder& order) {
  const auto is_in = [](const std::vector<int>& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  std::vector<int> ranks = order.pinned;
  for (int rank = 0; rank < trace.rank_count(); ++rank)
    if (!is_in(order.pinned, rank)) ranks.push_back(rank);
  std::vector<Line> lines;
  for (const int rank : ranks) {
    if (rank >= trace.rank_count() || is_unrecorded(trace, rank)) continue;
    const RankTrack& track = trace.ranks[rank];
    const bool folded = is_in(order.folded, rank);
    const std::size_t before = lines.size();
    for (std::uint32_t i = 0; i < track.lanes; ++i) {
      const TraceLane& lane = trace.lanes[track.first_lane + i];
      const bool message = trace.is_ring && (lane.tid == static_cast<int>(Lane::send) ||
                                             lane.tid == static_cast<int>(Lane::recv));
      for (std::uint32_t row = lane.first_row; row < lane.first_row + lane.rows; ++row) {
        if (folded && lines.size() > before) continue;
        lines.push_back({folded ? Line::folded : message ? Line::message : Line::full, rank, row});
      }
    }
    if (lines.size() == before) lines.push_back({Line::full, rank, std::nullopt});
  }
  return lines;
}

}  // namespace

TimelineLayout make_layout(const Trace& trace, float width, float height, float row_scale,
                           const RankOrder& order,
                           const std::function<bool(std::uint32_t)>& has_slices) {
  constexpr float kLeast = TimelineLayout::kMinRowHeight, kMost = TimelineLayout::kMaxRowHeight;
  constexpr float kRoomForWords = 14;
  TimelineLayout layout;
  layout.width = width;
  layout.height = height;
  std::vector<Line> lines = lines_of(trace, order);
  if (lines.empty()) return layout;
  const auto count = [&lines](Line::Size size) {
    return static_cast<float>(std::count_if(
        lines.begin(), lines.end(), [size](const Line& line) { return line.size == size; }));
  };
  float gaps = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) gaps += lines[i].rank != lines[i - 1].rank ? 1 : 0;
  // Many ranks would leave no room between the gaps, so gaps shrink with the rows.
  float gap = TimelineLayout::kRankGap;
  if ((height - gap * gaps) / static_cast<float>(lines.size()) < gap) gap /= 3;
  const float folded = count(Line::folded);
  float rows = static_cast<float>(lines.size()) - folded;  // that share what the others leave
  float heights[] = {0, 0, kLeast, TimelineLayout::kFoldedHeight};  // by Line::Size
  float fit = 0, row_height = 0;
  const auto share = [&](float fixed) {
    const float left = height - gap * gaps - folded * TimelineLayout::kFoldedHeight - fixed;
    fit = std::clamp(left / std::max(rows, 1.0f), kLeast, kMost) * row_scale;
    row_height = std::clamp(std::floor(fit), kLeast, 8 * kMost);
  };
  share(0);
  if (has_slices && row_height < kRoomForWords) {
    for (Line& line : lines)
      if (line.row && line.size != Line::folded && !has_slices(*line.row)) line.size = Line::empty;
    rows -= count(Line::empty);
    share(count(Line::empty) * kLeast);
  }
  heights[Line::full] = heights[Line::message] = row_height;
  // Where rows are low, those of messages give half of their height to computing and waiting, whose
  // slices have words.
  const float few = count(Line::message);
  if (few > 0 && few < rows && row_height < kRoomForWords) {
    const float low = heights[Line::message] = std::max(kLeast, std::floor(row_height / 2));
    heights[Line::full] =
        std::clamp(std::floor((fit * rows - low * few) / (rows - few)), kLeast, kMost);
  }

  float y = 0;
  for (const Line& line : lines) {
    if (layout.ranks.empty() || layout.ranks.back().rank != line.rank) {
      if (!layout.ranks.empty()) y += gap;
      layout.ranks.push_back({line.rank, y, 0});
    }
    const float high = line.row ? heights[line.size] : row_height;
    if (line.row) layout.add({*line.row, y, high});
    y += high;
    layout.ranks.back().height = y - layout.ranks.back().y;
  }
  layout.content_height = y;
  return layout;
}

std::vector<int> ranks_between(const TimelineLayout& layout, const TimelineView& view, float y0,
                               float y1) {
  std::vector<int> ranks;
  const auto scroll = static_cast<float>(view.scroll_y);
  for (const RankPlace& place : layout.ranks)
    if (place.y < std::max(y0, y1) + scroll && place.y + place.height > std::min(y0, y1) + scroll)
      ranks.push_back(place.rank);
  return ranks;
}

std::pair<std::uint32_t, std::uint32_t> slices_near(std::span<const TraceEvent> slices,
                                                    std::int64_t begin, std::int64_t end) {
  const auto first = std::partition_point(slices.begin(), slices.end(),
                                          [&](const TraceEvent& s) { return s.end_ns < begin; });
  const auto last = std::partition_point(first, slices.end(),
                                         [&](const TraceEvent& s) { return s.begin_ns <= end; });
  return {static_cast<std::uint32_t>(first - slices.begin()),
          static_cast<std::uint32_t>(last - slices.begin())};
}

std::optional<SliceId> slice_at(const Trace& trace, const Axis& axis, AxisMode mode,
                                const TimelineLayout& layout, const TimelineView& view, float x,
                                float y) {
  constexpr float kReach = 3;
  const auto row = layout.row_at(view, y);
  if (!row) return std::nullopt;
  const int rank = trace.rank_of_row(*row);
  const std::span<const TraceEvent> slices = trace.slices(*row);
  const double position = layout.position_at(view, x);
  const auto time = [&](float at) {
    return axis.time_at(mode, rank, layout.position_at(view, at));
  };
  const auto [first, last] = slices_near(slices, time(x - kReach), time(x + kReach));
  std::optional<SliceId> nearest;
  double distance = std::abs(layout.position_at(view, x + kReach) - position);
  for (std::uint32_t i = first; i < last; ++i) {
    for (const auto& [begin, end] : axis.places(mode, rank, slices[i])) {
      const SliceId id{*row, i};
      if (begin <= position && position < end) return id;
      const double away = position < begin ? begin - position : position - end;
      if (away < distance || (away == distance && !nearest)) {
        distance = away;
        nearest = id;
      }
    }
  }
  return nearest;
}

std::optional<double> snapped_edge(const Trace& trace, const Axis& axis, AxisMode mode,
                                   const TimelineLayout& layout, const TimelineView& view, float x,
                                   float y) {
  constexpr float kReach = 8;
  const double position = layout.position_at(view, x);
  std::optional<double> nearest;
  double distance = 0;
  const auto try_row = [&](std::uint32_t row) {
    const int rank = trace.rank_of_row(row);
    const std::span<const TraceEvent> slices = trace.slices(row);
    const auto try_edge = [&](std::int64_t ns) {
      const double edge = axis.position(mode, rank, ns);
      const double away = std::abs(edge - position);
      if (std::abs(layout.x_of(view, edge) - x) > kReach || (nearest && away >= distance)) return;
      nearest = edge;
      distance = away;
    };
    // Begins and ends never decrease along a row, so only the two of each around the point count.
    const std::int64_t at = axis.time_at(mode, rank, position);
    const auto begin = std::partition_point(slices.begin(), slices.end(),
                                            [&](const TraceEvent& s) { return s.begin_ns < at; });
    const auto end = std::partition_point(slices.begin(), slices.end(),
                                          [&](const TraceEvent& s) { return s.end_ns < at; });
    if (begin != slices.end()) try_edge(begin->begin_ns);
    if (begin != slices.begin()) try_edge((begin - 1)->begin_ns);
    if (end != slices.end()) try_edge(end->end_ns);
    if (end != slices.begin()) try_edge((end - 1)->end_ns);
  };
  const auto row = layout.row_at(view, y);
  if (row) try_row(*row);
  if (nearest) return nearest;
  for (const RowPlace& place : layout.rows) {
    const double top = static_cast<double>(place.y) - view.scroll_y;
    if (top + static_cast<double>(place.height) > 0 && top < static_cast<double>(layout.height))
      try_row(place.row);
  }
  return nearest;
}

}  // namespace ringscope::viz
