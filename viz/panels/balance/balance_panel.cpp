// Shows who had how much work, what it cost, and why: findings in words, a heat map of rank x step,
// and every rank's time as a bar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "viz/model/session/format.h"
#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

constexpr float kBalancePad = 10, kBalanceWide = 640;

float heading(const PanelContext& context, ImVec2 at, std::string_view text) {
  draw_text(context.fonts.text, at, {0, 0}, context.palette.text, text);
  return 26;
}

// Draw the findings, one sentence per paragraph, each behind a dot and before what can be done
// about it.
float draw_findings(const PanelContext& context, const Document& document, ImVec2 at, float width) {
  Session& session = context.session;
  float y = at.y;
  int number = 0;
  for (const Finding& finding : document.findings) {
    draw_list().AddCircleFilled({at.x + 3, y + 9}, 2.5f, context.palette.accent, 12);
    y += draw_wrapped(context.fonts.text, {at.x + 14, y}, width - 14, context.palette.text,
                      finding.text) +
         4;
    ++number;
    float x = at.x + 14;
    const auto link = [&](const char* text) {
      const Box box{x, y - 2, x + text_width(context.fonts.small, text), y + 14};
      const Touch touched = touch(fmt::format("{} {}", text, number).c_str(), box);
      draw_text(context.fonts.small, box.min(), {0, 0},
                touched.hovered ? context.palette.text : context.palette.accent, text);
      x = box.x1 + 16;
      return touched.clicked;
    };
    if (!finding.show && finding.settings.empty()) continue;
    if (finding.show && link("Show me")) session.reveal(*finding.show);
    const bool tried = !finding.settings.empty() && link("Try it");
    y += 20;
    if (!tried) continue;
    session.try_settings(finding.settings);
    break;  // the session has changed
  }
  return y - at.y;
}

// Draw the figures in a row, as large values over small names.
float draw_figures(const PanelContext& context, const WorkTable& balance, ImVec2 at, float width) {
  struct Figure {
    std::string value, name;
    const char* meaning;
  };
  const char* const ceiling =
      "The mean rank's work divided by the slowest rank's, summed over the steps: however fast the "
      "links are, ranks that begin each step together can't be busier.";
  const Figure figures[] = {
      {fmt::format("{:.2f}", balance.imbalance), "imbalance",
       "The pairs of the rank with the most, divided by those of the mean rank."},
      {balance.predicted ? fmt::format("{} / {}", percent_text(balance.predicted_balance_ceiling),
                                       percent_text(balance.balance_ceiling))
                         : percent_text(balance.balance_ceiling),
       balance.predicted ? "balance ceiling, predicted / counted" : "balance ceiling", ceiling},
      {percent_text(balance.measured_balance_ceiling), "of processor time",
       "The balance ceiling of the measured processor time instead of the pairs."},
      {time_text(balance.exposed_s * 1e9), "exposed communication",
       "The time that a rank waits for a block which is still on its way; of the rank with the "
       "most."},
      {time_text(balance.wall_s * 1e9), "wall time",
       "From the first slice of any rank to the end of the last."}};
  std::vector<float> widths;
  for (const auto& [value, name, meaning] : figures)
    widths.push_back(
        std::max(text_width(context.fonts.title, value), text_width(context.fonts.small, name)));
  const std::vector<ImVec2> places = in_lines(widths, width, 24, 46);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const float x = at.x + places[i].x, y = at.y + places[i].y;
    draw_text(context.fonts.title, {x, y}, {0, 0}, context.palette.text, figures[i].value);
    draw_label(context, {x, y + 24}, {0, 0}, figures[i].name);
    if (touch(figures[i].name.c_str(), {x, y, x + widths[i], y + 40}).hovered)
      draw_meaning(context, figures[i].meaning);
  }
  return places.back().y + 50;
}

// Return whether the story has just pointed at the pictures. Its words can be read at any time.
bool just_told(const Session& session) {
  const bool told =
      session.pointed_at() != nullptr && session.pointed_at()->figure == Figure::balance;
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID key = ImGui::GetID("told");
  const int paragraph = told ? session.story_at : -1;
  if (storage.GetInt(key, -1) == paragraph) return false;
  storage.SetInt(key, paragraph);
  return told;
}

