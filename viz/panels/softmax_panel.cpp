// One query row's online softmax, step by step: a table of row_max, row_sum and lse, and two plots.
#include "viz/panels/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "viz/model/session/format.h"
#include "viz/panels/charts/charts.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

std::vector<SoftmaxRow> softmax_rows(const Trace& trace) {
  std::map<std::pair<std::int64_t, int>, SoftmaxRow> by_query;
  for (const SoftmaxSample& sample : trace.samples) {
    SoftmaxRow& row = by_query[{sample.query, sample.rank}];
    row.query = sample.query;
    row.rank = sample.rank;
    row.samples.push_back(sample);
  }
  std::vector<SoftmaxRow> rows;
  for (auto& [query, row] : by_query) {
    std::stable_sort(
        row.samples.begin(), row.samples.end(),
        [](const SoftmaxSample& a, const SoftmaxSample& b) { return a.step < b.step; });
    rows.push_back(std::move(row));
  }
  return rows;
}

int default_softmax_row(const std::vector<SoftmaxRow>& rows) {
  int best = 0;
  std::ptrdiff_t most = -1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // Count the steps at which the state changed.
    std::ptrdiff_t changes = 0;
    for (std::size_t s = 1; s < rows[i].samples.size(); ++s)
      changes += rows[i].samples[s].row_sum != rows[i].samples[s - 1].row_sum;
    if (changes >= most) {
      most = changes;
      best = static_cast<int>(i);
    }
  }
  return best;
}

std::string softmax_text(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const float size = std::fabs(value);
  return size != 0 && (size >= 1e5f || size < 1e-3f) ? fmt::format("{:.3e}", value)
                                                     : fmt::format("{:.4f}", value);
}

// ---
// The panel draws one query row's online softmax step by step: how row_max, row_sum and lse grow as
// KV blocks arrive, and how far lse still is from its final value.

