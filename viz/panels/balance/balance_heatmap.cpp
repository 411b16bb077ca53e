#include "viz/panels/balance/balance_heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace ringscope::viz {
namespace {

constexpr float kNumberHeight = 16;

// Return the colour of a share in [-1, 1]. Keep zero apart from small values: a cell without work
// shows the empty ground. Of `differences`, small ones are quiet, and those below zero are cold.
Color heat_color(const Palette& palette, const HeatPaint& paint, double share) {
  const bool warm = paint.metric.is_waiting(), differences = paint.usual != nullptr;
  const Color strong = (differences ? share > 0 : warm) ? palette.warning : palette.accent;
  if (!differences) return heat_shade(palette, strong, share);
  return mix(heat_shade(palette, strong, 0), strong, 0.92 * std::min(std::abs(share), 1.0));
}

// Paint the cells, so that thousands cost no more than a few. A pixel of several cells shows the
// strongest of them, because what stands out must not drown among its neighbours.
void paint_cells(const PanelContext& context, const HeatLayout& layout, const WorkTable& balance,
                 const HeatPaint& paint, Image& image) {
  constexpr int kShades = 255;  // above zero, and as many below
  Color shades[2 * kShades + 1];
  for (int i = -kShades; i <= kShades; ++i)
    shades[i + kShades] = heat_color(context.palette, paint, i / static_cast<double>(kShades));
  // Return the first step that begins at pixel x or behind it.
  const auto step_from = [&](int x) {
    return static_cast<int>((static_cast<std::int64_t>(x) * layout.steps + image.width - 1) /
                            image.width);
  };
  const float pixel = layout.box.height() / image.height;
  const auto row_at = [&](int y) { return layout.row_at(layout.box.y0 + pixel * (y + 0.01f)); };
  const bool gap_x = image.width / layout.steps >= 6;
  int last = -1;  // row that the line above ends with
  for (int y = 0; y < image.height; ++y) {
    const int row = row_at(y);
    const int next = y + 1 < image.height ? row_at(y + 1) : layout.ranks;
    const bool gap_y = next != row && layout.cell(row, 0).height() >= 5;
    if (row == last && !gap_y && next <= row + 1) {
      std::copy_n(&image.at(0, y - 1), image.width, &image.at(0, y));
      continue;
    }
    last = gap_y ? -1 : row;
    for (int x = 0; x < image.width; ++x) {
      const int end = step_from(x + 1);
      int step = std::min(step_from(x), end - 1);
      const bool line = gap_x && step_from(x + 2) > end;
      double most = 0;
      for (; step < end; ++step)
        for (int r = row; r < std::max(next, row + 1); ++r) {
          const double value = paint.value_of(balance.at(layout.rank_of(r), step), step);
          if (std::abs(value) > std::abs(most)) most = value;
        }
      const double share = std::clamp(most / std::max(paint.largest, 1.0), -1.0, 1.0) * kShades;
      // The least share above zero is no empty ground.
      const double shade = share > 0 ? std::ceil(share) : std::floor(share);
      image.at(x, y) =
          line || gap_y ? context.palette.panel : shades[static_cast<int>(shade) + kShades];
    }
  }
}

void draw_heat_labels(const PanelContext& context, const HeatLayout& layout, int forward_steps) {
  if (layout.ranks == 0 || layout.steps == 0) return;
  ImFont* font = context.fonts.small;
  const Box first = layout.cell(0, 0);
  const bool all = layout.cell(layout.ranks - 1, 0).height() >= 14;
  float last = -1e9f;
  for (int row = 0; row < layout.ranks; ++row) {
    const float y = layout.cell(row, 0).center().y;
    if (y - last < 13.5f) continue;
    last = y;
    const int rank = layout.rank_of(row);
    draw_text(
        font, {layout.box.x0 - 8, y}, {1, 0.5f},
        context.session.selected_rank == rank ? context.palette.text : context.palette.text_dim,
        all || row < layout.high_rows ? fmt::format("rank {}", rank) : std::to_string(rank));
  }

  const bool both = forward_steps > 0 && forward_steps < layout.steps;
  const bool words = first.width() >= text_width(font, fmt::format("step {}", layout.steps)) + 8;
  const float apart = std::max(24.0f, text_width(font, std::to_string(layout.steps)) + 10);
  const int every_step = static_cast<int>(round_step(std::max(1.0f, apart / first.width())));
  for (int step = 0; step < layout.steps; ++step) {
    const int shown = both && step >= forward_steps ? step - forward_steps : step;
    const bool crowds_backward =
        both && step > 0 && step < forward_steps && (forward_steps - step) * first.width() < apart;
    if (shown % every_step != 0 || crowds_backward) continue;
    draw_label(context, {layout.cell(0, step).center().x, layout.box.y0 - 5}, {0.5f, 1},
               words ? fmt::format("step {}", shown) : std::to_string(shown));
  }
  if (!words && context.session.panels.print)
    draw_label(context, {layout.box.x0 - 8, layout.box.y0 - 5}, {1, 1}, "step");
  if (!both) return;
  draw_label(context, {layout.box.x0, layout.box.y0 - 20}, {0, 1}, "forward");
  draw_label(context, {layout.cell(0, forward_steps).x0 + 2, layout.box.y0 - 20}, {0, 1},
             "backward");
}

}  // namespace

