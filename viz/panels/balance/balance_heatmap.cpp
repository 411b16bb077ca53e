#include "viz/panels/balance/balance_heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace ringscope::viz {
namespace {

constexpr float kNumberHeight = 16, kMarkWidth = 24;

// Keep zero apart from small values: a cell without work shows the empty ground.
Color heat_color(const Palette& palette, const HeatMetric& metric, double share) {
  const Color strong = metric.is_waiting() ? palette.warning : palette.accent;
  const Color ground = mix(palette.panel, palette.text, 0.05);
  if (!(share > 0)) return ground;
  return mix(ground, strong, 0.10 + 0.82 * std::min(share, 1.0));
}

// Paint the cells into one image of the screen's pixels, so thousands cost no more than a few.
Image paint_cells(const PanelContext& context, const HeatLayout& layout, const WorkTable& balance,
                  const HeatPaint& paint) {
  const ImVec2 scale = ImGui::GetIO().DisplayFramebufferScale;
  constexpr int kMaxSide = 4096;
  const int width = std::clamp(static_cast<int>(layout.box.width() * scale.x), 1, kMaxSide);
  const int height = std::clamp(static_cast<int>(layout.box.height() * scale.y), 1, kMaxSide);
  Image image(width, height, context.palette.panel);
  const int gap_x = width / std::max(layout.steps, 1) >= 6 ? 1 : 0;
  const int gap_y = height / std::max(layout.ranks, 1) >= 5 ? 1 : 0;
  const auto edge = [](int i, int count, int size) {
    return static_cast<int>(static_cast<std::int64_t>(i) * size / count);
  };
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const int y0 = edge(rank, layout.ranks, height), y1 = edge(rank + 1, layout.ranks, height);
    for (int step = 0; step < layout.steps; ++step) {
      const double share = paint.metric.of(balance.at(rank, step)) / std::max(paint.largest, 1.0);
      image.fill(edge(step, layout.steps, width), y0, edge(step + 1, layout.steps, width) - gap_x,
                 y1 - gap_y, heat_color(context.palette, paint.metric, share));
    }
  }
  return image;
}

}  // namespace

double HeatMetric::largest(const WorkTable& table) const {
  double largest = 0;
  for (const WorkCell& cell : table.cells) largest = std::max(largest, of(cell));
  return largest;
}

Box HeatLayout::cell(int rank, int step) const {
  const float w = box.width() / static_cast<float>(std::max(steps, 1));
  const float h = box.height() / static_cast<float>(std::max(ranks, 1));
  const float x = box.x0 + w * static_cast<float>(step), y = box.y0 + h * static_cast<float>(rank);
  return {x, y, x + w, y + h};
}

std::optional<std::pair<int, int>> HeatLayout::at(ImVec2 mouse) const {
  if (ranks == 0 || steps == 0 || !box.contains(mouse)) return std::nullopt;
  const int rank = static_cast<int>((mouse.y - box.y0) / box.height() * static_cast<float>(ranks));
  const int step = static_cast<int>((mouse.x - box.x0) / box.width() * static_cast<float>(steps));
  return std::pair(std::clamp(rank, 0, ranks - 1), std::clamp(step, 0, steps - 1));
}

