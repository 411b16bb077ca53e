// One query row's online softmax, step by step: what the row had before each block and has after it.
#include "viz/panels/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "viz/data/session/format.h"
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

std::string softmax_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::fabs(value);
  return size != 0 && (size >= 1e5 || size < 1e-3) ? fmt::format("{:.3e}", value)
                                                   : fmt::format("{:.4f}", value);
}

std::vector<SoftmaxStep> softmax_steps(const SoftmaxRow& row) {
  std::vector<SoftmaxStep> steps;
  double max = -INFINITY, sum = 0;
  for (const SoftmaxSample& sample : row.samples) {
    const double factor = sum > 0 ? std::exp(max - sample.row_max) : 0;
    const double added = sample.row_sum - factor * sum;
    const SoftmaxSample& last = row.samples.back();
    steps.push_back(
        {factor,
         added > 0 ? added * std::exp(double{sample.row_max} - last.row_max) / last.row_sum : 0});
    max = sample.row_max;
    sum = sample.row_sum;
  }
  return steps;
}

// ---
// The panel draws one query row's online softmax step by step: what multiplies the row's state as a KV
// block arrives, what the block adds, and how far lse still is from its final value.

namespace {

constexpr float kSoftmaxPad = 10, kMostSoftmax = 1000;
constexpr float kBriefBelow = 460;  // a paper's column, say, has room for few digits
constexpr std::size_t kMostTabs = 200;

// The owner of the block that a row's rank attends at a sample's step, or -1 if there is none, and its
// colour.
struct AttendedBlock {
  int owner = -1;
  Color color = 0;
};
AttendedBlock block_of(const PanelContext& context, const SoftmaxRow& row, int step) {
  const Document& document = context.session.document();
  const auto slice = compute_slice(document, row.rank, step);
  const int owner = slice ? document.trace.slice(*slice).kv_owner : -1;
  return {owner, owner < 0
                     ? context.palette.accent
                     : owner_color(context.session.look.theme, owner, document.trace.rank_count())};
}

std::string brief_text(double value) {
  const double size = std::abs(value);
  return size == 0 || (size >= 0.01 && size < 1e5)
             ? fmt::format("{:.{}f}", value, size < 100 ? 2 : 0)
             : fmt::format("{:.0e}", value);
}

// Draw a line for each step, with what the row has after it; what it had before stands in the line above.
// A click on a line goes to its step.
void draw_table(const PanelContext& context, const SoftmaxRow& row, float width, int current) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  std::vector<const char*> columns = {"KV", "m, row_max", "factor", "l, row_sum", "part", "error"};
  const bool brief = width < kBriefBelow;
  if (brief) columns = {"KV", "m", "factor", "l", "part"};
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_SizingStretchSame | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_NoClip;
  const int count = 1 + static_cast<int>(columns.size());
  if (!ImGui::BeginTable("samples", count, kFlags, {width, 0})) return;
  ImGui::PushFont(brief ? context.fonts.small : context.fonts.text);
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  ImGui::TableNextColumn();
  ImGui::TextUnformatted("step");
  for (const char* column : columns) number_cell(column);
  ImGui::PopFont();
  const std::vector<SoftmaxStep> steps = softmax_steps(row);
  ImGui::PushFont(brief ? context.fonts.small : context.fonts.mono);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const SoftmaxSample& sample = row.samples[i];
    const AttendedBlock block = block_of(context, row, sample.step);
    ImGui::TableNextRow();
    if (sample.step == current && session.marks_now())
      ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg0, with_alpha(palette.playhead, 0.2));
    // Rows of later steps are dim.
    ImGui::PushStyleColor(ImGuiCol_Text, sample.step <= current ? palette.text : palette.text_dim);
    ImGui::TableNextColumn();
    ImGui::PushID(&sample);
    if (ImGui::Selectable(std::to_string(sample.step).c_str(), false,
                          ImGuiSelectableFlags_SpanAllColumns))
      session.go_to_step(session.active, row.rank, sample.step);
    ImGui::PopID();
    number_cell(block.owner < 0 ? "-" : std::to_string(block.owner));
    if (const ImVec2 at = ImGui::GetItemRectMin(); block.owner >= 0)
      fill({at.x - 16, at.y + 2, at.x - 6, at.y + 12}, block.color, 2);
    for (const double value : {double{sample.row_max}, steps[i].factor, double{sample.row_sum}})
      number_cell(brief ? brief_text(value) : softmax_text(value));
    number_cell(percent_text(steps[i].part));
    if (!brief)
      number_cell(sample.lse_error == 0  ? "0"
                  : sample.lse_error < 0 ? "-"
                                         : fmt::format("{:.1e}", sample.lse_error));
    ImGui::PopStyleColor();
  }
  ImGui::PopFont();
  ImGui::EndTable();
}

