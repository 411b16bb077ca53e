// Shows who had how much work, what it cost, and why: findings in words, a heat map of rank x step,
// and every rank's time as a bar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "viz/data/session/format.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

constexpr float kBalancePad = 10, kBalanceWide = 640;
constexpr const char* kHeatHeading = "Work by rank and step";

// Return how high a finding is, with the line of what can be done about it.
float finding_height(const PanelContext& context, const Finding& finding, float width) {
  const bool links = finding.show || !finding.settings.empty();
  return wrapped_height(context.fonts.text, width - 14, finding.text) + (links ? 24.0f : 4.0f);
}

// Draw a finding as a paragraph behind a dot and before what can be done about it. Return its height.
float draw_finding(const PanelContext& context, const Finding& finding, ImVec2 at, float width) {
  Session& session = context.session;
  draw_list().AddCircleFilled({at.x + 3, at.y + 9}, 2.5f, context.palette.accent, 12);
  const ImVec2 text(at.x + 14, at.y);
  const float high =
      draw_wrapped(context.fonts.text, text, width - 14, context.palette.text, finding.text);
  float x = text.x;
  const auto link = [&](const char* words) {
    const float y = at.y + high + 2;
    const Box box{x, y, x + text_width(context.fonts.small, words), y + 16};
    const Touch touched = touch(words, box);
    draw_text(context.fonts.small, box.min(), {0, 0},
              touched.hovered ? context.palette.text : context.palette.accent, words);
    x = box.x1 + 16;
    return touched.clicked;
  };
  ImGui::PushID(&finding);
  if (finding.show && link("Show me")) session.reveal(*finding.show, true);
  if (!finding.settings.empty() && link("Try it")) session.try_settings(finding.settings);
  ImGui::PopID();
  return finding_height(context, finding, width);
}

std::vector<BigFigure> figures_of(const WorkTable& balance) {
  return {
      {fmt::format("{:.2f}", balance.imbalance), "imbalance",
       "The pairs of the rank with the most, divided by those of the mean rank."},
      {balance.predicted ? fmt::format("{} / {}", percent_text(balance.predicted_balance_ceiling),
                                       percent_text(balance.balance_ceiling))
                         : percent_text(balance.balance_ceiling),
       balance.predicted ? "balance ceiling, predicted / counted" : "balance ceiling",
       meaning_of("balance ceiling")},
      {percent_text(balance.measured_balance_ceiling), "of processor time",
       "The balance ceiling of the measured processor time instead of the pairs."},
      {time_text(balance.exposed_s * 1e9), "exposed communication",
       meaning_of("exposed communication") + " This is the rank with the most of it."},
      {time_text(balance.wall_s * 1e9), "wall time",
       "From the first slice of any rank to the end of the last."}};
}

// Return whether the story has just pointed at the pictures. Its words can be read at any time.
bool just_told(const Session& session) {
  const bool told =
      session.pointed_at() != nullptr && session.pointed_at()->figure == Figure::balance;
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID key = ImGui::GetID("told");
  const int paragraph = told ? session.telling.at : -1;
  if (storage.GetInt(key, -1) == paragraph) return false;
  storage.SetInt(key, paragraph);
  return told;
}

// Where the tabs and the cells of the heat map lie, from the section's top left.
struct HeatPlace {
  ImVec2 tabs;
  float cells = 0;
  float least = 0, most = 0;  // height of the cells
};

// Return the ranks of which anything was recorded.
std::vector<int> recorded_ranks(const WorkTable& balance) {
  std::vector<int> ranks;
  for (int rank = 0; rank < balance.ranks; ++rank)
    if (balance.recorded[rank]) ranks.push_back(rank);
  return ranks;
}

