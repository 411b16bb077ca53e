// Draws the ruler above the slices: round ticks, marks, search hits, the playhead's flag. Also
// draws the map of the whole trace below it, in which the visible part is outlined.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/session/format.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kTickRoom = 84;  // least pixels between labelled ticks
constexpr double kMostTicks = 400;
constexpr std::size_t kMostMapRows = 1024;

// Return the unit in which `largest` reads best, or a smaller one if steps of `step` would need
// more than four decimals.
const NumberFormat::Unit& unit_of(double largest, double step) {
  const auto* unit = std::end(kTimes) - 1;
  while (unit != std::begin(kTimes) && (largest < unit->size || step < unit->size * 0.9e-4)) --unit;
  return *unit;
}

void draw_tick(const TimelineFrame& frame, const Box& ruler, float x, float height) {
  x = std::floor(x);
  fill({x, ruler.y1 - height, x + 1, ruler.y1}, frame.context.palette.grid);
}

// Return the box of the playhead's flag, or none if the playhead is not in view.
std::optional<Box> flag_of(const TimelineFrame& frame, const Box& ruler) {
  const double position = frame.context.session.playback.position();
  const float x = std::floor(frame.x_at(position));
  if (x < ruler.x0 - 1 || x > ruler.x1 + 1) return std::nullopt;
  const float words = text_width(frame.context.fonts.small, position_name(frame, position));
  const float half = std::ceil(words / 2) + 6;
  const float x0 = std::clamp(x - half, ruler.x0, std::max(ruler.x0, ruler.x1 - 2 * half));
  return Box{x0, ruler.y0 + 1, x0 + 2 * half, ruler.y1 - 6};
}

// Draw a tick's words unless the flag would cover a part of them.
void draw_tick_text(const TimelineFrame& frame, const Box& ruler, float x, float lean,
                    const std::string& text) {
  const ImFont* font = frame.context.fonts.small;
  const float width = text_width(font, text), left = x - lean * width;
  const std::optional<Box> flag = flag_of(frame, ruler);
  if (flag && left < flag->x1 && left + width > flag->x0) return;
  draw_text(font, {x, ruler.y0 + 3}, {lean, 0}, frame.context.palette.text_dim, text);
}

void draw_time_ticks(const TimelineFrame& frame, const Box& ruler) {
  const double ns_a_pixel = frame.view.width() / std::max(1.0f, ruler.width());
  const double step = std::max(1.0, round_step(ns_a_pixel * kTickRoom));
  const NumberFormat::Unit& unit = unit_of(frame.view.end, step);
  const int digits =
      std::max(0, static_cast<int>(-std::floor(std::log10(step / unit.size) + 1e-9)));
  const double minor = step >= 5 ? step / 5 : step;
  const double first = std::floor(frame.view.begin / minor);
  const double last = std::min(std::ceil(frame.view.end / minor), first + kMostTicks);
  for (double i = first; i <= last; ++i) {
    const float x = frame.x_at(i * minor);
    const bool labelled = std::fmod(std::abs(i) + 0.5, std::round(step / minor)) < 1;
    draw_tick(frame, ruler, x, labelled ? 8 : 4);
    const std::string text = fmt::format("{:.{}f} {}", i * minor / unit.size, digits, unit.name);
    if (labelled && x + 4 + text_width(frame.context.fonts.small, text) < ruler.x1)
      draw_tick_text(frame, ruler, x + 4, 0, text);
  }
}

