// Draws what stands in words and ticks on the slices and around them: labels, the names of ranks and
// lanes at the left, the ruler above, and the map of the whole trace.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/ring/scheme.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/analysis/wait_reason.h"
#include "viz/data/session/format.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kLabelPad = 4;
constexpr float kLowestLabelled = 12;  // lower rows have no words
constexpr float kRoomForReasons = 200;
constexpr std::uint32_t kMostLabelledInRow =
    5000;                                      // a row with more slices in view has no wide ones
constexpr std::size_t kMostCharacters = 3000;  // per frame, because every character is a rectangle
constexpr float kRankSwatch = 3;
constexpr float kWidestColumn = 110;

// Return the longest of a few labels that fits `width` pixels, or "" if none does. A cheap guess
// comes first because measuring text is expensive.
std::string label_of(const TimelineFrame& frame, SliceId id, ImFont* font, float width) {
  const TraceEvent& slice = frame.trace().slice(id);
  constexpr float kNarrowestCharacter = 4;
  const auto fits = [&](std::string_view text) {
    return text.size() * kNarrowestCharacter < width && text_width(font, text) <= width;
  };
  const std::string title = slice_title(frame.trace(), id);
  if (!frame.trace().is_ring) return width >= 24 ? fitted(font, title, width) : "";
  const int step = frame.step_of(slice);
  const bool is_last_wait = slice.lane == Lane::wait && frame.trace().info.is_whole();
  if (width > 110 && (step >= 0 || is_last_wait)) {
    const std::string all = fmt::format(
        "{} · {} · {}", title, step >= 0 ? step_name(frame.document.axis, step) : kNothingLeft,
        time_text(slice.duration_ns()));
    const std::vector<SliceId>& unfinished = frame.document.unfinished;
    std::string more;
    if (std::find(unfinished.begin(), unfinished.end(), id) != unfinished.end()) {
      more = all + " · in vain";
    } else if (slice.lane == Lane::wait && width > kRoomForReasons) {
      for (const std::string& reason : reasons_of_wait(frame.trace(), id)) {
        if (const std::string longer = (more.empty() ? all : more) + " · " + reason; fits(longer))
          more = longer;
        else if (more.empty())
          more = reason;  // says more than how long it takes
        else
          break;
      }
    }
    if (!more.empty() && fits(more)) return more;
    if (fits(all)) return all;
  }
  if (fits(title)) return title;
  std::string brief;
  if (slice.lane == Lane::compute)
    brief = fmt::format("{}", slice.kv_owner);
  else if (!preposition(slice.lane).empty() && slice.peer() != frame.rank_of(id.row))
    brief = fmt::format("{} {}", preposition(slice.lane), slice.peer());
  else if (slice.part >= 0)
    brief = title.substr(0, title.find(" ("));  // without the pass
  return fits(brief) ? brief : "";
}

// The widths of the two columns of names. `lanes` is 0 if rows are too low to be named.
struct Columns {
  float ranks = 0, lanes = 0;
  float width() const {
    return kRankSwatch + 2 * kLabelPad + ranks + (lanes > 0 ? lanes + 2 * kLabelPad : 0);
  }
};

Columns columns_of(const TimelineFrame& frame) {
  ImFont* font = frame.context.fonts.small;
  const Trace& trace = frame.trace();
  const bool lanes_named =
      std::any_of(frame.layout.rows.begin(), frame.layout.rows.end(),
                  [](const RowPlace& place) { return place.height >= kLowestLabelled; });
  // Names are much alike, so a sample of them gives the width of all.
  constexpr std::size_t kMeasured = 100;
  Columns columns;
  for (std::size_t i = 0; i < std::min(trace.ranks.size(), kMeasured); ++i)
    columns.ranks = std::max(columns.ranks, text_width(font, trace.ranks[i].name));
  if (!trace.ranks.empty())
    columns.ranks = std::max(columns.ranks, text_width(font, trace.ranks.back().name));
  for (std::size_t i = 0; lanes_named && i < std::min(trace.lanes.size(), kMeasured); ++i)
    columns.lanes = std::max(columns.lanes, text_width(font, trace.lanes[i].name));
  columns.ranks = std::min(std::ceil(columns.ranks), kWidestColumn);
  columns.lanes = std::min(std::ceil(columns.lanes), kWidestColumn);
  return columns;
}