float draw_heat_section(const PanelContext& context, const Document& document, ImVec2 at,
                        float width) {
  Session& session = context.session;
  const WorkTable& balance = document.balance;
  const int forward = document.axis.forward_steps();
  const int shown = choose_metric(context, at);

  const float gutter =
      text_width(context.fonts.small, fmt::format("rank {}", balance.ranks - 1)) + 10;
  const float top = at.y + (forward < balance.steps ? 64.0f : 50.0f);
  const float pitch = balance.ranks <= 8    ? 28.0f
                      : balance.ranks <= 16 ? 20.0f
                                            : 260.0f / static_cast<float>(balance.ranks);
  HeatLayout layout;
  layout.ranks = balance.ranks;
  layout.steps = balance.steps;
  // Few steps are not stretched: a cell is no wider than its numbers need.
  const float right =
      std::min(at.x + width, at.x + gutter + 110.0f * static_cast<float>(balance.steps));
  layout.box = {at.x + gutter, top, right, top + pitch * static_cast<float>(balance.ranks)};
  HeatPaint paint;
  paint.slot = "balance";
  paint.metric = kHeatMetrics[shown];
  paint.largest = paint.metric.largest(balance);
  paint.current_step = common_step(session.moment(session.active));
  paint.predictions = !paint.metric.is_waiting() && paint.metric.figure != &WorkCell::pace_ns;
  const auto hit = draw_heatmap(context, document, layout, balance, paint);
  float bottom = layout.box.y1 + 6;
  if (paint.predictions && balance.predicted) {
    bottom += draw_wrapped(context.fonts.small, {at.x + gutter, bottom}, width - gutter,
                           context.palette.text_dim,
                           "line: measured · tick: predicted from the mask, both as a share of "
                           "the largest");
  }
  if (hit && hit->clicked) {
    session.seek_step(hit->step);
    session.select_in_rank(compute_slice(document, hit->rank, hit->step), hit->rank);
  }
  if (hit && hit->hovered) draw_cell_tooltip(context, document, hit->rank, hit->step);
  return bottom - at.y + 12;
}

// ---
// Every rank's wall time as one bar: its computing, and the causes that took up the rest.

constexpr float kMaxBar = 20, kMinBar = 3;

float bar_pitch(std::size_t ranks) {
  if (ranks <= 8) return kMaxBar + 6;
  return std::max(200.0f / static_cast<float>(ranks), kMinBar + 1);
}

// A part of the ranks' time, with its name, its colour and its share of all ranks' time.
struct TimePart {
  std::string name;
  Color color;
  std::function<std::int64_t(const RankIdle&)> of;
  double share = 0;
};

