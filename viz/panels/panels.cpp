// Draws four short panels: how a run failed, the list of keys, the details of a slice, and the table
// of the selected ones.
#include "viz/panels/panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "viz/data/analysis/findings.h"
#include "viz/data/session/format.h"
#include "viz/data/session/selection.h"
#include "viz/panels/drawing.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {

// ---
// Says how and where a failed run ended. A click goes there.

void draw_failure(const PanelContext& context) {
  Session& session = context.session;
  const Document& document = session.document();
  if (!document.trace.info.failure) return;
  const RunEnd& end = *document.trace.info.failure;
  const Palette& palette = context.palette;
  const Box box = content_box();
  const Touch touched = touch("failure", box);
  if (touched.hovered) fill(box, with_alpha(palette.warning, 0.1), 4);
  if (touched.clicked) session.go_to_failure();
  const float y = box.center().y;
  // The exclamation mark stands on a drawn disc, so it needs no special glyph.
  draw_list().AddCircleFilled({box.x0 + 8, y}, 8, palette.warning, 24);
  draw_text(context.fonts.small, {box.x0 + 8, y}, {0.5f, 0.5f}, ink_on(palette.warning), "!");
  float x = box.x0 + 24;
  std::string where = "This run failed";
  // A circle has no culprit.
  const bool circle = !circle_of(document.trace, document.unfinished).empty();
  if (circle)
    where += " in a circle of waits";
  else if (end.rank >= 0)
    where += fmt::format(" on rank {}", end.rank);
  if (end.step >= 0)
    where += fmt::format("{} {}", end.rank >= 0 && !circle ? "," : " at",
                         words_of_failed_step(document.trace, document.unfinished));
  x += draw_text(context.fonts.strong, {x, y}, {0, 0.5f}, palette.warning, where, box.x1 - x) + 14;
  std::string message = end.message;
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return c < ' '; }, ' ');
  if (x < box.x1)
    draw_text(context.fonts.text, {x, y}, {0, 0.5f}, palette.text, message, box.x1 - x);
}

// ---
// Lists every key over everything else, from the same table that the keys are handled by.

void draw_help(const PanelContext& context) {
  constexpr float kColumn = 430, kMargin = 24;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const auto lines = help_lines();
  const int columns = display.x >= 2 * kColumn + 4 * kMargin ? 2 : 1;
  const float width = std::min(columns * kColumn + 2 * kMargin, display.x - 2 * kMargin);

  if (begin_over_all(context.palette, "help", width)) {
    write(context.fonts.title, context.palette.text, "Keys and mouse");
    ImGui::SameLine(0, 16);
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("? or Esc closes this");
    ImGui::Spacing();
    const auto across = static_cast<std::size_t>(columns);
    const std::size_t down = (lines.size() + across - 1) / across;
    if (ImGui::BeginTable("keys", 2 * columns, ImGuiTableFlags_SizingStretchProp)) {
      for (int c = 0; c < columns; ++c) {
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed);
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
      }
      for (std::size_t i = 0; i < across * down; ++i) {
        const std::size_t at = i % across * down + i / across;
        ImGui::TableNextColumn();
        if (at < lines.size())
          write(context.fonts.text, context.palette.accent, std::string(lines[at].keys));
        ImGui::TableNextColumn();
        if (at < lines.size()) ImGui::TextWrapped("%s", std::string(lines[at].text).c_str());
      }
      ImGui::EndTable();
    }
    const bool outside = ImGui::IsMouseClicked(ImGuiMouseButton_Left) &&
                         !ImGui::IsWindowHovered(ImGuiHoveredFlags_RootAndChildWindows);
    if (outside) context.session.panels.help = false;
  }
  ImGui::End();
}

// ---
// Describes the selected or hovered slice in one line of words and numbers. Without a slice, the
// line shows the size of the trace, and tells newcomers what the mouse does.

