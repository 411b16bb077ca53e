// One query row's online softmax, step by step: a table of row_max, row_sum and lse, and two plots.
#include "viz/panels/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "viz/model/session/format.h"
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

constexpr float kSoftmaxPad = 10, kSoftmaxWide = 560;
constexpr std::size_t kMostTabs = 200;
constexpr const char* kColumns[] = {"KV", "row_max", "row_sum", "lse", "error"};

// Return the owner of the block that `rank` attends at forward step `step`, or -1 if there is none.
int owner_at(const Document& document, int rank, int step) {
  const auto slice = compute_slice(document, rank, step);
  return slice ? document.trace.slice(*slice).kv_owner : -1;
}

// Draw a line for each step. A click on it goes there.
void draw_table(const PanelContext& context, const SoftmaxRow& row, float width, int current) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_SizingStretchSame | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_NoClip;
  if (!ImGui::BeginTable("samples", 1 + std::size(kColumns), kFlags, {width, 0})) return;
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  ImGui::TableNextColumn();
  ImGui::TextUnformatted("step");
  for (const char* column : kColumns) number_cell(column);
  const int n = session.document().trace.rank_count();
  ImGui::PushFont(context.fonts.mono);
  for (const SoftmaxSample& sample : row.samples) {
    const int owner = owner_at(session.document(), row.rank, sample.step);
    ImGui::TableNextRow();
    if (sample.step == current)
      ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg0, with_alpha(palette.playhead, 0.2));
    // Rows of later steps are dim.
    ImGui::PushStyleColor(ImGuiCol_Text, sample.step <= current ? palette.text : palette.text_dim);
    ImGui::TableNextColumn();
    ImGui::PushID(&sample);
    if (ImGui::Selectable(std::to_string(sample.step).c_str(), false,
                          ImGuiSelectableFlags_SpanAllColumns))
      session.go_to_step(session.active, row.rank, sample.step);
    ImGui::PopID();
    number_cell(owner < 0 ? "-" : std::to_string(owner));
    if (const ImVec2 at = ImGui::GetItemRectMin(); owner >= 0)
      fill({at.x - 16, at.y + 2, at.x - 6, at.y + 12}, owner_color(session.theme, owner, n), 2);
    for (const float value : {sample.row_max, sample.row_sum, sample.lse})
      number_cell(softmax_text(value));
    number_cell(sample.lse_error == 0 ? "0" : fmt::format("{:.1e}", sample.lse_error));
    ImGui::PopStyleColor();
  }
  ImGui::PopFont();
  ImGui::EndTable();
}

// Draw dots over the steps, joined by a line, between the least and the largest value. Errors are on a
// logarithmic axis. What is infinite, or an error of 0, has no dot.
void draw_plot(const PanelContext& context, const SoftmaxRow& row, const Box& box,
               std::string_view title, bool error, int current) {
  const Palette& palette = context.palette;
  draw_label(context, {box.x0, box.y0}, {0, 0}, title);
  const Box plot{box.x0 + 52, box.y0 + 28, box.x1 - 12, box.y1 - 20};
  std::vector<double> values;
  double low = INFINITY, high = -INFINITY;
  for (const SoftmaxSample& sample : row.samples) {
    const double value = error ? std::log10(double{sample.lse_error}) : double{sample.lse};
    values.push_back(value);
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (plot.width() < 30 || plot.height() < 24 || !(low <= high)) return;
  for (const auto& [y, value] : {std::pair(plot.y0, high), {plot.y1, low}}) {
    draw_list().AddLine({plot.x0, y}, {plot.x1, y}, palette.grid);
    draw_label(context, {plot.x0 - 8, y}, {1, 0.5f},
               error ? fmt::format("{:.1e}", std::pow(10, value)) : fmt::format("{:.4g}", value));
  }
  const double last = std::max<double>(row.samples.size(), 2) - 1;
  const auto place = [&](std::size_t i) {
    return plot.at(i / last, high > low ? (high - values[i]) / (high - low) : 0.5);
  };
  const std::size_t every = std::max<std::size_t>(1, row.samples.size() / 8);
  for (std::size_t i = 0; i < row.samples.size(); ++i) {
    const int step = row.samples[i].step;
    const float x = plot.at(i / last, 0).x;
    if (step == current)
      draw_list().AddLine({x, plot.y0 - 6}, {x, plot.y1}, palette.playhead, 1.5f);
    if (i % every == 0) draw_label(context, {x, plot.y1 + 6}, {0.5f, 0}, std::to_string(step));
    if (i > 0 && std::isfinite(values[i]) && std::isfinite(values[i - 1]))
      draw_list().AddLine(place(i - 1), place(i), palette.text_dim, 1.5f);
  }
  const Document& document = context.session.document();
  for (std::size_t i = 0; i < row.samples.size(); ++i) {
    const int owner = owner_at(document, row.rank, row.samples[i].step);
    if (std::isfinite(values[i]))
      draw_list().AddCircleFilled(
          place(i), 4,
          owner >= 0 ? owner_color(context.session.theme, owner, document.trace.rank_count())
                     : palette.accent,
          16);
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
  ImGui::SetCursorScreenPos({left, y});
  draw_table(context, row, table, current);
  const float end = ImGui::GetItemRectMax().y;
  const float plot_x = wide ? left + table + 28 : left;
  const float plot_height = wide ? std::clamp((box.y1 - y - 48) / 2, 110.0f, 240.0f) : 130.0f;
  const float plot_right = std::min(left + width, plot_x + 620);
  if (!wide) y = end + 14;
  for (const bool error : {false, true}) {
    draw_plot(context, row, {plot_x, y, plot_right, y + plot_height},
              error ? "error of lse (log scale)" : "lse", error, current);
    y += plot_height + 10;
  }
  ImGui::SetCursorScreenPos(box.min());
  ImGui::Dummy({1, std::max(end, y) + kSoftmaxPad - box.y0});
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
