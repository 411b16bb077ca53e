// One tile from Q to out: what a step of online softmax computes, with the numbers that a run recorded. As
// in a figure of a textbook, the rows of S and of O lie beside those of Q, and the columns of S below
// those of K^T.
#include "viz/panels/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/trace/tile.h"
#include "viz/data/session/format.h"
#include "viz/data/session/selection.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

// The steps, in the order of their tabs.
enum TileStep { kProducts, kMask, kNewMax, kWeights, kRescale, kValues, kOutput };
const std::vector<std::string> kStepNames = {"Q Kᵀ",    "mask", "new max", "exp",
                                             "rescale", "P V",  "out"};
static_assert(kOutput + 1 == kTileSteps);

constexpr float kTilePad = 10, kTileGap = 14, kNameHigh = 17;
constexpr float kMostCell = 84, kMostHigh = 44;

// A matrix of the picture.
struct Matrix {
  std::string name;
  Box box;
  std::size_t rows = 0, columns = 0;
  bool is_known = true;  // at the present step; else its cells are empty
  bool is_lit = false;   // the present step makes or uses it
  bool has_numbers = true;
  std::function<double(std::size_t row, std::size_t column)> at;

  Box cell(std::size_t row, std::size_t column) const {
    const auto edge = [](float from, float size, std::size_t i, std::size_t n) {
      return std::floor(from + size * static_cast<float>(i) / static_cast<float>(n));
    };
    return {edge(box.x0, box.width(), column, columns), edge(box.y0, box.height(), row, rows),
            edge(box.x0, box.width(), column + 1, columns),
            edge(box.y0, box.height(), row + 1, rows)};
  }
};

// Draw a number with two decimals, or with fewer where its cell has no room for them, if it has any room.
void draw_number(const PanelContext& context, const Box& cell, double value, Color color) {
  ImFont* const font =
      cell.width() >= 48 && cell.height() >= 20 ? context.fonts.text : context.fonts.small;
  const auto has_room = [&](const std::string& text) {
    return cell.height() >= 13 && text_width(font, text) < cell.width() - 2;
  };
  for (int decimals = has_room("-0.00") ? 2 : 1; decimals >= 0; --decimals) {
    const std::string text = !std::isfinite(value)    ? softmax_text(value)
                             : std::abs(value) < 1000 ? fmt::format("{:.{}f}", value, decimals)
                                                      : fmt::format("{:.0e}", value);
    if (!has_room(text)) continue;
    draw_text(font, cell.center(), {0.5f, 0.5f}, color, text);
    return;
  }
}

// Draw the cells in colours that are as strong as their values: blue above zero, orange below.
void draw_matrix(const PanelContext& context, const Matrix& matrix) {
  const Palette& palette = context.palette;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  double largest = 1e-30;
  for (std::size_t i = 0; matrix.is_known && i < matrix.rows; ++i)
    for (std::size_t j = 0; j < matrix.columns; ++j)
      if (const double value = std::abs(matrix.at(i, j)); std::isfinite(value))
        largest = std::max(largest, value);
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t j = 0; j < matrix.columns; ++j) {
      Box cell = matrix.cell(i, j);
      const double value = matrix.is_known ? matrix.at(i, j) : 0;
      const bool is_finite = std::isfinite(value);
      const Color color = heat_shade(palette, value < 0 ? palette.warning : palette.accent,
                                     is_finite ? 0.8 * std::abs(value) / largest : 0);
      if (cell.width() > 7 && cell.height() > 7) --cell.x1, --cell.y1;
      fill(cell, color);
      if (!matrix.is_known) continue;
      if (matrix.has_numbers)
        draw_number(context, cell, value, is_finite ? ink_on(color) : palette.text_dim);
      if (cell.contains(mouse) && ImGui::IsWindowHovered())
        draw_tooltip(context, fmt::format("{}, row {}, column {}", matrix.name, i, j),
                     {{"value", softmax_text(value)}});
    }
  const Box frame{matrix.box.x0 - 2, matrix.box.y0 - 2, matrix.box.x1 + 1, matrix.box.y1 + 1};
  outline(frame, matrix.is_lit ? palette.playhead : palette.panel_border, 2,
          matrix.is_lit ? 2.0f : 1.0f);
  draw_text(context.fonts.small, {matrix.box.center().x, matrix.box.y0 - 5}, {0.5f, 1},
            matrix.is_lit ? palette.text : palette.text_dim, matrix.name);
}