void draw_step_ticks(const TimelineFrame& frame, const Box& ruler) {
  const Axis& axis = frame.document.axis;
  const ImFont* font = frame.context.fonts.small;
  const double pixels = ruler.width() / frame.view.width();  // per step
  const int stride = std::max(1, static_cast<int>(round_step(std::max(1.0, 16 / pixels))));
  const int first = std::clamp(static_cast<int>(std::floor(frame.view.begin)), 0, axis.steps());
  const int last = std::clamp(static_cast<int>(std::ceil(frame.view.end)), 0, axis.steps());
  for (int step = first / stride * stride; step <= last; step += stride) {
    const float x0 = frame.x_at(step);
    draw_tick(frame, ruler, x0, 8);
    for (int tenth = 1; stride == 1 && pixels > 200 && tenth < 10; ++tenth)
      draw_tick(frame, ruler, frame.x_at(step + 0.1 * tenth), 4);
    if (step >= axis.steps()) continue;
    // Place the name in the middle of the step's visible part, and shorten it if that is narrow.
    const float from = std::max(x0, ruler.x0);
    const float to = std::min(frame.x_at(step + stride), ruler.x1);
    const std::string name = step_name(axis, step);
    const std::string brief = name.substr(name.find(' ') + 1);
    if (stride > 1 && text_width(font, brief) > to - from) continue;
    const bool whole = stride == 1 && text_width(font, name) + 8 <= to - from;
    draw_tick_text(frame, ruler, (from + to) / 2, 0.5f, whole ? name : brief);
  }
}

// Draw search hits, with at least two pixels between ticks.
void draw_hits(const TimelineFrame& frame, const Box& ruler) {
  float last = ruler.x0 - 2;
  for (const SliceId& id : frame.context.session.found.slices) {
    const float x = std::floor(frame.x_at(frame.rank_of(id.row), frame.trace().slice(id).begin_ns));
    if (x >= ruler.x0 && x <= ruler.x1 && std::abs(x - last) >= 2) {
      fill({x, ruler.y1 - 5, x + 2, ruler.y1}, frame.context.palette.accent);
      last = x;
    }
  }
}

void draw_marks(const TimelineFrame& frame, const Box& ruler) {
  const Palette& palette = frame.context.palette;
  int number = 0;
  for (const Mark& mark : frame.context.session.marks) {
    ++number;
    const float x = std::floor(frame.x_at(mark.position));
    if (mark.mode != frame.mode || x < ruler.x0 - 1 || x > ruler.x1) continue;
    fill({x, ruler.y0 + 4, x + 1, frame.body.y1}, with_alpha(palette.accent, 0.55));
    const std::string text = fmt::format("{}", number);
    const float width = text_width(frame.context.fonts.small, text) + 8;
    fill({x, ruler.y0 + 2, x + width, ruler.y0 + 16}, palette.accent, 2);
    draw_text(frame.context.fonts.small, {x + 4, ruler.y0 + 9}, {0, 0.5f}, ink_on(palette.accent),
              text);
  }
}

void draw_flag(const TimelineFrame& frame, const Box& ruler) {
  const Palette& palette = frame.context.palette;
  const std::optional<Box> flag = flag_of(frame, ruler);
  if (!flag) return;
  const float x = std::floor(frame.x_at(frame.context.session.playback.position()));
  fill(*flag, palette.playhead, 3);
  draw_list().AddTriangleFilled({x - 4.5f, ruler.y1 - 6}, {x + 5.5f, ruler.y1 - 6},
                                {x + 0.5f, ruler.y1}, palette.playhead);
  draw_text(frame.context.fonts.small, flag->center(), {0.5f, 0.5f}, ink_on(palette.playhead),
            position_name(frame, frame.context.session.playback.position()));
}

// The share of its rows' time that a column of the map is busy. In our own recordings these are the
// shares of its ranks' time spent computing and waiting.
struct Shares {
  double busy = 0, waiting = 0;
};