namespace {

// Draw the line. The mark in front of it has the colour of the slice on the timeline.
void draw_slice(const PanelContext& context, const Box& box, SliceId id, std::string_view which) {
  const Trace& trace = context.session.document().trace;
  const Palette& palette = context.palette;
  const float y = (box.y0 + box.y1) / 2;
  const Color color = slice_color(context.session.look.theme, context.session.look.color_by,
                                  trace.slice(id), trace.info.world_size);
  fill({box.x0, y - 6, box.x0 + 12, y + 6}, color, 3);
  float x = box.x0 + 20;
  const auto add = [&](std::string_view text, Color ink) {
    const std::string part = fitted(context.fonts.text, text, box.x1 - x);
    x += draw_text(context.fonts.text, {x, y}, {0, 0.5f}, ink, part) + 14;
    return part == text;
  };
  if (!add(slice_headline(trace, id), palette.text)) return;
  for (const auto& [name, value] : slice_facts(trace, id)) {
    const float from = x;
    if (!add(name + " " + value, palette.text_dim)) return;
    const std::string term = name.ends_with('s') ? name.substr(0, name.size() - 1) : name;
    if (const std::string meaning = meaning_of(term);
        !meaning.empty() && touch(name.c_str(), {from, box.y0, x - 14, box.y1}).hovered)
      draw_meaning(context, meaning);
  }
  const float width = text_width(context.fonts.small, which);
  if (x + width <= box.x1) draw_label(context, {box.x1, y}, {1, 0.5f}, which);
}

// Tell a newcomer what the mouse does in the timeline, until they have used it there.
void draw_hint(const PanelContext& context, const Box& box, float used) {
  constexpr std::string_view kHint =
      "wheel zooms \u00b7 drag measures \u00b7 right-drag pans \u00b7 click selects \u00b7 ? lists "
      "keys";
  ImFont* font = context.fonts.small;
  if (timeline_state().touched || used + text_width(font, kHint) + 24 > box.width()) return;
  draw_label(context, {box.x1, box.center().y}, {1, 0.5f}, kHint);
}

}  // namespace

void draw_details(const PanelContext& context) {
  const Session& session = context.session;
  const Trace& trace = session.document().trace;
  const Box box = content_box();
  const auto valid = [&trace](const std::optional<SliceId>& id) {
    return id && id->row < trace.rows.size() && id->index < trace.rows[id->row].count;
  };
  if (valid(session.hovered)) return draw_slice(context, box, *session.hovered, "under the mouse");
  if (valid(session.selected)) return draw_slice(context, box, *session.selected, "selected");
  std::string text =
      fmt::format("{} slices \u00b7 {} \u00b7 {}", count_text(trace.slice_count),
                  trace.is_ring             ? counted(trace.ranks.size(), "rank")
                  : trace.ranks.size() == 1 ? std::string("1 process")
                                            : fmt::format("{} processes", trace.ranks.size()),
                  time_text(trace.wall_ns()));
  if (trace.is_ring) {
    const Axis& axis = session.document().axis;
    for (const auto& [name, value] : facts_of(trace.info, axis.steps() > axis.forward_steps())) {
      if (name == "command" || name == "version") break;  // who made the file takes too much room
      text +=                                             // a number does not say what it is of
          " \u00b7 " + (value[0] >= '0' && value[0] <= '9' ? name + " " + value : value);
    }
  }
  for (const std::string& notice : trace.notices) text += " \u00b7 " + notice;
  const float used = draw_text(context.fonts.text, {box.x0, box.center().y}, {0, 0.5f},
                               context.palette.text_dim, text, box.width());
  draw_hint(context, box, used);
}

// ---
// Lists the slices that are found, measured or of the selected rank: their sums by kind, rank or
// step, and a table that sorts by a click on its heads. A click on a line goes to the slice.