void draw_heat_scale(const PanelContext& context, ImVec2 at, const HeatPaint& paint) {
  const bool differences = paint.usual != nullptr;
  const std::string most = paint.metric.text(paint.largest);
  draw_scale(context, at, differences ? "-" + most : "0", differences ? "+" + most : most,
             [&](double share) {
               return heat_color(context.palette, paint, differences ? 2 * share - 1 : share);
             });
}

int HeatLayout::row_of(int rank) const {
  if (order.empty()) return rank < ranks ? rank : -1;
  const auto found = std::find(order.begin(), order.end(), rank);
  return found == order.end() ? -1 : static_cast<int>(found - order.begin());
}

float HeatLayout::top_of(int row) const {
  const float first = high * high_rows;
  if (row <= high_rows) return box.y0 + high * row;
  const float rest = (box.height() - first) / std::max(ranks - high_rows, 1);
  return box.y0 + first + rest * (row - high_rows);
}

int HeatLayout::row_at(float y) const {
  const float first = high * high_rows, down = y - box.y0;
  const float row = down < first
                        ? down / high
                        : high_rows + (down - first) / (box.height() - first) * (ranks - high_rows);
  return std::clamp(static_cast<int>(row), 0, std::max(ranks - 1, 0));
}

Box HeatLayout::cell(int row, int step) const {
  const float w = box.width() / std::max(steps, 1);
  const float x = box.x0 + w * step;
  return {x, top_of(row), x + w, top_of(row + 1)};
}

std::optional<std::pair<int, int>> HeatLayout::at(ImVec2 mouse) const {
  if (ranks == 0 || steps == 0 || !box.contains(mouse)) return std::nullopt;
  const int step = static_cast<int>((mouse.x - box.x0) / box.width() * steps);
  return std::pair(rank_of(row_at(mouse.y)), std::clamp(step, 0, steps - 1));
}