void draw_heatmap(const PanelContext& context, const HeatLayout& layout, const WorkTable& balance,
                  const HeatPaint& paint) {
  if (layout.ranks == 0 || layout.steps == 0 || layout.box.width() < 2 || layout.box.height() < 2)
    return;
  const Palette& palette = context.palette;
  const ImFont* font = context.fonts.small;
  const Image image = paint_cells(context, layout, balance, paint);
  draw_list().AddImage(context.textures.update(paint.slot, image), layout.box.min(),
                       layout.box.max());

  const Box first = layout.cell(0, 0);
  const bool numbers =
      first.height() >= kNumberHeight && first.width() >= text_width(font, "888.8 M") + 4;
  const bool marks = paint.predictions && balance.predicted && first.width() >= kMarkWidth &&
                     first.height() >= kNumberHeight;
  double predicted_largest = 1;
  for (const WorkCell& cell : balance.cells)
    predicted_largest = std::max(predicted_largest, static_cast<double>(cell.predicted_pairs));
  for (int rank = 0; (numbers || marks) && rank < layout.ranks; ++rank)
    for (int step = 0; step < layout.steps; ++step) {
      const WorkCell& cell = balance.at(rank, step);
      const Box box = layout.cell(rank, step);
      const double value = paint.metric.of(cell);
      const double share = value / std::max(paint.largest, 1.0);
      const Color ground = heat_color(palette, paint.metric, share);
      if (numbers && value > 0)
        draw_text(font, {box.center().x, box.center().y - (marks ? 1.0f : 0.0f)}, {0.5f, 0.5f},
                  with_alpha(ink_on(ground), 0.9), paint.metric.text(value));
      if (!marks) continue;
      // The measured line along the bottom and the predicted tick across it meet if they agree.
      const float span = box.width() - 9;
      const float y = box.y1 - 4;
      const float measured = box.x0 + 4 + span * static_cast<float>(std::min(share, 1.0));
      const float predicted =
          box.x0 + 4 +
          span * static_cast<float>(static_cast<double>(cell.predicted_pairs) / predicted_largest);
      const Color ink = with_alpha(ink_on(ground), 0.75);
      if (value > 0) draw_list().AddLine({box.x0 + 4, y}, {measured, y}, ink, 1);
      if (cell.predicted_pairs > 0)
        draw_list().AddLine({predicted, y - 3}, {predicted, y + 2}, ink, 1);
      if (paint.metric.figure == &WorkCell::pairs && cell.pairs != cell.predicted_pairs)
        draw_list().AddTriangleFilled({box.x1 - 9, box.y0 + 1}, {box.x1 - 2, box.y0 + 1},
                                      {box.x1 - 2, box.y0 + 8}, palette.warning);
    }

  if (paint.forward_steps > 0 && paint.forward_steps < layout.steps) {
    const float x = layout.cell(0, paint.forward_steps).x0 - 0.5f;
    draw_list().AddLine({x, layout.box.y0 - 3}, {x, layout.box.y1 + 3}, palette.text_dim, 1);
  }
  if (paint.selected_rank >= 0 && paint.selected_rank < layout.ranks) {
    const Box row = layout.cell(paint.selected_rank, 0);
    outline({layout.box.x0 - 1, row.y0 - 1, layout.box.x1, row.y1}, palette.selection, 2);
  }
  if (paint.current_step >= 0 && paint.current_step < layout.steps) {
    const Box column = layout.cell(0, paint.current_step);
    outline({column.x0 - 1, layout.box.y0 - 1, column.x1, layout.box.y1}, palette.playhead, 2,
            1.5f);
  }
}

void draw_heat_labels(const PanelContext& context, const HeatLayout& layout, int forward_steps) {
  if (layout.ranks == 0 || layout.steps == 0) return;
  const ImFont* font = context.fonts.small;
  const Color dim = context.palette.text_dim;
  const Box first = layout.cell(0, 0);
  const int every_rank = std::max(1, static_cast<int>(std::ceil(14 / first.height())));
  for (int rank = 0; rank < layout.ranks; rank += every_rank)
    draw_text(font, {layout.box.x0 - 8, layout.cell(rank, 0).center().y}, {1, 0.5f},
              context.session.selected_rank == rank ? context.palette.text : dim,
              every_rank == 1 ? fmt::format("rank {}", rank) : std::to_string(rank));

  const bool both = forward_steps > 0 && forward_steps < layout.steps;
  const bool words = first.width() >= text_width(font, fmt::format("step {}", layout.steps)) + 8;
  constexpr float kApart = 24;
  const int every_step = std::max(1, static_cast<int>(std::ceil(kApart / first.width())));
  for (int step = 0; step < layout.steps; ++step) {
    const int shown = both && step >= forward_steps ? step - forward_steps : step;
    const bool crowds_backward = both && step > 0 && step < forward_steps &&
                                 static_cast<float>(forward_steps - step) * first.width() < kApart;
    if (shown % every_step != 0 || crowds_backward) continue;
    draw_text(font, {layout.cell(0, step).center().x, layout.box.y0 - 5}, {0.5f, 1}, dim,
              words ? fmt::format("step {}", shown) : std::to_string(shown));
  }
  if (!both) return;
  draw_text(font, {layout.box.x0, layout.box.y0 - 20}, {0, 1}, dim, "forward");
  draw_text(font, {layout.cell(0, forward_steps).x0 + 2, layout.box.y0 - 20}, {0, 1}, dim,
            "backward");
}

int common_step(const RingMoment& moment) {
  std::map<int, int> ranks_at;
  for (const RankMoment& rank : moment.ranks) ++ranks_at[rank.step];
  int step = -1, most = 0;
  for (const auto& [at, ranks] : ranks_at)
    if (ranks > most) {
      step = at;
      most = ranks;
    }
  return step;
}

}  // namespace ringscope::viz