// Return the sentence of a step about row `r` of the tile.
std::string sentence_of(const RecordedTile& tile, const TileSteps& steps, const RunInfo& run,
                        int step, std::size_t r) {
  const std::size_t keys = tile.keys.size(), last = keys - 1;
  const auto text = [](double value) { return softmax_text(value); };
  const std::string query = fmt::format("query {}", tile.queries[r]);
  double sum = 0, most = -INFINITY;
  const float lowest = *std::min_element(tile.scores.begin(), tile.scores.end());
  for (std::size_t j = 0; j < keys; ++j) {
    sum += steps.weights[r * keys + j];
    most = std::max<double>(most, tile.scores[r * keys + j]);
  }
  switch (step) {
    case kProducts:
      return fmt::format(
          "Each score is a row of Q times a row of K, times softmax_scale. {} and key {}: {}.",
          capitalized(query), tile.keys[last], text(steps.products[r * keys + last]));
    case kMask:
      return fmt::format(
          "{}The mask, {}, makes a score -inf where the query may not attend the key{}.",
          run.softcap
              ? fmt::format("The softcap makes {0} tanh(s / {0}) of a score s. ", *run.softcap)
              : "",
          run.mask, std::isfinite(lowest) ? ", which it may everywhere here" : "");
    case kNewMax:
      return fmt::format(
          "The new m is the larger of the old one and the row's largest score. {}: max({}, {}) = "
          "{}.",
          capitalized(query), text(tile.row_max_before[r]), text(most), text(steps.row_max[r]));
    case kWeights:
      return fmt::format(
          "P = exp(S - m): no weight is above 1, and that of a masked pair is 0. {}: they add up "
          "to {}.",
          capitalized(query), text(sum));
    case kRescale:
      return fmt::format(
          "What the row had was measured against the old m. The factor exp(old m - m) changes the "
          "unit of l and O. {}: exp({} - {}) = {}.",
          capitalized(query), text(tile.row_max_before[r]), text(steps.row_max[r]),
          text(steps.factors[r]));
    case kValues:
      return fmt::format(
          "O becomes factor O + P V, and l becomes factor l + the row's weights. {}: "
          "l = {} x {} + {} = {}.",
          capitalized(query), text(steps.factors[r]), text(tile.row_sum_before[r]), text(sum),
          text(steps.row_sum[r]));
    default:
      return tile.out.empty()
                 ? "The run failed before its ranks had an output."
                 : fmt::format(
                       "The rest of the block and the other steps do the same. m and l are "
                       "those after this step{}; out = O / l after the last one.",
                       run.sink_logits == 1 ? ", without the learned sink" : "");
  }
}