std::optional<HeatCell> draw_heatmap(const PanelContext& context, std::size_t index,
                                     const HeatLayout& layout, const WorkTable& balance,
                                     const HeatPaint& paint) {
  if (layout.ranks == 0 || layout.steps == 0 || layout.box.width() < 2 || layout.box.height() < 2)
    return std::nullopt;
  const Document& document = context.session.documents[index];
  const int forward_steps = document.axis.forward_steps();
  const int selected = context.session.selected_rank;
  const Palette& palette = context.palette;
  ImFont* font = context.fonts.small;
  draw_painted(context, paint.slot,
               std::tuple(document.number, paint.first, paint.metric.figure, paint.largest,
                          layout.order, layout.high, layout.high_rows, layout.ranks, palette.panel,
                          paint.usual != nullptr),
               layout.box,
               [&](Image& image) { paint_cells(context, layout, balance, paint, image); });

  const Box first = layout.cell(0, 0);
  const bool numbers =
      first.height() >= kNumberHeight && first.width() >= text_width(font, "888.8 M") + 4;
  // A corner marks the cells whose pairs are not those that the mask predicts.
  const bool marks = balance.predicted && paint.usual == nullptr &&
                     paint.metric.figure == &WorkCell::pairs && first.height() >= kNumberHeight;
  for (int row = 0; (numbers || marks) && row < layout.ranks; ++row)
    for (int step = 0; step < layout.steps; ++step) {
      const WorkCell& cell = balance.at(layout.rank_of(row), step);
      const Box box = layout.cell(row, step);
      if (box.height() < kNumberHeight - 4) continue;
      const double value = paint.value_of(cell, step);
      const double share = value / std::max(paint.largest, 1.0);
      const Color ground = heat_color(palette, paint, share);
      const std::string sign = paint.usual == nullptr ? "" : value < 0 ? "-" : "+";
      if (numbers && value != 0)
        draw_text(font, box.center(), {0.5f, 0.5f}, with_alpha(ink_on(ground), 0.9),
                  sign + paint.metric.text(std::abs(value)));
      if (marks && cell.pairs != cell.predicted_pairs)
        draw_list().AddTriangleFilled({box.x1 - 9, box.y0 + 1}, {box.x1 - 2, box.y0 + 1},
                                      {box.x1 - 2, box.y0 + 8}, palette.warning);
    }

  if (forward_steps > 0 && forward_steps < layout.steps) {
    const float x = layout.cell(0, forward_steps).x0 - 0.5f;
    draw_list().AddLine({x, layout.box.y0 - 3}, {x, layout.box.y1 + 3}, palette.text_dim, 1);
  }
  if (const int at = layout.row_of(selected); selected >= 0 && at >= 0) {
    const Box row = layout.cell(at, 0);
    outline({layout.box.x0 - 1, row.y0 - 1, layout.box.x1, row.y1}, palette.selection, 2);
  }
  if (paint.current_step >= 0 && paint.current_step < layout.steps) {
    const Box column = layout.cell(0, paint.current_step);
    outline({column.x0 - 1, layout.box.y0 - 1, column.x1, layout.box.y1}, palette.playhead, 2,
            1.5f);
  }
  draw_heat_labels(context, layout, forward_steps);
  if (paint.has_scale) draw_heat_scale(context, {layout.box.x0, layout.box.y1 + 6}, paint);
  const Touch touched = touch(paint.slot.c_str(), layout.box);
  const std::optional<HeatCell> at = layout.at(ImGui::GetIO().MousePos);
  if (at && touched.clicked) context.session.go_to_step(index, at->first, at->second);
  return touched.hovered ? at : std::nullopt;
}

void draw_cell_tooltip(const PanelContext& context, const Document& document, int rank, int step) {
  const WorkTable& balance = document.balance;
  const WorkCell& cell = balance.at(rank, step);
  const auto slice = compute_slice(document, rank, step);
  Pairs rows = {{"KV block", slice ? fmt::format("KV {}", document.trace.slice(*slice).kv_owner)
                                   : "none: the rank attends nothing"},
                {"pairs counted", count_text(cell.pairs)}};
  if (balance.predicted)
    rows.emplace_back("pairs predicted", cell.pairs == cell.predicted_pairs
                                             ? "the same"
                                             : count_text(cell.predicted_pairs));
  rows.emplace_back("work", flops_text(cell.flops));
  rows.emplace_back("time", time_text(cell.compute_ns));
  rows.emplace_back("processor time", time_text(cell.cpu_ns));
  if (cell.compute_ns > 0 && cell.flops > 0)
    rows.emplace_back("speed", flops_text(cell.flops * 1e9 / cell.compute_ns) + "/s");
  rows.emplace_back("waiting", time_text(cell.wait_ns));
  draw_tooltip(context,
               fmt::format("rank {}, step {}{}", rank, document.axis.ring_step(step),
                           document.axis.is_backward(step) ? " backward" : ""),
               rows);
}

int choose_metric(const PanelContext& context, ImVec2 at, float* end) {
  std::vector<std::string> metrics;
  for (const HeatMetric& metric : kHeatMetrics) metrics.emplace_back(metric.name);
  if (end != nullptr) *end = tab_boxes(context.fonts, at, metrics).back().x1;
  int& chosen = context.session.rank_map.metric;
  return chosen = draw_title_tabs(context, "metrics", at, metrics, chosen);
}

}  // namespace ringscope::viz
