// Draws recordings side by side, at equal heights and scales, so that differences stand out. A
// sentence above them gives the result, and a table below them their figures.
#include "viz/panels/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/ring/ring.h"
#include "viz/data/session/format.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {

namespace {

constexpr float kStripRuler = 24, kRowPad = 3;

// The scale that all columns share, so that equal colours and lengths mean the same in each.
struct CompareScale {
  double largest_pairs = 1;  // of any cell of any recording
  int ranks = 1;             // the most of any recording
  bool backward = false;     // any recording has steps of both passes
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
  if (ring == rings.size()) return title_of(session.documents[index].trace);
  const std::vector<std::string>& names = session.comparison.names;  // none of a single recording
  return ring < names.size() ? names[ring] : session.documents[index].trace.info.partition;
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

// Draw the name of a recording. A click shows that recording alone.
void draw_title(const PanelContext& context, std::size_t index, const Box& box,
                const CompareScale&) {
  Session& session = context.session;
  const Trace& trace = session.documents[index].trace;
  const Palette& palette = context.palette;
  const Touch touched = touch("title", box);
  if (touched.hovered) fill(box, with_alpha(palette.text, 0.05), 8);
  draw_text(context.fonts.title, {box.x0, box.y0 + 2}, {0, 0}, palette.text,
            short_title(session, index), box.width());
  std::string about = trace.path;
  if (trace.is_ring)
    about = fmt::format("{} · {} · {} ranks{}", trace.info.mask, trace.info.dtype,
                        trace.ranks.size(), way_of(trace.info));
  draw_label(context, {box.x0, box.y0 + 26}, {0, 0}, about, box.width());
  if (touched.clicked) {
    session.activate(index);
    session.comparing = false;
  }
}

// Return the most telling figures, which stand in large type beside the mask.
std::vector<BigFigure> highlights(const PanelContext& context, const Document& document,
                                  const CompareScale& scale) {
  const Document& first = context.session.documents.front();
  const WorkTable& balance = document.balance;
  const double idle_ns = document.idle.ranks_ns() - document.idle.compute_ns();
  const double idle = idle_ns / std::max(document.idle.ranks_ns(), 1.0);
  const double pairs = balance.pairs_of_busiest(document.axis.forward_steps());
  const double first_pairs = first.balance.pairs_of_busiest(first.axis.forward_steps());
  const double more = first_pairs > 0 ? 100 * (pairs / first_pairs - 1) : 0;
  std::string change;
  if (scale.equal && std::abs(more) >= 0.5) change = fmt::format("{:+.0f} %", more);
  const std::string ceiling = percent_text(balance.balance_ceiling);
  const bool tells = scale.equal && scale.best_ceiling != scale.worst_ceiling;
  const Color color = tells && ceiling == scale.best_ceiling    ? context.palette.accent
                      : tells && ceiling == scale.worst_ceiling ? context.palette.warning
                                                                : context.palette.text;
  return {{ceiling, "balance ceiling", "", "", color},
          {count_text(pairs), "busiest rank's pairs", "", change},
          {percent_text(idle), "of ranks' time idle"},
          {time_text(balance.wall_s * 1e9), "wall time"}};
}

void draw_mask_and_figures(const PanelContext& context, std::size_t index, const Box& box,
                           const CompareScale& scale) {
  const Session& session = context.session;
  const Document& document = session.documents[index];
  const Box mask{box.x0, box.y0, box.x0 + box.height(), box.y1};
  if (document.mask)
    draw_mask_picture(context,
                      {fmt::format("compare mask {}", index), index, session.look.mask_order,
                       session.selected_rank},
                      mask);
  else
    draw_empty(context, mask, "no mask", "not recorded in this trace");
  if (document.balance.ranks > 0)
    draw_figures(context, highlights(context, document, scale), {mask.x1 + 16, box.y0 - 3},
                 box.x1 - mask.x1 - 16, box.height());
}

void draw_heat(const PanelContext& context, std::size_t index, const Box& box,
               const CompareScale& scale) {
  Session& session = context.session;
  const Document& document = session.documents[index];
  if (document.balance.ranks == 0) return;
  HeatLayout layout{box, document.balance.ranks, document.balance.steps};
  layout.box.x0 += 56;
  layout.box.y0 += scale.backward ? 36 : 20;
  HeatPaint paint{.has_scale = false};
  paint.slot = fmt::format("compare pairs {}", index);
  paint.largest = scale.largest_pairs;
  paint.current_step = session.step_now(index);
  if (const auto hit = draw_heatmap(context, index, layout, document.balance, paint))
    draw_slot_tooltip(context, index, hit->first, hit->second);
}

void draw_strip(const PanelContext& context, std::size_t index, const Box& box,
                const CompareScale& scale) {
  const Document& document = context.session.documents[index];
  draw_timeline_strip_ruler(context, document, {box.x0 - 8, box.y0, box.x1, box.y0 + kStripRuler},
                            scale.view);
  draw_timeline_strip(context, document, fmt::format("timeline.strip{}", index),
                      {box.x0 - 8, box.y0 + kStripRuler, box.x1, box.y1}, scale.view);
}

CompareScale scale_of(const Session& session) {
  CompareScale scale;
  double longest = 0, lowest = 2, highest = -1;
  for (const Document& document : session.documents) {
    longest = std::max(longest, document.axis.length(session.axis_mode));
    scale.ranks = std::max(scale.ranks, document.trace.rank_count());
    scale.backward |= document.axis.steps() > document.axis.forward_steps();
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

// Draw what a row shows. Return where the words end.
float draw_name(const PanelContext& context, const Box& box, std::string_view title,
                std::string_view text) {
  const float high =
      draw_wrapped(context.fonts.text, box.min(), box.width(), context.palette.text, title);
  return box.y0 + high +
         draw_wrapped(context.fonts.small, {box.x0, box.y0 + high}, box.width(),
                      context.palette.text_dim, text);
}

// Draw the same figure of every recording in a line. The best one stands out.
void draw_figure_row(const PanelContext& context, const ComparedFigure& figure) {
  const Session& session = context.session;
  const Palette& palette = context.palette;
  const std::vector<std::size_t> rings = session.rings();
  const float line = ImGui::GetTextLineHeight();
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const Box name = content_box();
  draw_label(context, {name.x0, name.y0 + line / 2}, {0, 0.5f}, figure.name, name.width());
  ImGui::Dummy({1, line});
  // Only our own recordings have figures.
  for (std::size_t ring = 0; ring < std::min(rings.size(), figure.texts.size()); ++ring) {
    ImGui::TableSetColumnIndex(static_cast<int>(rings[ring]) + 1);
    const Box box = content_box();
    const float middle = box.y0 + line / 2;
    const std::string& value = figure.texts[ring];
    // A figure that reads the same as the best is equally good.
    const bool best = figure.best >= 0 && value == figure.texts[figure.best];
    if (best) draw_list().AddCircleFilled({box.x0 + 2, middle}, 2.5f, palette.accent, 12);
    draw_text(context.fonts.mono, {box.x0 + 12, middle}, {0, 0.5f},
              best ? palette.accent : palette.text, value);
    draw_text(context.fonts.small, {box.x1 - 4, middle}, {1, 0.5f},
              best ? palette.accent : palette.text_dim, figure.ratios[ring]);
  }
}

// Draw the recordings in columns. Mask and timeline share the height that the other rows leave.
void draw_columns(const PanelContext& context, ImVec2 room) {
  constexpr float kTitle = 40, kLeastColumn = 216, kMostColumn = 720, kPad = 10, kGap = 4;
  Session& session = context.session;
  const auto count = static_cast<int>(session.documents.size());
  const CompareScale scale = scale_of(session);
  const float names = room.x >= 900 ? 194.0f : 106.0f;
  const float free = room.x - names - ImGui::GetStyle().ScrollbarSize;
  const float wide =
      std::clamp(free / static_cast<float>(count) - 2 * kPad - 1, kLeastColumn, kMostColumn);
  const float ranks = static_cast<float>(scale.ranks);
  const float heat = (scale.backward ? 36 : 20) + std::clamp(18 * ranks, 20.0f, 128.0f);
  const float line = ImGui::GetTextLineHeight() + 2 * kRowPad;
  const float figures = line * static_cast<float>(session.comparison.figures.size());
  const float left = room.y - kTitle - heat - kStripRuler - figures - 8 * (kRowPad + kGap) - 2;
  const float mask = std::floor(std::clamp(left * 0.6f, 84.0f, std::min(wide * 0.6f, 300.0f)));
  const float strip =
      std::floor(std::clamp(left - mask, std::clamp(14 * ranks, 34.0f, 112.0f), 240.0f));

  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, ImVec2(kPad, kRowPad));
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
                                     ImGuiTableFlags_BordersInner | ImGuiTableFlags_NoPadOuterX;
  if (ImGui::BeginTable("recordings", 1 + count, kFlags, room)) {
    ImGui::TableSetupScrollFreeze(1, 0);
    ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, names);
    for (int i = 0; i < count; ++i)
      ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, wide);
    const struct {
      float height;
      const char *name, *about;
      void (*draw)(const PanelContext&, std::size_t, const Box&, const CompareScale&);
    } rows[] = {
        {kTitle, "", "", draw_title},
        {mask, "Mask",
         session.look.mask_order == MaskOrder::local
             ? "queries down, keys across, rank by rank; colour: owner of the key"
             : "queries down, keys across, by position; colour: owner of the key",
         draw_mask_and_figures},
        {heat, "Pairs", "by rank and step; stronger is more", draw_heat},
        {kStripRuler + strip, "Timeline",
         session.axis_mode == AxisMode::time ? "on one clock" : "by ring step", draw_strip}};
    for (const auto& row : rows) {
      ImGui::TableNextRow();
      for (int i = -1; i < count; ++i) {
        ImGui::TableNextColumn();
        const Box all = content_box();
        const Box box{all.x0, all.y0 + kGap, all.x1, all.y0 + kGap + row.height};
        ImGui::PushID(i);
        if (i >= 0) {
          row.draw(context, static_cast<std::size_t>(i), box, scale);
        } else {
          const float below = draw_name(context, box, row.name, row.about);
          if (row.draw == draw_mask_and_figures)
            choose_mask_order(context, {box.x0 - 4, below + 8}, {"global", "local"});
          if (row.draw == draw_heat)
            draw_heat_scale(context, {box.x0, below + 8}, {.largest = scale.largest_pairs});
        }
        ImGui::PopID();
        ImGui::Dummy({1, row.height + 2 * kGap});
      }
    }
    for (const ComparedFigure& figure : session.comparison.figures)
      draw_figure_row(context, figure);
    ImGui::EndTable();
  }
  ImGui::PopStyleVar();
}

// ---
// Shows two recordings as one: a waterfall of causes from the wall time of the first to that of the
// other, and by how much the slices of the same rank, pass and step have changed.

constexpr float kPartLine = 30, kPartBar = 18;

// Draw the waterfall from `top_left`. Return its height.
float draw_waterfall(const PanelContext& context, ImVec2 top_left, float width,
                     const Difference& difference, const std::string& from, const std::string& to) {
  const Palette& palette = context.palette;
  ImFont* font = context.fonts.text;
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
  const WorkTable& change = difference.change;
  const std::vector<double> zero(static_cast<std::size_t>(change.steps), 0);
  HeatLayout layout{{box.x0 + 62, box.y0 + 64, box.x1, box.y1 - 60}, change.ranks, change.steps};
  layout.box.y1 = std::min(layout.box.y1, layout.box.y0 + 28 * static_cast<float>(change.ranks));
  HeatPaint paint{.slot = "difference", .metric = kHeatMetrics[choose_metric(context, box.min())]};
  for (const WorkCell& cell : change.cells)
    paint.largest = std::max(paint.largest, std::abs(paint.metric.of(cell)));
  paint.usual = &zero;
  paint.first = session.documents.front().number;
  const auto hit = draw_heatmap(context, other, layout, change, paint);
  std::string legend = "orange: more than in the first recording; blue: less";
  if (difference.unpaired > 0)
    legend += fmt::format("; without a partner in the other run: {} (another block, or no slice)",
                          counted(difference.unpaired, "slice"));
  draw_wrapped(context.fonts.small, {layout.box.x0, layout.box.y1 + 28}, layout.box.width(),
               context.palette.text_dim, legend);
  if (hit) draw_slot_tooltip(context, other, hit->first, hit->second);
  return layout.box.y1 + 64 - box.y0;
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
  y += 16 + draw_headline(context, {box.x0 + 2, y}, box.width() - 4, context.palette.text,
                          difference.headline);
  const float left = std::floor(box.width() * 0.42f);
  float below = draw_waterfall(context, {box.x0 + 2, y}, left - 20, difference, comparison.names[0],
                               comparison.names[at]);
  below = y + std::max(below, draw_change(context, {box.x0 + left + 20, y, box.x1, box.y1},
                                          difference, rings[at]));
  if (!session.comparing) return;
  const auto strip = [&](std::size_t ring, const char* slot) {
    const Document& document = session.documents[rings[ring]];
    return TimelineStrip{&document, slot, comparison.names[ring], "",
                         time_text(document.trace.wall_ns())};
  };
  const TimelineStrip first = strip(0, "timeline.from"), second = strip(at, "timeline.to");
  const auto length = [&](const TimelineStrip& each) {
    return each.document->axis.length(session.axis_mode);
  };
  draw_timelines(context, {box.x0, below, box.x1, box.y1}, {first, second},
                 fitted(std::max(length(first), length(second))));
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
    constexpr float kTabs = 162;
    draw_text(context.fonts.text, {whole.x0 + kTabs, top + 11}, {0, 0.5f}, context.palette.text,
              session.comparison.remark, whole.width() - kTabs);
    top += 32;
    if (session.difference) return draw_difference(context, {whole.x0, top, whole.x1, whole.y1});
  }
  if (!session.comparison.headline.empty())
    top += 8 + draw_headline(context, {whole.x0 + 2, top}, whole.width() - 4, context.palette.text,
                             session.comparison.headline);
  ImGui::SetCursorScreenPos({whole.x0, top});
  draw_columns(context, {whole.width(), whole.y1 - top});
}

}  // namespace ringscope::viz