// ---
// Shows everything about a slice beside the mouse.

std::string rank_text(const Trace& trace, std::int32_t rank) {
  return !trace.is_ring && rank >= 0 && static_cast<std::size_t>(rank) < trace.ranks.size()
             ? trace.ranks[rank].name
             : fmt::format("rank {}", rank);
}

// Return `amount` per second, or none if the amount or the time is not positive.
std::optional<double> per_second(std::int64_t amount, std::int64_t ns) {
  if (amount <= 0 || ns <= 0) return std::nullopt;
  return amount * 1e9 / ns;
}

void add_ring_fields(const Trace& trace, SliceId id, Pairs& rows) {
  const TraceEvent& slice = trace.slice(id);
  if (slice.step >= 0)
    rows.emplace_back("step", fmt::format("{}, {} pass", slice.step, name_of(slice.pass)));
  else if (slice.lane == Lane::wait && trace.is_ring && trace.info.is_whole())
    rows.emplace_back("then", kNothingLeft);
  if (const KernelSpan* span = kernel_span(trace, id)) {
    rows.emplace_back("head", fmt::format("{} (of all batch entries)", span->matrix));
    rows.emplace_back(slice.pass == Pass::forward ? "query tile" : "key tile",
                      fmt::format("{}", span->own_tile()));
    rows.emplace_back("by its clock", fmt::format("{} ticks", span->ticks));
  }
  if (slice.kv_owner >= 0) {
    const bool moves = slice.lane == Lane::send || slice.lane == Lane::recv;
    rows.emplace_back(
        moves && trace.is_ring
            ? travel_of(trace.info).name_of(slice.pass, slice.payload, slice.src, slice.dst)
        : slice.payload == Payload::dkv ? "gradient of KV"
                                        : "KV block",
        fmt::format("of {}", rank_text(trace, slice.kv_owner)));
  }
}

void add_work(const TraceEvent& slice, Pairs& rows) {
  rows.emplace_back("pairs", count_text(slice.pairs));
  rows.emplace_back("work", flops_text(slice.flops));
  if (const auto rate = per_second(slice.flops, slice.duration_ns()))
    rows.emplace_back("speed", flops_text(*rate) + "/s");
  if (slice.tiles_full + slice.tiles_partial + slice.tiles_skipped > 0) {
    rows.emplace_back("tiles", fmt::format("{} full, {} partial, {} skipped", slice.tiles_full,
                                           slice.tiles_partial, slice.tiles_skipped));
  }
  if (slice.cpu_ns <= 0) return;
  rows.emplace_back("processor time", time_text(slice.cpu_ns));
  if (slice.duration_ns() > slice.cpu_ns)
    rows.emplace_back("off the processor", time_text(slice.duration_ns() - slice.cpu_ns));
}

// ---
// Draws the ruler above the slices: round ticks and the playhead's flag. Also
// draws the map of the whole trace below it, in which the visible part is outlined.

constexpr float kTickRoom = 84, kTickRoomInPrint = 56;  // least pixels between labelled ticks
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

// Return what the playhead's flag says: in print the step alone, which leaves room for those beside it.
std::string flag_text(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  const std::string name = position_name(frame, session.playback.position());
  return session.panels.print ? name.substr(0, name.find(" \u00b7 ")) : name;
}

// Return the box of the playhead's flag, or none if the playhead is not in view.
std::optional<Box> flag_of(const TimelineFrame& frame, const Box& ruler) {
  const double position = frame.context.session.playback.position();
  const float x = std::floor(frame.x_at(position));
  if (x < ruler.x0 - 1 || x > ruler.x1 + 1 || !frame.context.session.marks_now())
    return std::nullopt;
  const float words = text_width(frame.context.fonts.small, flag_text(frame));
  const float half = std::ceil(words / 2) + 6;
  const float x0 = std::clamp(x - half, ruler.x0, std::max(ruler.x0, ruler.x1 - 2 * half));
  return Box{x0, ruler.y0 + 1, x0 + 2 * half, ruler.y1 - 6};
}

