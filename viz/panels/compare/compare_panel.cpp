// Draws recordings side by side, at equal heights and scales, so that differences stand out. A
// sentence above them gives the result, and a table below them their figures.
#include "viz/panels/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/ring/ring.h"
#include "viz/model/session/format.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {

CompareLayout compare_layout(ImVec2 top_left, ImVec2 room, int columns, int ranks, int figures,
                             bool backward) {
  constexpr float kGap = 10, kPad = 10, kTitle = 46, kRuler = 24, kLeastColumn = 236;
  CompareLayout layout;
  const float labels = backward ? 36 : 20;
  columns = std::max(columns, 1);
  const float names = room.x >= 900 ? 204.0f : 116.0f;
  const float wide = std::floor(
      std::clamp((room.x - names) / columns - kGap, kLeastColumn, std::max(720.0f, kLeastColumn)));
  const float inner = wide - 2 * kPad;

  // The mask and the strip share the height that rows of fixed height leave.
  layout.row_height = room.y >= 640 ? 19 : 17;
  const float table = layout.row_height * figures + (figures > 0 ? 10.0f : 0.0f);
  const float heat = std::clamp((room.y >= 640 ? 20.0f : 18.0f) * ranks, 20.0f, 128.0f);
  const float fixed = kTitle + 12 + labels + heat + 14 + kRuler + 12 + table + kPad;
  const float left = room.y - fixed;
  const float mask = std::floor(std::clamp(left * 0.6f, 84.0f, std::min(inner * 0.6f, 300.0f)));
  const float strip =
      std::floor(std::clamp(left - mask, std::min(56.0f, 14.0f * ranks + 20), 240.0f));

  float y = top_left.y;
  layout.names = {top_left.x, y, top_left.x + names, y};
  for (int i = 0; i < columns; ++i) {
    CompareColumn column;
    const float x = top_left.x + names + (wide + kGap) * i;
    float at = y;
    column.card = {x, y, x + wide, y};
    column.title = {x, at, x + wide, at + kTitle};
    at += kTitle;
    column.mask = {x + kPad, at, x + kPad + mask, at + mask};
    column.highlights = {x + kPad + mask + 16, at, x + wide - kPad, at + mask};
    at += mask + 12 + labels;
    column.heat = {x + kPad + 56, at, x + wide - kPad, at + heat};
    at += heat + 14;
    layout.ruler_y = at;
    at += kRuler;
    column.strip = {x + kPad - 8, at, x + wide - kPad, at + strip};
    at += strip + 12;
    layout.table_y = at;
    at += table + kPad;
    column.card.y1 = at;
    layout.columns.push_back(column);
  }
  layout.names.y1 = layout.columns.back().card.y1;
  layout.width = layout.columns.back().card.x1 - top_left.x;
  layout.height = layout.names.y1 - top_left.y;
  return layout;
}

namespace {

// The scale that all columns share, so that equal colours and lengths mean the same in each.
struct CompareScale {
  double largest_pairs = 1;  // of any cell of any recording
  TimelineView view;         // covers the longest recording
  bool equal = true;         // of one problem, so that one recording can be better than another
  // The highest and the lowest balance ceiling as text, which are equal if all recordings agree.
  std::string best_ceiling, worst_ceiling;
};

// Return what tells a recording from the others; one that is not ours has its file's name.
std::string short_title(const Session& session, std::size_t index) {
  const std::vector<std::size_t> rings = session.rings();
  const auto ring =
      static_cast<std::size_t>(std::find(rings.begin(), rings.end(), index) - rings.begin());
  if (ring == rings.size()) return session.documents[index].trace.title();
  const std::vector<std::string>& names = session.comparison.names;  // none of a single recording
  return ring < names.size() ? names[ring] : session.documents[index].trace.run->partition;
}

// List the values that every recording has for this rank and step.
void draw_slot_tooltip(const PanelContext& context, std::size_t index, int rank, int step) {
  const std::vector<Document>& documents = context.session.documents;
  Pairs rows;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const WorkTable& balance = documents[i].balance;
    if (balance.ranks == 0) continue;
    std::string text = "no such step";
    if (rank < balance.ranks && step < balance.steps) {
      const WorkCell& cell = balance.at(rank, step);
      text = fmt::format("{} pairs   {}   waits {}", count_text(cell.pairs),
                         time_text(cell.compute_ns), time_text(cell.wait_ns));
    }
    rows.emplace_back(short_title(context.session, i), text);
  }
  const int owner = RingSchedule{rank, documents[index].balance.ranks}.owner(
      documents[index].axis.ring_step(step));
  draw_tooltip(context, fmt::format("rank {}, step {}, KV {}", rank, step, owner), rows);
}