namespace {

constexpr ImGuiTableFlags kTable = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                                   ImGuiTableFlags_SizingStretchSame |
                                   ImGuiTableFlags_BordersInnerH;
constexpr int kMostSpreads = 9;  // lines without scrolling

// The tabs of the sums: spreads in the order of SliceOrder, then overlaps.
constexpr int kOverlapByRank = 4, kOverlapByLayer = 5;

// Everything that the selection depends on.
using TableKey =
    std::tuple<std::uint64_t, std::string, int, double, double, std::vector<int>, AxisMode>;

// What the panel keeps from frame to frame: the slices as they are sorted, and their sums.
struct Kept {
  TableKey key;
  Selection selection;
  int tab = 0;
  std::vector<Spread> spreads;
  std::vector<NamedOverlap> overlaps;
  std::vector<DurationBin> bins;
};

Kept& kept_for(const Session& session) {
  static Kept kept;
  const Measure span = session.measure.value_or(Measure{-1, -1});
  TableKey key(session.document().number, session.sought.text, session.selected_rank, span.from,
               span.to, span.ranks, session.axis_mode);
  if (kept.key == key) return kept;
  kept = {std::move(key), selection_of(session), kept.tab, {}, {}, {}};
  kept.bins = durations_of(session.document().trace, kept.selection.slices);
  return kept;
}

void cell(const std::string& text) {
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(text.c_str());
}

// Begin the table of the sums, with the lines that have room. Return whether it is seen.
bool begin_sums(std::size_t lines, int most, std::initializer_list<const char*> heads) {
  const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const auto shown = static_cast<float>(1 + std::min(most, static_cast<int>(lines)));
  if (!ImGui::BeginTable("sums", static_cast<int>(heads.size()), kTable, {0, shown * line + 2}))
    return false;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* head : heads) ImGui::TableSetupColumn(head, 0, head[0] == ' ' ? 1.4f : 1);
  ImGui::TableHeadersRow();
  return true;
}

void draw_spreads(const std::vector<Spread>& spreads) {
  if (!begin_sums(spreads.size(), kMostSpreads, {" ", "count", "sum", "median", "90 %", "most"}))
    return;
  for (const Spread& spread : spreads) {
    cell(spread.name);
    number_cell(count_text(spread.count));
    for (const std::int64_t ns :
         {spread.sum_ns, spread.median_ns, spread.most_last_ns, spread.most_ns})
      number_cell(time_text(ns));
  }
  ImGui::EndTable();
}

// Draw overlaps, each in a line of times and one of their shares of the span. What is overlapped is a share
// of the communication.
void draw_overlaps(const std::vector<NamedOverlap>& overlaps) {
  if (!begin_sums(2 * overlaps.size(), 2 * kMostSpreads,
                  {" ", "compute", "transfers", "overlap", "exposed", "idle"}))
    return;
  const auto share = [](std::int64_t part, std::int64_t of) {
    return percent_text(static_cast<double>(part) / std::max(static_cast<double>(of), 1.0));
  };
  for (const auto& [name, o] : overlaps) {
    cell(name);
    for (const std::int64_t ns : {o.compute, o.communication, o.overlapped(), o.exposed, o.idle()})
      number_cell(time_text(ns));
    ImGui::TableNextColumn();
    number_cell(share(o.compute, o.span));
    number_cell(share(o.communication, o.span));
    number_cell(share(o.overlapped(), o.communication) + " of it");
    number_cell(share(o.exposed, o.span));
    number_cell(share(o.idle(), o.span));
  }
  ImGui::EndTable();
}

// Draw the sums of what is selected, or how computing and communication overlap in the whole run.
void draw_sums(const PanelContext& context, Kept& kept) {
  Session& session = context.session;
  const Trace& trace = session.document().trace;
  std::vector<std::string> tabs = {"by kind", "by rank", "by step", "by owner"};
  if (trace.is_ring) tabs.emplace_back("overlap");
  if (trace.layers.size() > 1) tabs.emplace_back("by layer");
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float room = ImGui::GetContentRegionAvail().x - 80;
  const int last = static_cast<int>(tabs.size()) - 1;
  const int tab = draw_tabs(context, "by", at, tabs, std::min(kept.tab, last), room);
  const bool overlap = tab >= kOverlapByRank;
  if (tab != kept.tab || (kept.spreads.empty() && kept.overlaps.empty())) {
    kept.tab = tab;
    if (overlap)
      kept.overlaps = overlaps_of(session.document(), tab == kOverlapByLayer);
    else
      kept.spreads = spreads_of(trace, kept.selection, static_cast<SliceOrder>(tab));
  }
  ImGui::Dummy({1, tab_boxes(context.fonts, at, tabs, room).back().y1 - at.y + 2});
  ImGui::SameLine(room + 8);
  if (ImGui::SmallButton("Copy sums"))
    session.wishes.copied = overlap ? csv_of(kept.overlaps) : csv_of(kept.spreads);
  if (overlap)
    draw_overlaps(kept.overlaps);
  else
    draw_spreads(kept.spreads);
}

