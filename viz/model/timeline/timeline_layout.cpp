#include "viz/model/timeline/timeline_layout.h"

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
  return {begin, begin + width, scroll_y};
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

TimelineView framed(double begin, double end, double length, AxisMode mode, double scroll_y) {
  constexpr double kMargin = 0.1;  // of the width, on either side
  const double whole = fitted(length).width();
  const double width = std::clamp((end - begin) / (1 - 2 * kMargin), closest(length, mode), whole);
  return placed((begin + end - width) / 2, width, length, scroll_y);
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
  const auto found = std::partition_point(rows.begin(), rows.end(),
                                          [&](const RowPlace& place) { return place.row < row; });
  return found != rows.end() && found->row == row ? &*found : nullptr;
}

TimelineLayout make_layout(const Trace& trace, float width, float height, float row_scale) {
  TimelineLayout layout;
  layout.width = width;
  layout.height = height;
  std::size_t row_count = 0;  // a rank without rows still takes the room of one
  std::vector<int> shown;
  for (int r = 0; r < trace.rank_count(); ++r) {
    if (is_unrecorded(trace, r)) continue;
    shown.push_back(r);
    const RankTrack& rank = trace.ranks[r];
    std::size_t rows = 0;
    for (std::uint32_t i = 0; i < rank.lanes; ++i) rows += trace.lanes[rank.first_lane + i].rows;
    row_count += std::max<std::size_t>(rows, 1);
  }
  if (row_count == 0) return layout;

  // Many ranks would leave no room between the gaps, so gaps shrink with the rows.
  const auto gaps = static_cast<float>(shown.size() - 1);
  const auto rows = static_cast<float>(row_count);
  float gap = TimelineLayout::kRankGap;
  if ((height - gap * gaps) / rows < TimelineLayout::kRankGap) gap /= 3;
  constexpr float kLeast = TimelineLayout::kMinRowHeight, kMost = TimelineLayout::kMaxRowHeight;
  const float fit = std::clamp((height - gap * gaps) / rows, kLeast, kMost) * row_scale;
  const float row_height = std::clamp(std::floor(fit), kLeast, 8 * kMost);
  // Where rows are low, those of messages give half of their height to computing and waiting, whose
  // slices have words.
  std::size_t messages = 0;
  const auto is_message = [&](const Lane& lane) {
    return trace.is_ring() && (lane.tid == static_cast<std::int64_t>(RingLane::send) ||
                               lane.tid == static_cast<std::int64_t>(RingLane::recv));
  };
  for (const int r : shown)
    for (std::uint32_t i = 0; i < trace.ranks[r].lanes; ++i) {
      const Lane& lane = trace.lanes[trace.ranks[r].first_lane + i];
      messages += is_message(lane) ? lane.rows : 0;
    }
  constexpr float kRoomForWords = 14;
  const bool unequal = messages > 0 && messages < row_count && row_height < kRoomForWords;
  const float low = unequal ? std::max(kLeast, std::floor(row_height / 2)) : row_height;
  const auto few = static_cast<float>(messages);
  const float high =
      unequal ? std::clamp(std::floor((fit * rows - low * few) / (rows - few)), kLeast, kMost)
              : row_height;

  float y = 0;
  layout.rows.reserve(row_count);
  for (const int r : shown) {
    if (r != shown.front()) y += gap;
    const float top = y;
    const RankTrack& rank = trace.ranks[r];
    for (std::uint32_t i = 0; i < rank.lanes; ++i) {
      const Lane& lane = trace.lanes[rank.first_lane + i];
      for (std::uint32_t row = 0; row < lane.rows; ++row) {
        layout.rows.push_back({lane.first_row + row, y, is_message(lane) ? low : high});
        y += layout.rows.back().height;
      }
    }
    if (y == top) y += row_height;
    layout.ranks.push_back({r, top, y - top});
  }
  layout.content_height = y;
  return layout;
}

std::pair<std::uint32_t, std::uint32_t> slices_near(const std::vector<Slice>& slices,
                                                    std::int64_t begin, std::int64_t end) {
  const auto first = std::partition_point(slices.begin(), slices.end(),
                                          [&](const Slice& s) { return s.end_ns < begin; });
  const auto last =
      std::partition_point(first, slices.end(), [&](const Slice& s) { return s.begin_ns <= end; });
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
  const std::vector<Slice>& slices = trace.rows[*row].slices;
  const double position = layout.position_at(view, x);
  const auto time = [&](float at) {
    return axis.time_at(mode, rank, layout.position_at(view, at));
  };
  const auto [first, last] = slices_near(slices, time(x - kReach), time(x + kReach));
  std::optional<SliceId> nearest;
  double distance = std::abs(layout.position_at(view, x + kReach) - position);
  for (std::uint32_t i = first; i < last; ++i) {
    const double begin = axis.position(mode, rank, slices[i].begin_ns);
    const double end = axis.end_position(mode, rank, slices[i]);
    const SliceId id{*row, i};
    if (begin <= position && position < end) return id;
    const double away = position < begin ? begin - position : position - end;
    if (away < distance || (away == distance && !nearest)) {
      distance = away;
      nearest = id;
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
    const std::vector<Slice>& slices = trace.rows[row].slices;
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
                                            [&](const Slice& s) { return s.begin_ns < at; });
    const auto end = std::partition_point(slices.begin(), slices.end(),
                                          [&](const Slice& s) { return s.end_ns < at; });
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