void draw_title(const PanelContext& context, std::size_t index, const CompareColumn& column) {
  Session& session = context.session;
  const Trace& trace = session.documents[index].trace;
  const Palette& palette = context.palette;
  const Touch touched = touch("title", column.title);
  const float left = column.mask.x0, room = column.title.x1 - left - 12;
  if (touched.hovered) fill(column.title, with_alpha(palette.text, 0.05), 8);
  draw_text(context.fonts.title, {left, column.title.y0 + 8}, {0, 0}, palette.text,
            short_title(session, index), room);
  std::string about = trace.path;
  if (trace.is_ring())
    about = fmt::format("{} · {} · {} ranks{}", trace.run->mask, trace.run->dtype,
                        trace.ranks.size(), way_of(*trace.run));
  draw_label(context, {left, column.title.y0 + 32}, {0, 0}, about, room);
  if (touched.clicked) {
    session.activate(index);
    session.comparing = false;
  }
}

// Draw the three most telling figures in large type beside the mask.
void draw_highlights(const PanelContext& context, const Document& document, const Document& first,
                     const Box& box, const CompareScale& scale) {
  const WorkTable& balance = document.balance;
  const double idle_ns = document.idle.ranks_ns() - document.idle.compute_ns();
  const double idle = idle_ns / std::max(document.idle.ranks_ns(), 1.0);
  const double pairs = balance.pairs_of_busiest(document.axis.forward_steps());
  const double first_pairs = first.balance.pairs_of_busiest(first.axis.forward_steps());
  std::string change;
  if (scale.equal && &document != &first && first_pairs > 0 && pairs != first_pairs)
    change = fmt::format("{:+.0f} %", (pairs / first_pairs - 1) * 100);
  struct Figure {
    std::string value, name;
    Color color;
    std::string change{};  // relative to the first recording
  };
  const std::string ceiling = percent_text(balance.balance_ceiling);
  const bool tells = scale.equal && scale.best_ceiling != scale.worst_ceiling;
  const Color color = tells && ceiling == scale.best_ceiling    ? context.palette.accent
                      : tells && ceiling == scale.worst_ceiling ? context.palette.warning
                                                                : context.palette.text;
  const Figure figures[] = {
      {ceiling, "balance ceiling", color},
      {count_text(pairs), "busiest rank's pairs", context.palette.text, change},
      {percent_text(idle), "of ranks' time idle", context.palette.text},
      {time_text(balance.wall_s * 1e9), "wall time", context.palette.text}};
  const int across = box.width() >= 320 ? 2 : 1;
  const int down = std::clamp(static_cast<int>((box.height() + 8) / 46), 0, 4 / across);
  const float pitch = down > 1 ? std::min((box.height() - 38) / (down - 1), 58.0f) : 46.0f;
  const float wide = box.width() / across;
  for (int i = 0; i < across * down; ++i) {
    const Figure& figure = figures[i];
    const float x = box.x0 + wide * (i / down);
    const float y = box.y0 - 3 + pitch * (i % down);
    const float end =
        x + draw_text(context.fonts.title, {x, y}, {0, 0}, figure.color, figure.value);
    draw_label(context, {end + 8, y + 6}, {0, 0}, figure.change);
    draw_label(context, {x, y + 23}, {0, 0}, figure.name, wide - 8);
  }
}

void draw_heat(const PanelContext& context, std::size_t index, const CompareColumn& column,
               const CompareScale& scale) {
  Session& session = context.session;
  const Document& document = session.documents[index];
  if (document.balance.ranks == 0) return;
  const HeatLayout layout{column.heat, document.balance.ranks, document.balance.steps};
  HeatPaint paint;
  paint.slot = fmt::format("compare pairs {}", index);
  paint.largest = scale.largest_pairs;
  paint.current_step = session.step_now(index);
  const auto hit = draw_heatmap(context, document, layout, document.balance, paint);
  if (hit && hit->clicked) session.go_to_step(index, hit->rank, hit->step);
  if (hit && hit->hovered) draw_slot_tooltip(context, index, hit->rank, hit->step);
}

