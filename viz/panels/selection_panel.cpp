// Lists the slices that are found, measured or of the selected rank: their sums by kind, rank or
// step, and a table that sorts by a click on its heads. A click on a line goes to the slice.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "viz/model/session/format.h"
#include "viz/model/session/selection.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr ImGuiTableFlags kTable = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                                   ImGuiTableFlags_SizingStretchSame |
                                   ImGuiTableFlags_BordersInnerH;
constexpr int kMostSpreads = 9;  // lines without scrolling

// Everything that the selection depends on.
using TableKey = std::tuple<std::uint64_t, std::string, int, double, double, AxisMode>;

// What the panel keeps from frame to frame: the slices as they are sorted, and their sums.
struct Kept {
  TableKey key;
  Selection selection;
  SliceOrder by = SliceOrder::kind;
  std::vector<Spread> spreads;
};

Kept& kept_for(const Session& session) {
  static Kept kept;
  const Measure span = session.measure.value_or(Measure{-1, -1});
  TableKey key(session.document().number, session.search_text, session.selected_rank, span.from,
               span.to, session.axis_mode);
  if (kept.key == key) return kept;
  kept = {std::move(key), selection_of(session), kept.by, {}};
  return kept;
}

void cell(const std::string& text) {
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(text.c_str());
}

void draw_spreads(const PanelContext& context, Kept& kept) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const auto by = static_cast<SliceOrder>(
      draw_tabs(context, "by", at, {"by kind", "by rank", "by step"}, static_cast<int>(kept.by)));
  if (kept.spreads.empty() || by != kept.by)
    kept.spreads = spreads_of(context.session.document().trace, kept.selection.slices, by);
  kept.by = by;
  ImGui::Dummy({1, 24});
  const auto lines =
      static_cast<float>(1 + std::min(kMostSpreads, static_cast<int>(kept.spreads.size())));
  const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  if (!ImGui::BeginTable("spreads", 6, kTable, {0, lines * line + 2})) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* head : {" ", "count", "sum", "median", "least", "most"})
    ImGui::TableSetupColumn(head, 0, head[0] == ' ' ? 1.4f : 1);
  ImGui::TableHeadersRow();
  for (const Spread& spread : kept.spreads) {
    cell(spread.name);
    cell(count_text(spread.count));
    for (const std::int64_t ns : {spread.sum_ns, spread.median_ns, spread.least_ns, spread.most_ns})
      cell(time_text(ns));
  }
  ImGui::EndTable();
}

void draw_slices(const PanelContext& context, Kept& kept) {
  Session& session = context.session;
  const Trace& trace = session.document().trace;
  // In the order of SliceOrder.
  constexpr const char* kHeads[] = {"slice", "rank", "step", "begin", "time"};
  if (!ImGui::BeginTable("slices", std::size(kHeads), kTable | ImGuiTableFlags_Sortable)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* head : kHeads)
    ImGui::TableSetupColumn(head, *head == 'b' ? ImGuiTableColumnFlags_DefaultSort : 0,
                            head == kHeads[0] ? 1.8f : 1);
  ImGui::TableHeadersRow();
  ImGuiTableSortSpecs* const sorted = ImGui::TableGetSortSpecs();
  if (sorted != nullptr && sorted->SpecsDirty && sorted->SpecsCount > 0) {
    sort_slices(trace, kept.selection.slices, static_cast<SliceOrder>(sorted->Specs[0].ColumnIndex),
                sorted->Specs[0].SortDirection == ImGuiSortDirection_Descending);
    sorted->SpecsDirty = false;
  }
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(kept.selection.slices.size()));
  while (clipper.Step())
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const SliceId id = kept.selection.slices[static_cast<std::size_t>(i)];
      const Slice& slice = trace.slice(id);
      ImGui::TableNextColumn();
      ImGui::PushID(i);
      if (ImGui::Selectable(slice_title(trace, slice).c_str(), session.selected == id,
                            ImGuiSelectableFlags_SpanAllColumns))
        session.reveal(id);
      ImGui::PopID();
      cell(std::to_string(trace.rank_of_row(id.row)));
      cell(slice.step < 0
               ? std::string()
               : fmt::format("{}{}", slice.pass == Pass::backward ? "back " : "", slice.step));
      cell(time_text(slice.begin_ns - trace.begin_ns));
      cell(time_text(slice.duration_ns()));
    }
  ImGui::EndTable();
}

}  // namespace

void draw_selection_table(const PanelContext& context) {
  Session& session = context.session;
  Kept& kept = kept_for(session);
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(
      fitted(context.fonts.strong,
             counted(kept.selection.slices.size(), "slice") + ": " + kept.selection.words,
             width - 110)
          .c_str());
  ImGui::SameLine(width - 88);
  if (ImGui::Button("Copy CSV", {96, 0})) session.run(Command::copy_table);
  if (kept.selection.slices.empty()) return;
  draw_spreads(context, kept);
  ImGui::Spacing();
  draw_slices(context, kept);
}

}  // namespace ringscope::viz
