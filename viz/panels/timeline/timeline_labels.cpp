// Draws words on slices that have room for them, and the names of ranks and lanes at the left.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/session/format.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kLabelPad = 4;
constexpr float kLowestLabelled = 11;  // lower rows have no words
constexpr std::uint32_t kMostLabelledInRow =
    5000;                                      // a row with more slices in view has no wide ones
constexpr std::size_t kMostCharacters = 3000;  // per frame, because every character is a rectangle
constexpr float kRankSwatch = 3;
constexpr float kWidestColumn = 110;

// Return the longest of a few labels that fits `width` pixels, or "" if none does. A cheap guess
// comes first because measuring text is expensive.
std::string label_of(const TimelineFrame& frame, SliceId id, const ImFont* font, float width) {
  const Slice& slice = frame.trace().slice(id);
  constexpr float kNarrowestCharacter = 4;
  const auto fits = [&](std::string_view text) {
    return static_cast<float>(text.size()) * kNarrowestCharacter < width &&
           text_width(font, text) <= width;
  };
  const std::string title = slice_title(frame.trace(), slice);
  if (!frame.trace().is_ring()) return width >= 24 ? fitted(font, title, width) : "";
  const int step = frame.step_of(slice);
  if (width > 110 && step >= 0) {
    const std::string all = fmt::format("{} · {} · {}", title, step_name(frame.document.axis, step),
                                        time_text(slice.duration_ns()));
    const std::vector<SliceId>& unfinished = frame.document.unfinished;
    const std::string in_vain = all + " · in vain";
    if (std::find(unfinished.begin(), unfinished.end(), id) != unfinished.end() && fits(in_vain))
      return in_vain;
    if (fits(all)) return all;
  }
  if (fits(title)) return title;
  std::string brief;
  if (slice.kind == Kind::compute)
    brief = fmt::format("{}", slice.kv_owner);
  else if (!preposition(slice.kind).empty())
    brief = fmt::format("{} {}", preposition(slice.kind), slice.peer);
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
  const ImFont* font = frame.context.fonts.small;
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
  return !trace.is_ring() && rank >= 0 && static_cast<std::size_t>(rank) < trace.ranks.size()
             ? trace.ranks[rank].name
             : fmt::format("rank {}", rank);
}

// Return `amount` per second, or none if the amount or the time is not positive.
std::optional<double> per_second(std::int64_t amount, std::int64_t ns) {
  if (amount <= 0 || ns <= 0) return std::nullopt;
  return static_cast<double>(amount) * 1e9 / static_cast<double>(ns);
}

void add_ring_fields(const Trace& trace, const Slice& slice, Pairs& rows) {
  if (slice.step >= 0)
    rows.emplace_back("step", fmt::format("{}, {} pass", slice.step, name_of(slice.pass)));
  if (slice.kv_owner >= 0) {
    rows.emplace_back(slice.payload == Payload::dkv ? "gradient of KV" : "KV block",
                      fmt::format("of {}", rank_text(trace, slice.kv_owner)));
  }
}

void add_work(const Slice& slice, Pairs& rows) {
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

}  // namespace