// Draw the column of `document`. A click on its title shows that recording alone; a click on a
// cell selects its rank and goes to its step.
void draw_compare_card(const PanelContext& context, std::size_t index, const CompareColumn& column,
                       float ruler_y, const CompareScale& scale) {
  Session& session = context.session;
  const Document& document = session.documents[index];
  const Palette& palette = context.palette;
  ImGui::PushID(static_cast<int>(index));
  fill(column.card, mix(palette.panel, palette.text, 0.025), 8);
  outline(column.card, palette.panel_border, 8);
  draw_title(context, index, column);
  if (document.mask) {
    draw_mask_picture(
        context,
        {fmt::format("compare mask {}", index), index, session.mask_order, session.selected_rank},
        column.mask);
  } else {
    draw_empty(context, column.mask, "no mask", "not recorded in this trace");
  }
  if (document.balance.ranks > 0)
    draw_highlights(context, document, session.documents.front(), column.highlights, scale);
  draw_heat(context, index, column, scale);
  const Box& strip = column.strip;
  draw_timeline_strip_ruler(context, document, {strip.x0, ruler_y, strip.x1, strip.y0}, scale.view);
  draw_timeline_strip(context, document, fmt::format("timeline.strip{}", index), {}, strip,
                      scale.view);
  ImGui::PopID();
}

CompareScale scale_of(const Session& session) {
  CompareScale scale;
  double longest = 0, lowest = 2, highest = -1;
  for (const Document& document : session.documents) {
    longest = std::max(longest, document.axis.length(session.axis_mode));
    if (document.balance.ranks == 0) continue;
    scale.largest_pairs = std::max(scale.largest_pairs, kHeatMetrics[0].largest(document.balance));
    lowest = std::min(lowest, document.balance.balance_ceiling);
    highest = std::max(highest, document.balance.balance_ceiling);
  }
  scale.best_ceiling = percent_text(highest);
  scale.worst_ceiling = percent_text(lowest);
  scale.view = fitted(longest);
  scale.equal = session.comparison.unequal.empty();
  return scale;
}

void draw_names(const PanelContext& context, const CompareLayout& layout) {
  const Palette& palette = context.palette;
  const CompareColumn& column = layout.columns.front();
  const float x = layout.names.x0 + 2, width = layout.names.width() - 12;
  const auto name = [&](float y, std::string_view title, std::string_view text) {
    const float high = draw_wrapped(context.fonts.text, {x, y}, width, palette.text, title);
    return y + high +
           draw_wrapped(context.fonts.small, {x, y + high}, width, palette.text_dim, text);
  };
  Session& session = context.session;
  const float below =
      name(column.mask.y0 - 3, "Mask",
           session.mask_order == MaskOrder::local
               ? "queries down, keys across, rank by rank; colour: owner of the key"
               : "queries down, keys across, by position; colour: owner of the key");
  choose_mask_order(context, {x - 2, below + 8}, {"global", "local"});
  name(column.heat.y0 - 2, "Pairs", "by rank and step; stronger is more");
  name(column.strip.y0, "Timeline",
       context.session.axis_mode == AxisMode::time ? "on one clock" : "by ring step");
}

// Draw the same figure of every recording in a line. The best one stands out.
void draw_table(const PanelContext& context, const CompareLayout& layout) {
  const Session& session = context.session;
  const Palette& palette = context.palette;
  float y = layout.table_y;
  const std::vector<std::size_t> rings = session.rings();
  const float right = layout.columns.back().card.x1;
  for (const ComparedFigure& figure : session.comparison.figures) {
    draw_list().AddLine({layout.names.x0, y}, {right, y}, with_alpha(palette.grid, 0.8));
    const float middle = y + layout.row_height / 2;
    draw_label(context, {layout.names.x0 + 2, middle}, {0, 0.5f}, figure.name,
               layout.names.width() - 10);
    // Only our own recordings have figures.
    for (std::size_t ring = 0; ring < std::min(rings.size(), figure.texts.size()); ++ring) {
      const CompareColumn& column = layout.columns[rings[ring]];
      const float x = column.mask.x0;
      const std::string& value = figure.texts[ring];
      // A figure that reads the same as the best is equally good.
      const bool best = figure.best >= 0 && value == figure.texts[figure.best];
      if (best) draw_list().AddCircleFilled({x + 2, middle}, 2.5f, palette.accent, 12);
      draw_text(context.fonts.mono, {x + 12, middle}, {0, 0.5f},
                best ? palette.accent : palette.text, value);
      draw_text(context.fonts.small, {column.card.x1 - 12, middle}, {1, 0.5f},
                best ? palette.accent : palette.text_dim, figure.ratios[ring]);
    }
    y += layout.row_height;
  }
}

// ---
// Shows two recordings as one: a waterfall of causes from the wall time of the first to that of the
// other, and by how much the slices of the same rank, pass and step have changed.