// Draw a tick's words unless the flag says them, or would cover a part of them.
void draw_tick_text(const TimelineFrame& frame, const Box& ruler, float x, float lean,
                    const std::string& text) {
  ImFont* font = frame.context.fonts.small;
  const float width = text_width(font, text), left = x - lean * width;
  const std::optional<Box> flag = flag_of(frame, ruler);
  if (flag && (text == flag_text(frame) || (left < flag->x1 && left + width > flag->x0))) return;
  draw_label(frame.context, {x, ruler.y0 + 3}, {lean, 0}, text);
}

void draw_time_ticks(const TimelineFrame& frame, const Box& ruler) {
  const double ns_a_pixel = frame.view.width() / std::max(1.0f, ruler.width());
  const float room = frame.context.session.panels.print ? kTickRoomInPrint : kTickRoom;
  const double step = std::max(1.0, round_step(ns_a_pixel * room));
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
    // Cut off at a side, "8.2 ms" would read "2 ms".
    if (labelled && x + 4 >= ruler.x0 &&
        x + 4 + text_width(frame.context.fonts.small, text) < ruler.x1)
      draw_tick_text(frame, ruler, x + 4, 0, text);
  }
}

void draw_step_ticks(const TimelineFrame& frame, const Box& ruler) {
  const Axis& axis = frame.document.axis;
  ImFont* font = frame.context.fonts.small;
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

void draw_flag(const TimelineFrame& frame, const Box& ruler) {
  const Palette& palette = frame.context.palette;
  const std::optional<Box> flag = flag_of(frame, ruler);
  if (!flag) return;
  const float x = std::floor(frame.x_at(frame.context.session.playback.position()));
  fill(*flag, palette.playhead, 3);
  draw_list().AddTriangleFilled({x - 4.5f, ruler.y1 - 6}, {x + 5.5f, ruler.y1 - 6},
                                {x + 0.5f, ruler.y1}, palette.playhead);
  draw_text(frame.context.fonts.small, flag->center(), {0.5f, 0.5f}, ink_on(palette.playhead),
            flag_text(frame));
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
    const bool waits = trace.is_ring && row == trace.row_of(rank, Lane::wait);
    // Ranks of which nothing was recorded would empty it.
    if (is_unrecorded(trace, rank)) continue;
    if (trace.rows[row].depth > 0 ||
        (trace.is_ring && !waits && row != trace.row_of(rank, Lane::compute)))
      continue;
    const std::int64_t begin = frame.document.axis.time_at(frame.mode, rank, from);
    const std::int64_t end = frame.document.axis.time_at(frame.mode, rank, to);
    if (end <= begin) continue;
    frame.document.index.time_by_class(row, begin, end, sums);
    for (const std::int64_t sum : sums) (waits ? waiting : busy) += sum;
    whole += waits ? 0 : static_cast<double>(end - begin);
  }
  return whole > 0 ? Shares{busy / whole, waiting / whole} : Shares{};
}

void paint_map(const TimelineFrame& frame, Image& image) {
  const Palette& palette = frame.context.palette;
  image.fill(0, 0, image.width, image.height, palette.row_odd);
  const auto muted = [&](Lane kind) { return mix(palette.row_odd, palette.of(kind), 0.6); };
  const Color busy =
      frame.trace().is_ring ? muted(Lane::compute) : mix(palette.row_odd, palette.text_dim, 0.6);
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
    image.fill(x, top_of(shares.busy + shares.waiting), x + kColumn, middle, muted(Lane::wait));
  }
}

}  // namespace