// Draw how many slices of each kind last how long, in a line per kind. The bin under the mouse is marked
// on the timeline, and a click goes to its first slice.
void draw_histogram(const PanelContext& context, const Kept& kept) {
  constexpr float kNames = 96, kHigh = 26, kGap = 4;
  Session& session = context.session;
  const Trace& trace = session.document().trace;
  for (int k = 0; k < kLaneKinds; ++k) {
    const Lane kind = static_cast<Lane>(k);
    std::int64_t most = 0;
    for (const DurationBin& bin : kept.bins) most = std::max(most, bin.counts[k]);
    if (most == 0) continue;
    const Box line = content_box();
    draw_label(context, {line.x0, line.y0 + kHigh / 2}, {0, 0.5f}, name_of(kind), kNames);
    const float wide = (line.width() - kNames) / static_cast<float>(kept.bins.size());
    for (std::size_t i = 0; i < kept.bins.size(); ++i) {
      const DurationBin& bin = kept.bins[i];
      if (bin.counts[k] == 0) continue;
      const float x = line.x0 + kNames + wide * static_cast<float>(i);
      const double share = static_cast<double>(bin.counts[k]) / static_cast<double>(most);
      const Box room{x, line.y0, x + wide - 1, line.y0 + kHigh};
      fill({x, std::min(room.at(0, 1 - share).y, room.y1 - 2), room.x1, room.y1},
           context.palette.of(kind));
      ImGui::PushID(k * 1000 + static_cast<int>(i));
      const Touch touched = touch("bin", room);
      ImGui::PopID();
      if (!touched.hovered && !touched.clicked) continue;
      session.sought.marked = slices_in(trace, kept.selection.slices, kind, bin);
      draw_tooltip(context, counted(bin.counts[k], "slice"),
                   {{"kind", std::string(name_of(kind))},
                    {"from", time_text(bin.from_ns)},
                    {"to", time_text(bin.to_ns - 1)}});
      if (!touched.clicked) continue;
      session.sought.found = {session.sought.marked, session.sought.marked.size(), ""};
      session.sought.at = 0;
      session.reveal(session.sought.marked.front());
    }
    draw_label(context, {line.x0 + kNames - 6, line.y0}, {1, 0}, count_text(most));
    ImGui::Dummy({1, kHigh + kGap});
  }
  // The durations at both ends and in the middle.
  const Box line = content_box();
  const auto at = [&](float share, std::int64_t ns) {
    draw_label(context, {line.x0 + kNames + share * (line.width() - kNames), line.y0}, {share, 0},
               time_text(ns));
  };
  at(0, kept.bins.front().from_ns);
  at(0.5f, kept.bins[kept.bins.size() / 2].from_ns);
  at(1, kept.bins.back().to_ns - 1);
  ImGui::Dummy({1, 18});
}

void draw_slices(const PanelContext& context, Kept& kept) {
  Session& session = context.session;
  const Trace& trace = session.document().trace;
  // In the order of SliceOrder.
  constexpr const char* kHeads[] = {"slice", "rank", "step", "owner", "begin", "time"};
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
  clipper.Begin(kept.selection.slices.size());
  while (clipper.Step())
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const SliceId id = kept.selection.slices[i];
      const TraceEvent& slice = trace.slice(id);
      ImGui::TableNextColumn();
      ImGui::PushID(i);
      if (ImGui::Selectable(slice_title(trace, id).c_str(), session.selected == id,
                            ImGuiSelectableFlags_SpanAllColumns))
        session.reveal(id);
      ImGui::PopID();
      number_cell(std::to_string(trace.rank_of_row(id.row)));
      number_cell(slice.step < 0 ? std::string()
                                 : fmt::format("{}{}", slice.pass == Pass::backward ? "back " : "",
                                               slice.step));
      number_cell(slice.kv_owner < 0 ? "" : std::to_string(slice.kv_owner));
      number_cell(time_text(slice.begin_ns - trace.begin_ns));
      number_cell(time_text(slice.duration_ns()));
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
  if (ImGui::Button("Copy CSV", {96, 0})) commands::copy_table(session);
  session.sought.marked.clear();
  if (kept.selection.slices.empty()) return;
  draw_sums(context, kept);
  ImGui::Spacing();
  draw_histogram(context, kept);
  draw_slices(context, kept);
}

}  // namespace ringscope::viz