constexpr float kPartLine = 30, kPartBar = 18;

// Draw the waterfall from `top_left`. Return its height.
float draw_waterfall(const PanelContext& context, ImVec2 top_left, float width,
                     const Difference& difference, const std::string& from, const std::string& to) {
  const Palette& palette = context.palette;
  const ImFont* font = context.fonts.text;
  float names = std::max(text_width(font, from), text_width(font, to));
  for (const Difference::Part& part : difference.parts)
    names = std::max(names, text_width(font, part.name));
  names = std::min(names, width * 0.35f);
  const float values = text_width(context.fonts.mono, "+888.88 ms") + 8;
  const float x0 = top_left.x + names + 12, room = width - names - 12 - values;
  double highest = std::max(difference.from_s, difference.to_s), now = difference.from_s;
  for (const Difference::Part& part : difference.parts)
    highest = std::max(highest, now += part.seconds);
  const auto x_at = [&](double seconds) {
    return x0 + room * static_cast<float>(std::max(seconds, 0.0) / std::max(highest, 1e-12));
  };
  float y = top_left.y;
  const auto bar = [&](const std::string& name, double begin, double end, Color color,
                       const std::string& value) {
    draw_text(font, {top_left.x, y + kPartBar / 2}, {0, 0.5f}, palette.text, name, names);
    const float left = x_at(std::min(begin, end));
    const float right = std::max(x_at(std::max(begin, end)), left + 2);
    fill({left, y, right, y + kPartBar}, color, 3);
    draw_text(context.fonts.mono, {right + 8, y + kPartBar / 2}, {0, 0.5f}, palette.text, value);
    y += kPartLine;
    if (y < top_left.y + kPartLine * (difference.parts.size() + 2))
      draw_list().AddLine({x_at(end), y - kPartLine + kPartBar}, {x_at(end), y},
                          with_alpha(palette.text_dim, 0.6));
  };
  const Color whole = mix(palette.panel, palette.text_dim, 0.55);
  bar(from, 0, difference.from_s, whole, time_text(1e9 * difference.from_s));
  now = difference.from_s;
  for (const Difference::Part& part : difference.parts) {
    bar(part.name, now, now + part.seconds, part.seconds < 0 ? palette.accent : palette.warning,
        (part.seconds < 0 ? "-" : "+") + time_text(1e9 * std::abs(part.seconds)));
    now += part.seconds;
  }
  bar(to, 0, difference.to_s, whole, time_text(1e9 * difference.to_s));
  return y - top_left.y;
}

// Draw the change of the slices in `box`. A click moves the playhead to the slice in the other
// recording. Return the height.
float draw_change(const PanelContext& context, const Box& box, const Difference& difference,
                  std::size_t other) {
  Session& session = context.session;
  const Document& document = session.documents[other];
  const WorkTable& change = difference.change;
  const std::vector<double> zero(static_cast<std::size_t>(change.steps), 0);
  HeatLayout layout{{box.x0 + 62, box.y0 + 64, box.x1, box.y1 - 40}, change.ranks, change.steps};
  layout.box.y1 = std::min(layout.box.y1, layout.box.y0 + 28 * static_cast<float>(change.ranks));
  HeatPaint paint{.slot = "difference", .metric = kHeatMetrics[choose_metric(context, box.min())]};
  for (const WorkCell& cell : change.cells)
    paint.largest = std::max(paint.largest, std::abs(paint.metric.of(cell)));
  paint.usual = &zero;
  paint.first = session.documents.front().number;
  const auto hit = draw_heatmap(context, document, layout, change, paint);
  std::string legend = "orange: more than in the first recording; blue: less";
  if (difference.unpaired > 0)
    legend += fmt::format("; without a partner in the other run: {} (another block, or no slice)",
                          counted(difference.unpaired, "slice"));
  draw_wrapped(context.fonts.small, {layout.box.x0, layout.box.y1 + 8}, layout.box.width(),
               context.palette.text_dim, legend);
  if (hit && hit->hovered) draw_slot_tooltip(context, other, hit->rank, hit->step);
  if (hit && hit->clicked) session.go_to_step(other, hit->rank, hit->step);
  return layout.box.y1 + 44 - box.y0;
}