void draw_slice_labels(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  const Palette& palette = frame.context.palette;
  const Trace& trace = frame.trace();
  ImFont* font = frame.context.fonts.small;
  const bool dimmed = session.look.critical_path && !frame.document.path().segments.empty();
  std::size_t characters = 0;
  for (const RowPlace& place : frame.layout.rows) {
    if (place.height < kLowestLabelled || !frame.row_box(place.row)) continue;
    const auto [first, last] = frame.visible(place.row);
    if (last - first > kMostLabelledInRow) continue;
    for (std::uint32_t i = first; i < last && characters < kMostCharacters; ++i) {
      const std::optional<Box> box = frame.slice_box({place.row, i});
      if (!box || box->width() < 12) continue;
      // Keep words in view while any part of their slice is.
      const float x0 = std::max(box->x0, frame.body.x0) + kLabelPad;
      const float x1 = std::min(box->x1, frame.body.x1) - kLabelPad;
      const TraceEvent& slice = trace.slices(place.row)[i];
      // The time that the rank did not have a processor is shaded, at the end because nobody knows when.
      if (slice.cpu_ns > 0 && slice.cpu_ns < 0.98 * slice.duration_ns()) {
        const float from = frame.x_at(frame.rank_of(place.row), slice.begin_ns + slice.cpu_ns);
        // It stays below the letters, whose ink is chosen for the slice's own colour.
        const float high = std::clamp((place.height - font_height(font)) / 2 - 1, 1.0f, 4.0f);
        fill({std::max(from, box->x0), box->y1 - 1 - high, box->x1, box->y1 - 1},
             with_alpha(palette.background, 0.65));
      }
      const std::string text = label_of(frame, {place.row, i}, font, x1 - x0);
      const Color ground =
          slice_color(session.look.theme, session.look.color_by, slice, trace.info.world_size);
      const Color ink = dimmed && !frame.document.path().contains({place.row, i}) ? palette.text_dim
                                                                                  : ink_on(ground);
      // Letters stand low in their line, which shows in a row that is hardly higher.
      const float up = place.height < 18 ? 1 : 0;
      draw_text(font, {x0, (box->y0 + box->y1) / 2 - up}, {0, 0.5f}, ink, text);
      characters += text.size();
    }
  }
}

float gutter_width(const TimelineFrame& frame) { return columns_of(frame).width(); }

void draw_gutter(const TimelineFrame& frame, const Box& gutter) {
  const Session& session = frame.context.session;
  const Palette& palette = frame.context.palette;
  const Trace& trace = frame.trace();
  ImFont* font = frame.context.fonts.small;
  const bool owners = trace.is_ring && session.look.color_by == ColorBy::owner;
  const Columns columns = columns_of(frame);
  const bool lanes = columns.lanes > 0 && columns.width() <= gutter.width();
  const float rank_room = lanes ? columns.ranks : gutter.width() - kRankSwatch - 2 * kLabelPad;
  const float line = font_height(font) + 1;
  // Where ranks are lower than their names, every so many of them have one.
  const auto& ranks = frame.layout.ranks;
  const float pitch = frame.layout.content_height / std::max<float>(ranks.size(), 1);
  const auto every =
      static_cast<std::size_t>(std::max(1.0f, std::ceil(line / std::max(pitch, 0.1f))));
  float last_name = gutter.y0 - line;                                     // names must not overlap
  std::vector<int> failed = circle_of(trace, frame.document.unfinished);  // nobody's fault alone
  if (failed.empty() && trace.info.failure) failed = {trace.info.failure->rank};
  draw_list().PushClipRect(gutter.min(), gutter.max(), true);
  for (const RankPlace& place : ranks) {
    const float y0 = frame.y_at(place.y);
    const float y1 = y0 + place.height;
    const bool named = every == 1 || static_cast<std::size_t>(&place - ranks.data()) % every == 0;
    if (y1 < gutter.y0 || y0 > gutter.y1) continue;
    const bool selected = frame.active && session.selected_rank == place.rank;
    if (selected) fill({gutter.x0, y0, gutter.x1, y1}, with_alpha(palette.selection, 0.18));
    if (owners) {
      // Draw the colour of the rank's own KV block.
      fill({gutter.x0, y0, gutter.x0 + kRankSwatch, y1},
           owner_color(session.look.theme, trace.ranks[place.rank].pid, trace.info.world_size));
    }
    // Place the name in the middle of the rank's visible part.
    const float middle = std::max(
        std::min((std::max(y0, gutter.y0) + std::min(y1, gutter.y1)) / 2, gutter.y1 - line / 2),
        gutter.y0 + line / 2);
    // Of a rank that is nearly scrolled away, the name would take the room of the next one's.
    if (named && middle - last_name >= line - 2 && (y0 >= gutter.y0 || y1 - gutter.y0 >= line)) {
      const std::string& name = trace.ranks[place.rank].name;
      const float x = gutter.x0 + kRankSwatch + kLabelPad;
      const auto is_failed = std::find(failed.begin(), failed.end(), place.rank);
      const Color ink = is_failed != failed.end() ? palette.warning : palette.text;
      const float high = wrapped_height(font, rank_room, name);
      const auto& pinned = session.order.pinned;
      if (frame.active && std::find(pinned.begin(), pinned.end(), place.rank) != pinned.end())
        arrowhead({x + text_width(font, name) + 6, middle - 3}, 0, -1, 6, palette.accent);
      if (text_width(font, name) > rank_room && high < y1 - y0)
        draw_wrapped(font, {x, middle - high / 2}, rank_room, ink, name);
      else
        draw_text(font, {x, middle}, {0, 0.5f}, ink, name, rank_room);
      last_name = middle;
    }
  }
  for (const RowPlace& place : frame.layout.rows) {
    const std::optional<Box> row = frame.row_box(place.row);
    if (!lanes || !row || place.height < kLowestLabelled || trace.rows[place.row].depth > 0)
      continue;
    draw_label(frame.context, {gutter.x1 - kLabelPad, (row->y0 + row->y1) / 2}, {1, 0.5f},
               trace.lanes[trace.rows[place.row].lane].name, columns.lanes);
  }
  draw_list().PopClipRect();
}