HeatPlace heat_place(const PanelContext& context, const Document& document, float width) {
  constexpr float kTabs = 250, kLabels = 49, kPass = 14;
  const float heading = text_width(context.fonts.text, kHeatHeading) + 12;
  const ImVec2 tabs = heading + kTabs <= width ? ImVec2(heading, -1) : ImVec2(0, 24);
  const WorkTable& balance = document.balance;
  const int ranks = recorded_ranks(balance).size();
  const float pass = document.axis.forward_steps() < balance.steps ? kPass : 0;
  return {tabs, tabs.y + kLabels + pass, ranks <= 8 ? 16.0f * ranks : 96,
          ranks <= 8 ? 28.0f * ranks : std::clamp(20.0f * ranks, 260.0f, 320.0f)};
}

// Draw the heat map in at most `room` pixels, but never lower than it can be read. Return the height.
float draw_heat_section(const PanelContext& context, const Document& document, ImVec2 at,
                        float width, float room) {
  Session& session = context.session;
  const WorkTable& balance = document.balance;
  const HeatPlace place = heat_place(context, document, width);
  draw_text(context.fonts.text, {at.x, at.y + 10}, {0, 0.5f}, context.palette.text, kHeatHeading);
  const int shown = choose_metric(context, {at.x + place.tabs.x, at.y + place.tabs.y});

  const float gutter =
      text_width(context.fonts.small, fmt::format("rank {}", balance.ranks - 1)) + 10;
  const float top = at.y + place.cells;
  HeatLayout layout;
  layout.order = recorded_ranks(balance);
  layout.ranks = layout.order.size();
  layout.steps = balance.steps;
  // Few steps are not stretched: a cell is no wider than its numbers need.
  const float right = std::min(at.x + width, at.x + gutter + 110.0f * balance.steps);
  layout.box = {at.x + gutter, top, right,
                top + std::clamp(room - place.cells - kHeatScale, place.least, place.most)};
  HeatPaint paint;
  paint.slot = "balance";
  paint.metric = kHeatMetrics[shown];
  paint.largest = paint.metric.largest(balance);
  if (session.marks_now()) paint.current_step = session.step_now(session.active);
  const auto hit = draw_heatmap(context, session.active, layout, balance, paint);
  if (hit) draw_cell_tooltip(context, document, hit->first, hit->second);
  return layout.box.y1 + kHeatScale + 6 - at.y;
}

// ---
// Every rank's wall time as one bar: its computing, and the causes that took up the rest.

constexpr float kMaxBar = 20, kMinBar = 3;

float bar_pitch(std::size_t ranks) {
  if (ranks <= 8) return kMaxBar + 6;
  return std::max(200.0f / ranks, kMinBar + 1);
}

// A part of the ranks' time, with its name, its colour and its share of all ranks' time.
struct TimePart {
  std::string name;
  Color color;
  std::function<std::int64_t(const RankIdle&)> of;
  double share = 0;
};

// Return the parts that there are, in the order of the bars. What ranks idle for a cause is not what the
// run would be shorter by without it, which findings tell.
std::vector<TimePart> parts_of(const PanelContext& context, const IdleReport& idle) {
  const Palette& palette = context.palette;
  std::vector<TimePart> parts = {{"computing", mix(palette.panel, palette.accent, 0.85),
                                  [](const RankIdle& rank) { return rank.compute; }}};
  const Color colors[kCauseCount] = {palette.warning,
                                     palette.of(Lane::communication),
                                     palette.of(Lane::recv),
                                     owner_color(context.session.look.theme, 5, 8),
                                     owner_color(context.session.look.theme, 3, 8),
                                     owner_color(context.session.look.theme, 6, 8),
                                     owner_color(context.session.look.theme, 2, 8),
                                     owner_color(context.session.look.theme, 1, 8),
                                     palette.warning};
  for (std::size_t i = 0; i < kCauseCount; ++i)
    parts.push_back({"idle: " + words_of(static_cast<Cause>(i)), colors[i],
                     [i](const RankIdle& rank) { return rank.by_cause[i]; }});
  parts.push_back({"idle: transfers", mix(palette.panel, palette.of(Lane::recv), 0.55),
                   [](const RankIdle& rank) { return rank.hops; }});
  parts.push_back({"idle: waiting in vain", palette.warning,
                   [](const RankIdle& rank) { return rank.in_vain; }});
  parts.push_back({"idle: not explained", mix(palette.panel, palette.text_dim, 0.45),
                   [](const RankIdle& rank) { return rank.rest; }});
  for (TimePart& part : parts) part.share = idle.total(part.of) / std::max(idle.ranks_ns(), 1.0);
  std::erase_if(parts, [](const TimePart& part) { return part.share < 5e-4; });
  return parts;
}