// Draw one step below `top`: what it does in words, and the matrices. Return the height.
float draw_steps(const PanelContext& context, const RecordedTile& tile, ImVec2 top, float width,
                 float height) {
  const Palette& palette = context.palette;
  const Document& document = context.session.document();
  const TileSteps& steps = kept(document.number, [&] { return steps_of(tile); });
  const int step = context.session.panels.tile_step;
  const auto words = [&](std::size_t row) {
    return sentence_of(tile, steps, document.trace.info, step, row);
  };
  const std::size_t rows = tile.queries.size(), keys = tile.keys.size();
  const std::size_t head_dim = tile.q.size() / rows, columns = tile.v.size() / keys;
  const bool is_wide = width >= 560, is_over = step == kOutput;

  // Sizes: numbers get what Q and the columns of the state leave.
  const float stat = 52, stats = is_wide ? 4 : 2;
  const float q_wide = std::clamp(width * 0.14f, 40.0f, 150.0f), labels = is_wide ? 62 : 24;
  const float cell_w = std::clamp(
      (width - labels - q_wide - stat * stats - 3 * kTileGap) / static_cast<float>(keys + columns),
      12.0f, kMostCell);
  const float said = wrapped_height(context.fonts.text, width, words(rows - 1));
  const float cell_h =
      std::clamp((height - said - 3 * kNameHigh - 2 * kTileGap) / static_cast<float>(rows + keys),
                 9.0f, std::min(kMostHigh, cell_w));
  const float y_above = top.y + said + kTileGap + 2 * kNameHigh;
  const float y = y_above + cell_h * static_cast<float>(keys) + kNameHigh + kTileGap / 2;
  const Box all_rows{top.x, y, top.x + width, y + cell_h * static_cast<float>(rows)};

  std::vector<Matrix> matrices;
  float x = top.x + labels;
  // Add a matrix in the line of the rows or, if it is as high as there are keys, above it.
  const auto add = [&](std::string name, float wide, bool above, std::size_t down,
                       std::size_t across, auto&& at, bool is_lit, bool is_known = true,
                       bool has_numbers = true) {
    const Box box = above ? Box{x, y_above, x + wide, y - kNameHigh - kTileGap / 2}
                          : Box{x, y, x + wide, all_rows.y1};
    matrices.push_back({std::move(name), box, down, across, is_known, is_lit, has_numbers, at});
  };
  const auto of = [](const auto& list, std::size_t in_row) {
    return [&list, in_row](std::size_t i, std::size_t j) { return double{list[i * in_row + j]}; };
  };
  const auto state = [&](const char* name, auto&& at, bool is_lit, bool is_known = true) {
    add(name, stat - 6, false, rows, 1, at, is_lit, is_known);
    x += stat;
  };

  add("Q", q_wide, false, rows, head_dim, of(tile.q, head_dim), step == kProducts, true, false);
  x += q_wide + kTileGap;
  const float s_x = x, s_wide = cell_w * static_cast<float>(keys);
  add(
      "Kᵀ", s_wide, true, head_dim, keys,
      [&](std::size_t i, std::size_t j) { return double{tile.k[j * head_dim + i]}; },
      step == kProducts, true, false);
  if (step == kProducts)
    add("S = scale Q Kᵀ", s_wide, false, rows, keys, of(steps.products, keys), true);
  else if (step < kWeights)
    add("S", s_wide, false, rows, keys, of(tile.scores, keys), true);
  else
    add("P = exp(S - m)", s_wide, false, rows, keys, of(steps.weights, keys),
        step == kWeights || step == kValues);
  x += s_wide + kTileGap;

  const bool changes_m = step == kNewMax || step == kRescale;
  if (is_wide) state("old m", of(tile.row_max_before, 1), changes_m);
  if (is_over)
    state("m", of(tile.row_max, 1), false);
  else
    state("m", of(steps.row_max, 1), changes_m || step == kWeights, step >= kNewMax);
  if (is_wide) state("factor", of(steps.factors, 1), step == kRescale, step >= kRescale);
  if (step < kRescale)
    state("old l", of(tile.row_sum_before, 1), false);
  else if (step == kRescale)
    state(
        "factor l",
        [&](std::size_t i, std::size_t) { return steps.factors[i] * tile.row_sum_before[i]; },
        true);
  else if (step == kValues)
    state("l", of(steps.row_sum, 1), true);
  else
    state("l", of(tile.row_sum, 1), true);
  x += kTileGap - 6;

  const float o_wide = cell_w * static_cast<float>(columns);
  add("V", o_wide, true, keys, columns, of(tile.v, columns), step == kValues);
  if (step < kRescale)
    add("O", o_wide, false, rows, columns, of(tile.out_before, columns), false);
  else if (step == kRescale)
    add("factor O", o_wide, false, rows, columns, of(steps.rescaled, columns), true);
  else if (step == kValues)
    add("O", o_wide, false, rows, columns, of(steps.out_accum, columns), true);
  else
    add("out = O / l", o_wide, false, rows, columns, of(tile.out, columns), true,
        !tile.out.empty());
  for (const Matrix& matrix : matrices) draw_matrix(context, matrix);

  // The words are about the row under the mouse, or else about the last one.
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  std::size_t row = rows - 1;
  if (all_rows.contains(mouse) && ImGui::IsWindowHovered())
    row = std::min(row, static_cast<std::size_t>((mouse.y - y) / cell_h));
  for (std::size_t i = 0; i < rows; ++i)
    draw_text(context.fonts.small,
              {top.x + labels - 8, y + cell_h * (static_cast<float>(i) + 0.5f)}, {1, 0.5f},
              i == row ? palette.text : palette.text_dim,
              fmt::format("{}{}", is_wide ? "query " : "", tile.queries[i]));
  for (std::size_t j = 0; j < keys; ++j)
    if (cell_w >= 22 || j == 0 || j + 1 == keys)
      draw_label(context, {s_x + cell_w * (static_cast<float>(j) + 0.5f), y_above - kNameHigh - 2},
                 {0.5f, 1}, fmt::format("{}{}", j == 0 && is_wide ? "key " : "", tile.keys[j]));
  draw_wrapped(context.fonts.text, top, width, palette.text, words(row));
  return all_rows.y1 - top.y;
}