namespace {

constexpr float kSoftmaxPad = 10, kRow = 24, kSoftmaxWide = 560;
constexpr std::size_t kMostTabs = 200;
constexpr const char* kColumns[] = {"step", "KV", "row_max", "row_sum", "lse", "error"};
constexpr int kColumnCount = 6;

std::vector<std::string> cells_of(const SoftmaxSample& sample, int owner) {
  return {std::to_string(sample.step),
          owner < 0 ? "-" : std::to_string(owner),
          softmax_text(sample.row_max),
          softmax_text(sample.row_sum),
          softmax_text(sample.lse),
          sample.lse_error == 0 ? "0" : fmt::format("{:.1e}", sample.lse_error)};
}

// Return the owner of the block that `rank` attends at forward step `step`, or -1 if there is none.
int owner_at(const Document& document, int rank, int step) {
  const auto slice = compute_slice(document, rank, step);
  return slice ? document.trace.slice(*slice).kv_owner : -1;
}

float draw_table(const PanelContext& context, const SoftmaxRow& row, ImVec2 at, float width,
                 int current) {
  Session& session = context.session;
  const Trace& trace = session.document().trace;
  const Palette& palette = context.palette;
  const float column = width / kColumnCount;
  const auto right = [&](int i) { return at.x + column * (i + 1) - 8; };
  for (int i = 0; i < kColumnCount; ++i)
    draw_label(context, {right(i), at.y + 4}, {1, 0}, kColumns[i]);
  float y = at.y + kRow;
  draw_list().AddLine({at.x, y - 1}, {at.x + width, y - 1}, palette.grid);
  const int n = trace.ranks.size();
  for (std::size_t i = 0; i < row.samples.size(); ++i) {
    const SoftmaxSample& sample = row.samples[i];
    const Box line{at.x, y, at.x + width, y + kRow};
    y += kRow;
    ImGui::PushID(static_cast<int>(i));
    const Touch touched = touch("row", line);
    ImGui::PopID();
    if (touched.clicked) session.go_to_step(session.active, row.rank, sample.step);
    if (!ImGui::IsRectVisible(line.min(), line.max())) continue;
    const bool now = sample.step == current;
    if (now) {
      fill(line, with_alpha(palette.playhead, 0.14), 4);
      fill({line.x0, line.y0 + 4, line.x0 + 3, line.y1 - 4}, palette.playhead, 1);
    } else if (touched.hovered) {
      fill(line, with_alpha(palette.text, 0.06), 4);
    }
    const int owner = owner_at(session.document(), row.rank, sample.step);
    const auto cells = cells_of(sample, owner);
    // Rows of later steps are dim.
    const Color ink = sample.step <= current ? palette.text : palette.text_dim;
    for (int c = 0; c < kColumnCount; ++c)
      draw_text(context.fonts.mono, {right(c), line.center().y}, {1, 0.5f}, ink, cells[c],
                column - 4);
    if (owner >= 0 && column > 48)
      fill({right(1) - 34, line.center().y - 5, right(1) - 24, line.center().y + 5},
           owner_color(session.theme, owner, n), 2);
  }
  return y - at.y;
}

// Draw dots over the steps, joined by a thin line. An infinite value is a hollow dot at the bottom
// or top edge, with its name where there is room. In the plot of errors the bottom means 0.
void draw_plot(const PanelContext& context, const SoftmaxRow& row, const Box& box,
               std::string_view title, bool error, int current) {
  const Palette& palette = context.palette;
  const Trace& trace = context.session.document().trace;
  const int n = trace.ranks.size();
  draw_label(context, {box.x0, box.y0}, {0, 0}, title);
  const Box plot{box.x0 + 44, box.y0 + 24, box.x1 - 12, box.y1 - 18};
  if (plot.width() < 30 || plot.height() < 24) return;

  const auto value_of = [&](const SoftmaxSample& sample) {
    return error ? std::log10(static_cast<double>(sample.lse_error))
                 : static_cast<double>(sample.lse);
  };
  double low = INFINITY, high = -INFINITY;
  for (const SoftmaxSample& sample : row.samples) {
    const double value = value_of(sample);
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (!(low <= high)) low = high = 0;
  // In the plot of errors the bottom stands for 0, and every line for a power of ten.
  const ChartScale y_scale =
      error ? linear_scale(std::floor(low) - 1, std::ceil(high), 3,
                           [&](double x) {
                             return x < std::floor(low) - 0.5 ? "0" : fmt::format("1e{:.0f}", x);
                           })
            : linear_scale(low, high, 3, [](double x) { return fmt::format("{:.4g}", x); });
  draw_y_axis(context.fonts, palette, y_scale, plot);
  ChartScale x_scale;
  x_scale.high = std::max<double>(row.samples.size(), 2) - 1;
  const auto place = [&](std::size_t i, double value) {
    const float x = x_of(plot, x_scale, static_cast<double>(i));
    if (!std::isfinite(value)) return ImVec2(x, value > 0 ? plot.y0 : plot.y1);
    return ImVec2(x, y_of(plot, y_scale, value));
  };
  const std::size_t every = std::max<std::size_t>(1, row.samples.size() / 8);
  ImVec2 before{0, 0};
  bool joined = false;
  for (std::size_t i = 0; i < row.samples.size(); ++i) {
    const SoftmaxSample& sample = row.samples[i];
    const double value = value_of(sample);
    const bool finite = std::isfinite(value);
    const ImVec2 at = place(i, value);
    if (sample.step == current)
      draw_list().AddLine({at.x, plot.y0 - 6}, {at.x, plot.y1}, palette.playhead, 1.5f);
    if (joined && finite) draw_list().AddLine(before, at, palette.text_dim, 1.5f);
    before = at;
    joined = finite;
    if (i % every == 0)
      draw_label(context, {at.x, plot.y1 + 4}, {0.5f, 0}, std::to_string(sample.step));
  }
  for (std::size_t i = 0; i < row.samples.size(); ++i) {
    const SoftmaxSample& sample = row.samples[i];
    const double value = value_of(sample);
    const int owner = owner_at(context.session.document(), row.rank, sample.step);
    const Color color = owner >= 0 ? owner_color(context.session.theme, owner, n) : palette.accent;
    const ImVec2 at = place(i, value);
    if (std::isfinite(value)) {
      draw_list().AddCircleFilled(at, 4, color, 16);
      continue;
    }
    draw_list().AddCircle(at, 3.5f, color, 16, 1.5f);
    const bool crowded = row.samples.size() > 8;
    if (!error && !crowded)
      draw_label(context, {at.x + 7, at.y - 3}, {0, 1}, softmax_text(sample.lse));
  }
}

// Draw the tabs of the query rows, and the table and the plots of the one that is chosen.
void draw_rows(const PanelContext& context, const std::vector<SoftmaxRow>& rows) {
  const Box box = content_box();
  Session& session = context.session;
  const float left = box.x0 + kSoftmaxPad, width = box.width() - 2 * kSoftmaxPad;

  // Usually only a handful of rows is recorded.
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID key = ImGui::GetID("query");
  float y = box.y0 + kSoftmaxPad;
  const float label = draw_label(context, {left, y + 11}, {0, 0.5f}, "query") + 8;
  std::vector<std::string> queries;
  for (std::size_t i = 0; i < std::min(rows.size(), kMostTabs); ++i)
    queries.push_back(std::to_string(rows[i].query));
  const int last = static_cast<int>(queries.size()) - 1;
  const int chosen = std::clamp(storage.GetInt(key, default_softmax_row(rows)), 0, last);
  const ImVec2 tabs(left + label, y);
  const float room = width - label - 2;
  const int clicked = draw_tabs(context, "queries", tabs, queries, chosen, room);
  if (clicked != chosen) storage.SetInt(key, clicked);
  const SoftmaxRow& row = rows[clicked];
  y = tab_boxes(context.fonts, tabs, queries, room).back().y0 + 32;

  const RingMoment moment = session.moment(session.active);
  int current = -1;
  if (row.rank >= 0 && row.rank < static_cast<int>(moment.ranks.size()))
    current = moment.ranks[row.rank].step;
  const std::string about = fmt::format(
      "on rank {} · batch entry 0, head 0 · lse = row_max + ln row_sum of the keys seen "
      "so far, -inf before the first",
      row.rank);
  y += draw_wrapped(context.fonts.small, {left, y}, width, context.palette.text_dim, about) + 8;

  const bool wide = width >= kSoftmaxWide;
  const float table = wide ? std::min(width * 0.55f, 520.0f) : width;
  const float table_height = draw_table(context, row, {left, y}, table, current);
  const float plot_x = wide ? left + table + 28 : left;
  float plot_y = wide ? y : y + table_height + 14;
  const float plot_height = wide ? std::clamp((box.y1 - y - 48) / 2, 110.0f, 240.0f) : 130.0f;
  const float plot_right = left + (wide ? std::min(width, table + 28 + 620) : width);
  for (const bool error : {false, true}) {
    draw_plot(context, row, {plot_x, plot_y, plot_right, plot_y + plot_height},
              error ? "error of lse (log scale)" : "lse", error, current);
    plot_y += plot_height + 10;
  }
  ImGui::Dummy({1, std::max(y + table_height, plot_y) + kSoftmaxPad - box.y0});
}

}  // namespace

void draw_softmax(const PanelContext& context) {
  const Box whole = content_box();
  if (whole.width() < 60 || whole.height() < 40) return;
  const std::vector<SoftmaxRow> rows = softmax_rows(context.session.document().trace);
  if (rows.empty()) {
    draw_empty(context, whole, "No softmax state in this trace",
               "Recordings made with --trace keep row_max, row_sum and lse of a few query rows.");
    return;
  }
  draw_child("softmax", {0, 0}, 0, [&] { draw_rows(context, rows); });
}

}  // namespace ringscope::viz
