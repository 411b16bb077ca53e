// Shows who had how much work, what it cost, and why: findings in words, a heat map of rank x step,
// and every rank's time as a bar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/balance/idle_bars.h"
#include "viz/panels/drawing.h"
#include "viz/panels/format.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

constexpr float kBalancePad = 10, kBalanceWide = 640;
const std::vector<std::string> kMetrics = {"pairs", "FLOPs", "time", "waiting"};

float heading(const PanelContext& context, ImVec2 at, std::string_view text) {
  draw_text(*ImGui::GetWindowDrawList(), context.fonts.text, at, {0, 0}, context.palette.text,
            text);
  return 26;
}

// Draw the findings, one sentence per paragraph, each behind a dot.
float draw_findings(const PanelContext& context, const Document& document, ImVec2 at, float width) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  float y = at.y;
  for (const std::string& sentence : document.findings) {
    list.AddCircleFilled({at.x + 3, y + 9}, 2.5f, context.palette.accent, 12);
    y += draw_wrapped(list, context.fonts.text, {at.x + 14, y}, width - 14, context.palette.text,
                      sentence) +
         4;
  }
  return y - at.y;
}

// Draw the figures in a row, as large values over small names.
float draw_figures(const PanelContext& context, const Balance& balance, ImVec2 at, float width) {
  const std::pair<std::string, std::string> figures[] = {
      {fmt::format("{:.2f}", balance.imbalance), "imbalance"},
      {balance.predicted ? fmt::format("{} / {}", percent_text(balance.predicted_balance_ceiling),
                                       percent_text(balance.balance_ceiling))
                         : percent_text(balance.balance_ceiling),
       balance.predicted ? "balance ceiling, predicted / counted" : "balance ceiling"},
      {percent_text(balance.measured_balance_ceiling), "of processor time"},
      {time_text(balance.exposed_s * 1e9), "exposed communication"},
      {time_text(balance.wall_s * 1e9), "wall time"}};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  float x = at.x, y = at.y;
  for (const auto& [value, name] : figures) {
    const float wide =
        std::max(text_width(context.fonts.title, value), text_width(context.fonts.small, name));
    if (x > at.x && x + wide > at.x + width) {
      x = at.x;
      y += 46;
    }
    draw_text(list, context.fonts.title, {x, y}, {0, 0}, context.palette.text, value);
    draw_text(list, context.fonts.small, {x, y + 24}, {0, 0}, context.palette.text_dim, name);
    x += wide + 24;
  }
  return y - at.y + 50;
}

void cell_tooltip(const PanelContext& context, const Balance& balance, int forward, int rank,
                  int step) {
  const Cell& cell = balance.at(rank, step);
  const bool backward = step >= forward;
  Pairs rows = {{"pairs counted", count_text(static_cast<double>(cell.pairs))}};
  if (balance.predicted)
    rows.emplace_back("pairs predicted",
                      cell.pairs == cell.predicted_pairs
                          ? "the same"
                          : count_text(static_cast<double>(cell.predicted_pairs)));
  rows.emplace_back("work", flops_text(static_cast<double>(cell.flops)));
  rows.emplace_back("time", time_text(static_cast<double>(cell.compute_ns)));
  rows.emplace_back("processor time", time_text(static_cast<double>(cell.cpu_ns)));
  if (cell.compute_ns > 0 && cell.flops > 0)
    rows.emplace_back("speed", flops_text(static_cast<double>(cell.flops) * 1e9 /
                                          static_cast<double>(cell.compute_ns)) +
                                   "/s");
  rows.emplace_back("waiting", time_text(static_cast<double>(cell.wait_ns)));
  draw_tooltip(context,
               fmt::format("rank {}, step {}{}", rank, backward ? step - forward : step,
                           backward ? " backward" : ""),
               rows);
}

// Return whether the story has just pointed at the pictures. Its words can be read at any time.
bool just_told(const Session& session) {
  const bool told =
      session.story_shown() && session.pointing && session.story_at >= 0 &&
      session.story()[static_cast<std::size_t>(session.story_at)].figure == Figure::balance;
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID key = ImGui::GetID("told");
  const int paragraph = told ? session.story_at : -1;
  if (storage.GetInt(key, -1) == paragraph) return false;
  storage.SetInt(key, paragraph);
  return told;
}

// Go to the cell's step, and select its slice, or only its rank if the cell has no slice.
void choose(Session& session, int rank, int step) {
  session.seek_step(step);
  if (const auto slice = compute_slice(session.document(), rank, step))
    session.select(slice);
  else
    session.select_rank(rank);
}

float draw_heat_section(const PanelContext& context, const Document& document, ImVec2 at,
                        float width) {
  Session& session = context.session;
  const Balance& balance = document.balance;
  const int forward = document.axis.forward_steps();
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID key = ImGui::GetID("metric");
  const int shown = draw_tabs(context, "metrics", at, kMetrics, storage.GetInt(key, 0));
  storage.SetInt(key, shown);

  const float gutter =
      text_width(context.fonts.small, fmt::format("rank {}", balance.ranks - 1)) + 10;
  const float top = at.y + (forward < balance.steps ? 64.0f : 50.0f);
  const float pitch = balance.ranks <= 8 ? 28.0f
                      : balance.ranks <= 16
                          ? 20.0f
                          : std::max(260.0f / static_cast<float>(balance.ranks), 4.0f);
  HeatLayout layout;
  layout.ranks = balance.ranks;
  layout.steps = balance.steps;
  // Few steps are not stretched: a cell is no wider than its numbers need.
  const float right =
      std::min(at.x + width, at.x + gutter + 110.0f * static_cast<float>(balance.steps));
  layout.box = {at.x + gutter, top, right, top + pitch * static_cast<float>(balance.ranks)};
  HeatPaint paint;
  paint.slot = "balance";
  paint.metric = static_cast<HeatMetric>(shown);
  paint.largest = largest_value(balance, paint.metric);
  paint.forward_steps = forward;
  paint.current_step = common_step(session.moment(session.active));
  paint.selected_rank = session.selected_rank;
  paint.predictions = paint.metric != HeatMetric::waiting;
  draw_heatmap(context, layout, balance, paint);
  draw_heat_labels(context, layout, forward);

  const Touch touched = touch("cells", layout.box);
  float bottom = layout.box.y1 + 6;
  if (paint.predictions && balance.predicted) {
    bottom += draw_wrapped(*ImGui::GetWindowDrawList(), context.fonts.small,
                           {at.x + gutter, bottom}, width - gutter, context.palette.text_dim,
                           "line: measured · tick: predicted from the mask, both as a share of "
                           "the largest");
  }
  if (const auto hit = layout.at(ImGui::GetIO().MousePos)) {
    if (touched.clicked) choose(session, hit->first, hit->second);
    if (touched.hovered) cell_tooltip(context, balance, forward, hit->first, hit->second);
  }
  return bottom - at.y + 12;
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
  ImGui::PushStyleColor(ImGuiCol_ChildBg, ImVec4(0, 0, 0, 0));
  ImGui::BeginChild("balance", {0, 0}, false);
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
  draw_idle(context, document.idle, {loss_x, loss_y}, half);
  loss_y += idle_height(context, document.idle, half);
  ImGui::Dummy({1, std::max(heat_y, loss_y) + kBalancePad - box.y0});
  ImGui::EndChild();
  ImGui::PopStyleColor();
}

}  // namespace ringscope::viz