void tooltip(const PanelContext& context, const IdleReport& idle,
             const std::vector<TimePart>& parts, int rank) {
  const RankIdle& rank_idle = idle.ranks[rank];
  const double wall = std::max(static_cast<double>(idle.wall_ns), 1.0);
  Pairs rows;
  for (const TimePart& part : parts)
    rows.emplace_back(part.name, fmt::format("{}   {}", time_text(part.of(rank_idle)),
                                             percent_text(part.of(rank_idle) / wall)));
  rows.emplace_back("wall", time_text(idle.wall_ns));
  rows.emplace_back("waited in all", time_text(rank_idle.wait_ns));
  if (!rank_idle.waited_for.empty())
    rows.emplace_back("longest for", (rank_idle.waited_for.size() > 1 ? "each of " : "") +
                                         words_of_ranks(rank_idle.waited_for));
  draw_tooltip(context, fmt::format("rank {}", rank), rows);
}

// Draw the bars and their legend from `top_left`. Return their height. A click on a bar selects its
// rank.
float draw_idle(const PanelContext& context, const IdleReport& idle, ImVec2 top_left, float width) {
  std::vector<int> shown;  // of many ranks a simulation records some
  for (int rank = 0; rank < static_cast<int>(idle.ranks.size()); ++rank)
    if (idle.ranks[rank].recorded) shown.push_back(rank);
  if (shown.empty()) return 0;
  const std::vector<TimePart> parts = parts_of(context, idle);
  std::vector<Swatch> swatches;
  for (const TimePart& part : parts)
    swatches.push_back({part.color, fmt::format("{} {}", part.name, percent_text(part.share))});
  float y = top_left.y + draw_legend(context.fonts, context.palette, top_left, width, swatches);
  const int ranks = shown.size();
  const float pitch = bar_pitch(shown.size());
  const bool print = context.session.panels.print;
  const float height = y - top_left.y + pitch * ranks + (print ? 16.0f : 0.0f);
  if (width < 20) return height;
  const Palette& palette = context.palette;
  ImFont* font = context.fonts.small;

  const float gap = pitch > 12 ? 6 : 1;
  const float gutter = text_width(font, fmt::format("rank {}", shown.back())) + 10;
  const Box bars{top_left.x + gutter, y, top_left.x + width, y + pitch * ranks};
  const double wall = std::max(static_cast<double>(idle.wall_ns), 1.0);
  const int every = std::max(1, static_cast<int>(std::ceil(15 / pitch)));
  const float seen_from = draw_list().GetClipRectMin().y, seen_to = draw_list().GetClipRectMax().y;
  for (int row = 0; row < ranks; ++row, y += pitch) {
    const int rank = shown[row];
    if (y + pitch < seen_from || y > seen_to) continue;
    const Box bar{bars.x0, y, bars.x1, y + pitch - gap};
    double done = 0;
    for (const TimePart& part : parts) {
      const double from = done;
      done += part.of(idle.ranks[rank]);
      const float x0 = bar.x0 + bar.width() * static_cast<float>(from / wall);
      const float x1 = bar.x0 + bar.width() * static_cast<float>(done / wall);
      if (x1 - x0 > 0.1f) fill({x0, bar.y0, x1, bar.y1}, part.color);
    }
    const bool selected = context.session.selected_rank == rank;
    if (selected)
      outline({bar.x0 - 2, bar.y0 - 2, bar.x1 + 2, bar.y1 + 2}, palette.selection, 3, 1.5f);
    if (row % every == 0)
      draw_text(font, {top_left.x, bar.center().y}, {0, 0.5f},
                selected ? palette.text : palette.text_dim,
                row == 0 || every == 1 ? fmt::format("rank {}", rank) : std::to_string(rank));
  }
  if (print) {
    draw_label(context, {bars.x0, y}, {0, 0}, "0");
    draw_label(context, {bars.x1, y}, {1, 0}, time_text(idle.wall_ns));
  }
  const Touch touched = touch("losses", bars);
  const int rank = shown[std::clamp(static_cast<int>((ImGui::GetIO().MousePos.y - bars.y0) / pitch),
                                    0, ranks - 1)];
  if (touched.clicked) context.session.select_rank(rank);
  if (touched.hovered) tooltip(context, idle, parts, rank);
  return height;
}

}  // namespace