// Draw words that copy `text` when they are clicked.
void draw_copy(const PanelContext& context, ImVec2 at, float lean, const std::string& text) {
  const std::vector<std::string> words = {"Copy the command"};
  const float wide = tab_boxes(context.fonts, {0, 0}, words)[0].width();
  if (draw_tabs(context, "copy", {at.x - lean * wide, at.y}, words, -1) == 0)
    context.session.wishes.copied = text;
}

}  // namespace

void draw_tile(const PanelContext& context) {
  Session& session = context.session;
  const Document& document = session.document();
  const Box whole = content_box();
  if (whole.width() < 60 || whole.height() < 40) return;
  const auto& tile = document.trace.tile;
  const int rank = session.rank_now();
  const int now = std::max(document.axis.ring_step(session.step_now(session.active)), 0);
  const std::string command = record_command(document.trace.info, rank, now);
  if (!tile) {
    draw_empty(
        context, whole, "No tile was recorded",
        "A run on CPUs keeps the numbers of one tile, from Q to out, of the rank and the step "
        "that --record-tile names: " +
            command);
    return draw_copy(context, {whole.center().x, whole.y1 - 34}, 0.5f, command);
  }
  draw_child("tile", {0, 0}, 0, [&] {
    const Box box = content_box();
    const ImVec2 top(box.x0 + kTilePad, box.y0 + 4);
    const float width = box.width() - 2 * kTilePad;
    int& step = session.panels.tile_step;
    step = draw_title_tabs(context, "steps", top, kStepNames, step, width);
    const std::vector<Box> tabs = tab_boxes(context.fonts, top, kStepNames, width);
    const float hint = tabs.back().x1 + 12;
    if (!session.panels.bare && text_width(context.fonts.small, "press < or >") < box.x1 - hint)
      draw_label(context, {hint, tabs.back().center().y}, {0, 0.5f}, "press < or >");
    const float y = (session.panels.bare ? tabs[0] : tabs.back()).y1 + 8;
    const bool is_other = session.selected && (tile->rank != rank || tile->step != now);
    const std::string words = fmt::format("rank {} · step {} · KV {} · batch entry 0, head 0",
                                          tile->rank, tile->step, tile->kv_owner) +
                              (is_other ? fmt::format(" · not rank {} at step {}", rank, now) : "");
    const float used = draw_label(context, {top.x, y + 2}, {0, 0}, words, width);
    if (is_other && used + 130 < width) draw_copy(context, {top.x + used + 8, y - 4}, 0, command);
    const float below = y + 18;
    const float high = draw_steps(context, *tile, {top.x, below}, width,
                                  box.y0 + ImGui::GetWindowHeight() - kTilePad - below);
    ImGui::SetCursorScreenPos(box.min());
    ImGui::Dummy({1, below + high + kTilePad - box.y0});
  });
}

}  // namespace ringscope::viz