// Draw what the other recording has that the first one has not: draw_compare()'s second view.
void draw_difference(const PanelContext& context, const Box& box) {
  Session& session = context.session;
  const Comparison& comparison = session.comparison;
  const std::vector<std::size_t> rings = session.rings();
  if (comparison.differences.size() != rings.size() || rings.size() < 2) return;
  const auto found = std::find(rings.begin() + 1, rings.end(), session.active);
  const std::size_t at = found == rings.end() ? 1 : static_cast<std::size_t>(found - rings.begin());
  float y = box.y0;
  if (rings.size() > 2) {
    const std::vector<std::string> names(comparison.names.begin() + 1, comparison.names.end());
    const int chosen = draw_tabs(context, "other", {box.x0, y}, names, static_cast<int>(at) - 1);
    session.activate(rings[static_cast<std::size_t>(chosen) + 1]);
    y += 34;
  }
  const Difference& difference = comparison.differences[at];
  if (!difference.refusal.empty()) {
    draw_empty(context, {box.x0, y, box.x1, box.y1}, "These runs can't be compared slice by slice",
               fmt::format("They differ in {}.", difference.refusal));
    return;
  }
  y += draw_wrapped(context.fonts.title, {box.x0 + 2, y}, box.width() - 4, context.palette.text,
                    difference.headline) +
       16;
  const float left = std::floor(box.width() * 0.42f);
  float below = draw_waterfall(context, {box.x0 + 2, y}, left - 20, difference, comparison.names[0],
                               comparison.names[at]);
  below = y + std::max(below, draw_change(context, {box.x0 + left + 20, y, box.x1, box.y1},
                                          difference, rings[at]));
  if (!session.comparing) return;
  // Both timelines on one axis take the room that is left.
  const float high = std::floor((box.y1 - below - 24) / 2) - 22;
  if (high < 40) return;
  const double longest = std::max(session.documents[rings[0]].axis.length(session.axis_mode),
                                  session.documents[rings[at]].axis.length(session.axis_mode));
  const TimelineView view = fitted(longest);
  for (const std::size_t shown : {rings[0], rings[at]}) {
    const Document& document = session.documents[shown];
    if (shown == rings[0])
      draw_timeline_strip_ruler(context, document, {box.x0, below, box.x1, below + 24}, view);
    const float top = below + 24 + (shown == rings[0] ? 0 : high + 22);
    draw_label(context, {box.x0 + kTimelineStripGutter, top + 4}, {0, 0},
               comparison.names[shown == rings[0] ? 0 : at]);
    draw_timeline_strip(context, document, shown == rings[0] ? "timeline.from" : "timeline.to", {},
                        {box.x0, top + 20, box.x1, top + 20 + high}, view);
  }
}

}  // namespace

void draw_compare(const PanelContext& context) {
  Session& session = context.session;
  const Box whole = content_box();
  if (whole.width() < 60 || whole.height() < 60) return;
  float top = whole.y0;
  if (session.comparison.differences.size() > 1) {
    session.show_difference(draw_tabs(context, "view", {whole.x0, top},
                                      {"side by side", "difference"},
                                      session.difference ? 1 : 0) == 1);
    top += 32;
    if (session.difference) return draw_difference(context, {whole.x0, top, whole.x1, whole.y1});
  }
  if (!session.comparison.headline.empty()) {
    const float width = whole.width() - 4;
    const ImFont* font = text_width(context.fonts.title, session.comparison.headline) <= width
                             ? context.fonts.title
                             : context.fonts.text;
    top += draw_wrapped(font, {whole.x0 + 2, top}, width, context.palette.text,
                        session.comparison.headline) +
           8;
  }
  ImGui::SetCursorScreenPos({whole.x0, top});
  const ImVec2 room(whole.width(), whole.y1 - top);
  draw_child("columns", room, ImGuiWindowFlags_HorizontalScrollbar, [&] {
    const Box box = content_box();
    int ranks = 1;
    bool backward = false;
    for (const Document& document : session.documents) {
      ranks = std::max(ranks, document.trace.rank_count());
      backward |= document.axis.steps() > document.axis.forward_steps();
    }
    const auto layout_in = [&](float width) {
      return compare_layout(box.min(), {width, room.y}, session.documents.size(), ranks,
                            session.comparison.figures.size(), backward);
    };
    CompareLayout layout = layout_in(room.x);
    if (layout.height > room.y) layout = layout_in(room.x - ImGui::GetStyle().ScrollbarSize);
    const CompareScale scale = scale_of(session);
    draw_names(context, layout);
    for (std::size_t i = 0; i < session.documents.size(); ++i)
      draw_compare_card(context, i, layout.columns[i], layout.ruler_y, scale);
    draw_table(context, layout);
    ImGui::SetCursorScreenPos(box.min());
    ImGui::Dummy({layout.width, layout.height - 1});
  });
}

}  // namespace ringscope::viz