void draw_balance(const PanelContext& context) {
  const Document& document = context.session.document();
  const Box whole = content_box();
  if (whole.width() < 60 || whole.height() < 40) return;
  if (document.balance.ranks == 0) {
    draw_empty(context, whole, "No work to compare in this trace",
               "Recordings made with --trace show here who had how much to do, and why ranks "
               "waited.");
    return;
  }
  draw_child("balance", {0, 0}, 0, [&] {
    const Box box = content_box();
    const float width = box.width() - 2 * kBalancePad, left = box.x0 + kBalancePad;
    const bool wide = width >= kBalanceWide;
    const float half = wide ? (width - 32) / 2 : width;
    const float end = box.y0 + ImGui::GetWindowHeight();  // of what is seen without scrolling
    const HeatPlace place = heat_place(context, document, half);
    const float heat = place.cells + place.least + kHeatScale;
    float y = box.y0 + kBalancePad;

    // The first screen shows the first finding and the heat map, then what else it has room for.
    std::size_t shown = 0;
    const auto draw_findings = [&](float until) {
      for (; shown < document.findings.size(); ++shown) {
        const Finding& finding = document.findings[shown];
        if (shown > 0 && y + finding_height(context, finding, width) > until) return false;
        y += draw_finding(context, finding, {left, y}, width);
      }
      return true;
    };
    const float figures = wide ? 54.0f : 100.0f;
    const bool print = context.session.panels.print;  // where the text around it says this
    const bool above = print || (draw_findings(end - heat - 10) && y + 14 + figures + heat <= end);
    y += 10;
    if (above && !print)
      y += draw_figures(context, figures_of(document.balance), {left, y}, width) + 4;
    if (just_told(context.session)) ImGui::SetScrollY(y - box.y0 - kBalancePad);
    float loss_y = y;
    y += draw_heat_section(context, document, {left, y}, half, end - y - kBalancePad);
    if (!wide) loss_y = y;
    if (!wide && !above) {
      draw_findings(FLT_MAX);
      loss_y = y += draw_figures(context, figures_of(document.balance), {left, y + 10}, width) + 14;
    }
    const ImVec2 losses(wide ? left + half + 32 : left, loss_y);
    draw_text(context.fonts.text, losses, {0, 0}, context.palette.text,
              "Where each rank's time went");
    loss_y += 30 + draw_idle(context, document.idle, {losses.x, loss_y + 30}, half);
    y = std::max(y, loss_y);
    if (wide && !above) {
      draw_findings(FLT_MAX);
      y += draw_figures(context, figures_of(document.balance), {left, y + 10}, width) + 14;
    }
    ImGui::Dummy({1, y + kBalancePad - box.y0});
  });
}

}  // namespace ringscope::viz