void draw_slice_labels(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  const Palette& palette = frame.context.palette;
  const Trace& trace = frame.trace();
  const ImFont* font = frame.context.fonts.small;
  const int world_size = trace.is_ring() ? trace.run->world_size : 1;
  const bool dimmed = session.show_critical_path && !frame.document.path.segments.empty();
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
      const Slice& slice = trace.rows[place.row].slices[i];
      // The time that the rank did not have a processor is shaded, at the end because nobody knows when.
      if (slice.cpu_ns > 0 && slice.cpu_ns < 0.98 * static_cast<double>(slice.duration_ns())) {
        const float from = frame.x_at(frame.rank_of(place.row), slice.begin_ns + slice.cpu_ns);
        const float bottom = box->y1 - 1;
        fill({std::max(from, box->x0), bottom - std::max(3.0f, 0.28f * place.height), box->x1,
              bottom},
             with_alpha(palette.background, 0.65));
      }
      const std::string text = label_of(frame, {place.row, i}, font, x1 - x0);
      const Color ground = slice_color(session.theme, session.color_by, slice, world_size);
      const Color ink = dimmed && !frame.document.path.contains({place.row, i}) ? palette.text_dim
                                                                                : ink_on(ground);
      // Letters stand low in their line, which shows in a row that is hardly higher.
      const float up = place.height < 14 ? 1 : 0;
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
  const ImFont* font = frame.context.fonts.small;
  const bool owners = trace.is_ring() && session.color_by == ColorBy::owner;
  const Columns columns = columns_of(frame);
  const bool lanes = columns.lanes > 0 && columns.width() <= gutter.width();
  const float rank_room = lanes ? columns.ranks : gutter.width() - kRankSwatch - 2 * kLabelPad;
  const float line = font_height(font) + 1;
  float last_name = gutter.y0 - line;  // names must not overlap
  const int failed = trace.run && trace.run->failure ? trace.run->failure->rank : -1;
  draw_list().PushClipRect(gutter.min(), gutter.max(), true);
  for (const RankPlace& place : frame.layout.ranks) {
    const float y0 = frame.y_at(place.y);
    const float y1 = y0 + place.height;
    if (y1 < gutter.y0 || y0 > gutter.y1) continue;
    const bool selected = frame.active && session.selected_rank == static_cast<int>(place.rank);
    if (selected) fill({gutter.x0, y0, gutter.x1, y1}, with_alpha(palette.selection, 0.18));
    if (owners) {
      // Draw the colour of the rank's own KV block.
      fill({gutter.x0, y0, gutter.x0 + kRankSwatch, y1},
           owner_color(session.theme, static_cast<int>(trace.ranks[place.rank].pid),
                       trace.run->world_size));
    }
    // Place the name in the middle of the rank's visible part.
    const float middle = std::max(
        std::min((std::max(y0, gutter.y0) + std::min(y1, gutter.y1)) / 2, gutter.y1 - line / 2),
        gutter.y0 + line / 2);
    // Of a rank that is nearly scrolled away, the name would take the room of the next one's.
    if (middle - last_name >= line && (y0 >= gutter.y0 || y1 - gutter.y0 >= line)) {
      const std::string& name = trace.ranks[place.rank].name;
      const float x = gutter.x0 + kRankSwatch + kLabelPad;
      const Color ink = static_cast<int>(place.rank) == failed ? palette.warning : palette.text;
      const float high = wrapped_height(font, rank_room, name);
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
    draw_text(font, {gutter.x1 - kLabelPad, (row->y0 + row->y1) / 2}, {1, 0.5f}, palette.text_dim,
              trace.lanes[trace.rows[place.row].lane].name, columns.lanes);
  }
  draw_list().PopClipRect();
}

std::string slice_headline(const Trace& trace, SliceId id) {
  const Slice& slice = trace.slice(id);
  if (!trace.is_ring()) return slice_title(trace, slice);
  if (slice.kind == Kind::wait) return fmt::format("waits for {}", rank_text(trace, slice.peer));
  constexpr const char* kVerbs[kKindCount] = {"computes on ", "sends ", "receives ", "", "", ""};
  return kVerbs[static_cast<int>(slice.kind)] + slice_title(trace, slice);
}

Pairs slice_facts(const Trace& trace, SliceId id) {
  const Slice& slice = trace.slice(id);
  const Lane& lane = trace.lanes[trace.rows[id.row].lane];
  Pairs rows;
  rows.emplace_back(trace.is_ring() ? "on" : "track", trace.ranks[lane.rank].name);
  if (!trace.is_ring() && !lane.name.empty()) rows.emplace_back("lane", lane.name);
  add_ring_fields(trace, slice, rows);
  rows.emplace_back("duration", time_text(slice.duration_ns()));
  rows.emplace_back("begins at", time_text(slice.begin_ns - trace.begin_ns));
  if (trace.is_ring() && slice.kind == Kind::compute) add_work(slice, rows);
  if (slice.bytes > 0) {
    rows.emplace_back("bytes", bytes_text(slice.bytes));
    if (const auto rate = per_second(slice.bytes, slice.duration_ns()))
      rows.emplace_back("bandwidth", bandwidth_text(*rate));
  }
  if (slice.peer >= 0 && slice.kind != Kind::wait)
    rows.emplace_back(slice.kind == Kind::recv ? "from" : "to", rank_text(trace, slice.peer));
  return rows;
}

void draw_slice_tooltip(const TimelineFrame& frame, SliceId id) {
  draw_tooltip(frame.context, slice_headline(frame.trace(), id), slice_facts(frame.trace(), id));
}

}  // namespace ringscope::viz