std::string slice_headline(const Trace& trace, SliceId id) {
  const TraceEvent& slice = trace.slice(id);
  if (!trace.is_ring) return slice_title(trace, id);
  if (slice.lane == Lane::wait) return "waits for " + words_of_awaited(trace, id);
  constexpr const char* kVerbs[kLaneKinds] = {"computes on ", "sends ", "receives ", "", "", ""};
  return kVerbs[static_cast<int>(slice.lane)] + slice_title(trace, id);
}

Pairs slice_facts(const Trace& trace, SliceId id) {
  const TraceEvent& slice = trace.slice(id);
  const TraceLane& lane = trace.lanes[trace.rows[id.row].lane];
  Pairs rows;
  rows.emplace_back(trace.is_ring ? "on" : "track", trace.ranks[lane.rank].name);
  if ((!trace.is_ring || kernel_part(slice)) && !lane.name.empty())
    rows.emplace_back("lane", lane.name);
  add_ring_fields(trace, id, rows);
  const char* why = "why";
  for (const std::string& reason : reasons_of_wait(trace, id))
    rows.emplace_back(std::exchange(why, ""), reason);
  rows.emplace_back("duration", time_text(slice.duration_ns()));
  rows.emplace_back("begins at", time_text(slice.begin_ns - trace.begin_ns));
  if (trace.is_ring && slice.lane == Lane::compute) add_work(slice, rows);
  if (slice.bytes > 0) {
    rows.emplace_back("bytes", bytes_text(slice.bytes));
    if (slice.moved_ns > 0) rows.emplace_back("on its way for", time_text(slice.moved_ns));
    if (const auto rate =
            per_second(slice.bytes, slice.moved_ns > 0 ? slice.moved_ns : slice.duration_ns()))
      rows.emplace_back("bandwidth", bandwidth_text(*rate));
  }
  if (slice.peer() >= 0 && slice.lane != Lane::wait)
    rows.emplace_back(slice.lane == Lane::recv ? "from" : "to", rank_text(trace, slice.peer()));
  return rows;
}

void draw_slice_tooltip(const TimelineFrame& frame, SliceId id) {
  draw_tooltip(frame.context, slice_headline(frame.trace(), id), slice_facts(frame.trace(), id));
}

void draw_ruler(const TimelineFrame& frame, const Box& ruler) {
  fill(ruler, frame.context.palette.panel);
  draw_list().PushClipRect(ruler.min(), {ruler.x1, frame.body.y1}, true);
  if (frame.length() > 0) {
    if (frame.mode == AxisMode::time)
      draw_time_ticks(frame, ruler);
    else
      draw_step_ticks(frame, ruler);
    fill({ruler.x0, ruler.y1 - 1, ruler.x1, ruler.y1}, frame.context.palette.grid);
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