// Return the parts that there are, in the order of the bars.
std::vector<TimePart> parts_of(const PanelContext& context, const IdleReport& idle) {
  const Palette& palette = context.palette;
  std::vector<TimePart> parts = {{"computing", mix(palette.panel, palette.accent, 0.85),
                                  [](const RankIdle& rank) { return rank.compute; }}};
  const Color colors[kCauseCount] = {palette.warning,
                                     palette.of(Kind::communication),
                                     palette.of(Kind::recv),
                                     owner_color(context.session.theme, 5, 8),
                                     owner_color(context.session.theme, 3, 8),
                                     owner_color(context.session.theme, 6, 8),
                                     owner_color(context.session.theme, 2, 8),
                                     palette.warning};
  for (std::size_t i = 0; i < kCauseCount; ++i)
    parts.push_back({words_of(static_cast<Cause>(i)), colors[i],
                     [i](const RankIdle& rank) { return rank.by_cause[i]; }});
  parts.push_back({"transfers", mix(palette.panel, palette.of(Kind::recv), 0.55),
                   [](const RankIdle& rank) { return rank.hops; }});
  parts.push_back({"not explained", mix(palette.panel, palette.text_dim, 0.45),
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
    rows.emplace_back(part.name,
                      fmt::format("{}   {}", time_text(part.of(rank_idle)),
                                  percent_text(static_cast<double>(part.of(rank_idle)) / wall)));
  rows.emplace_back("wall", time_text(idle.wall_ns));
  rows.emplace_back("waited in all", time_text(rank_idle.wait_ns));
  if (rank_idle.waited_for >= 0)
    rows.emplace_back("longest for", fmt::format("rank {}", rank_idle.waited_for));
  draw_tooltip(context, fmt::format("rank {}", rank), rows);
}

// Draw the bars and their legend from `top_left`. Return their height. A click on a bar selects its
// rank.
float draw_idle(const PanelContext& context, const IdleReport& idle, ImVec2 top_left, float width) {
  if (idle.ranks.empty()) return 0;
  const std::vector<TimePart> parts = parts_of(context, idle);
  std::vector<Swatch> swatches;
  for (const TimePart& part : parts)
    swatches.push_back({part.color, fmt::format("{} {}", part.name, percent_text(part.share))});
  float y = top_left.y + draw_legend(context.fonts, context.palette, top_left, width, swatches);
  const int ranks = static_cast<int>(idle.ranks.size());
  const float pitch = bar_pitch(idle.ranks.size());
  const float height = y - top_left.y + pitch * static_cast<float>(ranks);
  if (width < 20) return height;
  const Palette& palette = context.palette;
  const ImFont* font = context.fonts.small;

  const float gap = pitch > 12 ? 6 : 1;
  const float gutter = text_width(font, fmt::format("rank {}", ranks - 1)) + 10;
  const Box bars{top_left.x + gutter, y, top_left.x + width, y + pitch * static_cast<float>(ranks)};
  const double wall = std::max(static_cast<double>(idle.wall_ns), 1.0);
  const int every = std::max(1, static_cast<int>(std::ceil(15 / pitch)));
  const float seen_from = draw_list().GetClipRectMin().y, seen_to = draw_list().GetClipRectMax().y;
  for (int rank = 0; rank < ranks; ++rank, y += pitch) {
    if (y + pitch < seen_from || y > seen_to) continue;
    const Box bar{bars.x0, y, bars.x1, y + pitch - gap};
    double done = 0;
    for (const TimePart& part : parts) {
      const double from = done;
      done += static_cast<double>(part.of(idle.ranks[rank]));
      const float x0 = bar.x0 + bar.width() * static_cast<float>(from / wall);
      const float x1 = bar.x0 + bar.width() * static_cast<float>(done / wall);
      if (x1 - x0 > 0.1f) fill({x0, bar.y0, x1, bar.y1}, part.color);
    }
    const bool selected = context.session.selected_rank == rank;
    if (selected)
      outline({bar.x0 - 2, bar.y0 - 2, bar.x1 + 2, bar.y1 + 2}, palette.selection, 3, 1.5f);
    if (rank % every == 0)
      draw_text(font, {top_left.x, bar.center().y}, {0, 0.5f},
                selected ? palette.text : palette.text_dim,
                rank == 0 || every == 1 ? fmt::format("rank {}", rank) : std::to_string(rank));
  }
  const Touch touched = touch("losses", bars);
  const int rank =
      std::clamp(static_cast<int>((ImGui::GetIO().MousePos.y - bars.y0) / pitch), 0, ranks - 1);
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
    const float width = box.width() - 2 * kBalancePad;
    const float left = box.x0 + kBalancePad;
    float y = box.y0 + kBalancePad;
    y += draw_findings(context, document, {left, y}, width) + 10;
    y += draw_figures(context, document.balance, {left, y}, width) + 4;
    if (just_told(context.session)) ImGui::SetScrollY(y - box.y0 - kBalancePad);
    const bool wide = width >= kBalanceWide;
    const float half = wide ? (width - 32) / 2 : width;
    float heat_y = y + heading(context, {left, y}, "Work by rank and step");
    heat_y += draw_heat_section(context, document, {left, heat_y}, half);
    const float loss_x = wide ? left + half + 32 : left;
    float loss_y = wide ? y : heat_y + 6;
    loss_y += heading(context, {loss_x, loss_y}, "Where each rank's time went") + 4;
    loss_y += draw_idle(context, document.idle, {loss_x, loss_y}, half);
    ImGui::Dummy({1, std::max(heat_y, loss_y) + kBalancePad - box.y0});
  });
}

}  // namespace ringscope::viz