Shares shares_of(const TimelineFrame& frame, double from, double to) {
  const Trace& trace = frame.trace();
  double busy = 0, waiting = 0, whole = 0;
  std::int64_t sums[TimelineIndex::kClasses];
  // The map of very many rows samples some of them.
  const std::size_t stride = 1 + trace.rows.size() / kMostMapRows;
  for (std::size_t i = 0; i < trace.rows.size(); i += stride) {
    const auto row = static_cast<std::uint32_t>(i);
    const int rank = frame.rank_of(row);
    const bool waits = trace.is_ring() && row == trace.row_of(rank, RingLane::wait);
    if (trace.rows[row].depth > 0 ||
        (trace.is_ring() && !waits && row != trace.row_of(rank, RingLane::compute)))
      continue;
    const std::int64_t begin = frame.document.axis.time_at(frame.mode, rank, from);
    const std::int64_t end = frame.document.axis.time_at(frame.mode, rank, to);
    if (end <= begin) continue;
    frame.document.index.time_by_class(row, ColorBy::kind, begin, end, sums);
    for (const std::int64_t sum : sums) (waits ? waiting : busy) += static_cast<double>(sum);
    whole += waits ? 0 : static_cast<double>(end - begin);
  }
  return whole > 0 ? Shares{busy / whole, waiting / whole} : Shares{};
}

void paint_map(const TimelineFrame& frame, Image& image) {
  const Palette& palette = frame.context.palette;
  image.fill(0, 0, image.width, image.height, palette.row_odd);
  const auto muted = [&](Kind kind) { return mix(palette.row_odd, palette.of(kind), 0.6); };
  const Color busy =
      frame.trace().is_ring() ? muted(Kind::compute) : mix(palette.row_odd, palette.text_dim, 0.6);
  const double length = frame.length();
  constexpr int kColumn = 2;
  for (int x = 0; x < image.width; x += kColumn) {
    const Shares shares = shares_of(frame, length * x / image.width,
                                    length * std::min(x + kColumn, image.width) / image.width);
    const auto top_of = [&](double share) {
      return image.height - static_cast<int>(std::lround(std::min(share, 1.0) * image.height));
    };
    const int middle = top_of(shares.busy);
    image.fill(x, middle, x + kColumn, image.height, busy);
    image.fill(x, top_of(shares.busy + shares.waiting), x + kColumn, middle, muted(Kind::wait));
  }
}

}  // namespace

void draw_ruler(const TimelineFrame& frame, const Box& ruler) {
  fill(ruler, frame.context.palette.panel);
  draw_list().PushClipRect(ruler.min(), {ruler.x1, frame.body.y1}, true);
  if (frame.length() > 0) {
    if (frame.mode == AxisMode::time)
      draw_time_ticks(frame, ruler);
    else
      draw_step_ticks(frame, ruler);
    fill({ruler.x0, ruler.y1 - 1, ruler.x1, ruler.y1}, frame.context.palette.grid);
    if (frame.active) draw_hits(frame, ruler);
    draw_marks(frame, ruler);
    draw_flag(frame, ruler);
  }
  draw_list().PopClipRect();
}

void draw_map(const TimelineFrame& frame, const Box& map) {
  const Session& session = frame.context.session;
  const Palette& palette = frame.context.palette;
  const double length = frame.length();
  if (length <= 0 || map.width() < 1 || map.height() < 1) return;
  draw_picture(frame, "timeline.map", map, [&](Image& image) { paint_map(frame, image); });
  const auto x_of = [&](double position) {
    return map.x0 + static_cast<float>(std::clamp(position / length, 0.0, 1.0)) * map.width();
  };
  const Box window{std::floor(x_of(frame.view.begin)), map.y0, std::ceil(x_of(frame.view.end)),
                   map.y1};
  const Color veil = with_alpha(palette.background, 0.6);
  fill({map.x0, map.y0, window.x0, map.y1}, veil);
  fill({window.x1, map.y0, map.x1, map.y1}, veil);
  const float middle = (window.x0 + window.x1) / 2;
  const float half = std::max(window.width() / 2, 2.0f);
  outline({middle - half, map.y0, middle + half, map.y1}, with_alpha(palette.accent, 0.8), 1);
  const float playhead = std::floor(x_of(session.playback.position()));
  fill({playhead, map.y0, playhead + 1, map.y1}, palette.playhead);
}

}  // namespace ringscope::viz