// Draw m, l and each block's part of the row over its steps, side by side. Dots and bars have the colours
// of the blocks' owners.
void draw_curves(const PanelContext& context, const SoftmaxRow& row, const Box& box, int current) {
  constexpr float kGap = 28, kHead = 20, kFoot = 16;
  const bool brief = box.width() < kBriefBelow;
  const Session& session = context.session;
  const Palette& palette = context.palette;
  const std::vector<SoftmaxStep> steps = softmax_steps(row);
  struct {
    const char* name;
    bool bars;
    std::vector<double> values;
  } curves[] = {{brief ? "m" : "m, row_max", false, {}},
                {brief ? "l" : "l, row_sum", true, {}},
                {brief ? "part" : "part of the row", true, {}}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    curves[0].values.push_back(row.samples[i].row_max);
    curves[1].values.push_back(row.samples[i].row_sum);
    curves[2].values.push_back(steps[i].part);
  }
  const float wide = (box.width() - 2 * kGap) / 3;
  for (std::size_t c = 0; c < std::size(curves); ++c) {
    const auto& [name, bars, values] = curves[c];
    const float x0 = box.x0 + static_cast<float>(c) * (wide + kGap);
    const Box plot{x0, box.y0 + kHead, x0 + wide, box.y1 - kFoot};
    double least = bars ? 0 : INFINITY, most = bars ? 0 : -INFINITY;
    for (const double value : values)
      if (std::isfinite(value)) least = std::min(least, value), most = std::max(most, value);
    const auto text = [c, brief](double value) {
      return c == 2 ? percent_text(value) : brief ? brief_text(value) : softmax_text(value);
    };
    const float used = draw_label(context, {plot.x0, box.y0}, {0, 0}, name);
    if (least < most) draw_label(context, {plot.x1, box.y0}, {1, 0}, text(most), wide - used - 8);
    const float first = draw_label(context, {plot.x0, plot.y1 + 2}, {0, 0}, "step 0");
    if (least <= most)
      draw_label(context, {plot.x1, plot.y1 + 2}, {1, 0}, text(least), wide - first - 4);
    draw_list().AddLine({plot.x0, plot.y1}, {plot.x1, plot.y1}, palette.grid);
    const auto count = static_cast<double>(values.size());
    std::optional<ImVec2> last;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double at = static_cast<double>(i) / count, next = static_cast<double>(i + 1) / count;
      if (row.samples[i].step == current && session.marks_now())
        fill({plot.at(at, 0).x, plot.y0, plot.at(next, 0).x, plot.y1},
             with_alpha(palette.playhead, 0.2));
      if (!std::isfinite(values[i])) continue;
      const double high = least < most ? (values[i] - least) / (most - least) : 0.5;
      const ImVec2 point = plot.at((at + next) / 2, 1 - high);
      const Color color = block_of(context, row, row.samples[i].step).color;
      if (bars) {
        fill({plot.at(at, 0).x + 1, point.y, plot.at(next, 0).x - 1, plot.y1}, color, 1);
        continue;
      }
      if (last) draw_list().AddLine(*last, point, palette.text_dim, 1.5f);
      draw_list().AddCircleFilled(point, 3.5f, color, 12);
      last = point;
    }
  }
}

// Draw the tabs of the query rows, and the table and the curves of the one that is chosen.
void draw_rows(const PanelContext& context, const std::vector<SoftmaxRow>& rows) {
  const Box box = content_box();
  Session& session = context.session;
  const float left = box.x0 + kSoftmaxPad, width = box.width() - 2 * kSoftmaxPad;

  // Usually only a handful of rows is recorded.
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID key = ImGui::GetID("query");
  float y = box.y0 + kSoftmaxPad;
  std::vector<std::string> queries;
  for (std::size_t i = 0; i < std::min(rows.size(), kMostTabs); ++i)
    queries.push_back(std::to_string(rows[i].query));
  const int last = static_cast<int>(queries.size()) - 1;
  const int chosen = std::clamp(storage.GetInt(key, default_softmax_row(rows)), 0, last);
  const SoftmaxRow& row = rows[chosen];
  if (!session.panels.print) {
    const float label = draw_label(context, {left, y + 11}, {0, 0.5f}, "query") + 8;
    const ImVec2 tabs(left + label, y);
    const float room = width - label - 2;
    const int clicked = draw_tabs(context, "queries", tabs, queries, chosen, room);
    if (clicked != chosen) storage.SetInt(key, clicked);
    y = tab_boxes(context.fonts, tabs, queries, room).back().y0 + 32;
  }

  const RingMoment moment = session.moment(session.active);
  int current = -1;
  if (row.rank >= 0 && row.rank < static_cast<int>(moment.ranks.size()))
    current = moment.ranks[row.rank].step;
  const std::string about = fmt::format(
      "query {} on rank {} · batch entry 0, head 0 · what the row had is multiplied by the factor "
      "exp(old m - m), and the block adds its part of the row's final sum · lse = m + ln l",
      row.query, row.rank);
  y += draw_wrapped(context.fonts.small, {left, y}, width, context.palette.text_dim, about) + 8;
  ImGui::SetCursorScreenPos({left, y});
  const float wide = std::min(width, kMostSoftmax);
  draw_table(context, row, wide, current);
  // The curves take what is left of the panel, or as much as they can be read in.
  y = ImGui::GetItemRectMax().y + 18;
  const float end = y + std::clamp(box.y0 + ImGui::GetWindowHeight() - kSoftmaxPad - y, 110.0f,
                                   session.panels.print ? 130.0f : 240.0f);
  draw_curves(context, row, {left, y, left + wide, end}, current);
  ImGui::SetCursorScreenPos(box.min());
  ImGui::Dummy({1, end + kSoftmaxPad - box.y0});
}

}  // namespace

void draw_softmax(const PanelContext& context) {
  const Box whole = content_box();
  if (whole.width() < 60 || whole.height() < 40) return;
  const std::vector<SoftmaxRow> rows = softmax_rows(context.session.document().trace);
  if (rows.empty()) {
    draw_empty(
        context, whole, "No softmax state in this trace",
        "Recordings made with run --trace keep row_max, row_sum and lse of a few query rows.");
    return;
  }
  draw_child("softmax", {0, 0}, 0, [&] { draw_rows(context, rows); });
}

}  // namespace ringscope::viz
