// Shows all ranks x steps of a recording at once: a heat map, grouped by node, in which the ranks that
// differ most come first. A click moves the playhead to a slice, a
// double click shows it among the other slices of its rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "viz/panels/balance/balance_heatmap.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kTabsHeight = 26, kReadableRow = 14;
constexpr int kMostHighRows = 8;

using Nodes = std::vector<std::vector<int>>;

// Which ranks are shown in which order, and from what their values are told apart.
struct Shown {
  std::vector<int> order;
  std::vector<double> usual;  // [step]
  double largest = 1;         // difference, or value, in full colour
  bool alike = false;         // nothing differs, so values are shown
};

// Return what is shown now: the recorded ranks. Nodes stay together.
Shown shown_of(const Session& session, const Nodes& nodes, const Deviations& found) {
  std::vector<std::vector<int>> groups = nodes;
  const WorkTable& balance = session.document().balance;
  for (std::vector<int>& ranks : groups)
    std::erase_if(ranks, [&](int r) { return !balance.recorded[r]; });
  std::erase_if(groups, [](const std::vector<int>& ranks) { return ranks.empty(); });
  if (session.rank_map.by_deviation) {
    const auto more = [&](int a, int b) { return found.by_rank[a] > found.by_rank[b]; };
    for (std::vector<int>& ranks : groups) std::stable_sort(ranks.begin(), ranks.end(), more);
    std::stable_sort(groups.begin(), groups.end(),
                     [&](const auto& a, const auto& b) { return more(a[0], b[0]); });
  }
  Shown shown;
  for (const std::vector<int>& ranks : groups)
    shown.order.insert(shown.order.end(), ranks.begin(), ranks.end());
  shown.usual = found.usual;
  // What differs by little, beside the values or what a step takes, stays quiet.
  constexpr double kLittle = 0.1, kNothing = 0.001;
  const double mean = std::accumulate(found.usual.begin(), found.usual.end(), 0.0) / balance.steps;
  const double most = *std::max_element(found.by_rank.begin(), found.by_rank.end());
  shown.alike = most <= kNothing * std::abs(mean);
  if (shown.alike) {
    // All in full colour would look like an alarm.
    shown.largest = 3 * kHeatMetrics[session.rank_map.metric].largest(balance);
    return shown;
  }
  shown.largest = std::max(most, kLittle * std::abs(mean));
  if (session.rank_map.metric == 2 || session.rank_map.metric == 3)  // times
    shown.largest = std::max(shown.largest, kLittle * 1e9 * balance.wall_s / balance.steps);
  return shown;
}

const Shown& kept_shown(const Session& session, const Nodes& nodes) {
  const WorkTable& balance = session.document().balance;
  const std::tuple table(session.document().number, session.rank_map.metric);
  const Deviations& found = kept(
      table, [&] { return deviations_of(balance, kHeatMetrics[session.rank_map.metric].figure); });
  return kept(std::tuple_cat(table, std::tuple(session.rank_map.by_deviation)),
              [&] { return shown_of(session, nodes, found); });
}

// Draw what is shown, what it is sorted by, and the way to the slices. Return the height.
float draw_head(const PanelContext& context, const Box& box, const Nodes& nodes) {
  Session& session = context.session;
  const std::vector<bool>& ranks = session.document().balance.recorded;
  const auto recorded = static_cast<std::size_t>(std::count(ranks.begin(), ranks.end(), true));
  std::string text = counted(ranks.size(), "rank");
  if (nodes.size() > 1) text += fmt::format(" on {} nodes", nodes.size());
  if (recorded < ranks.size()) text += fmt::format(", {} recorded", recorded);
  float x =
      box.x0 + 10 +
      draw_text(context.fonts.strong, {box.x0, box.y0 + 2}, {0, 0}, context.palette.text, text);
  x += 8;
  choose_metric(context, {x, box.y0}, &x);
  x += 24;
  const std::vector<std::string> orders = {"outliers first", "by rank"};
  const float end = tab_boxes(context.fonts, {x, box.y0}, orders).back().x1;
  if (end < box.x1 && !session.panels.bare)
    session.rank_map.by_deviation = draw_tabs(context, "order", {x, box.y0}, orders,
                                              session.rank_map.by_deviation ? 0 : 1) == 0;
  const std::string_view legend =
      kept_shown(session, nodes).alike
          ? "all ranks are alike: stronger is more"
          : "orange: more than the median rank at this step; blue: less";
  if (text_width(context.fonts.small, legend) + end + 100 < box.x1)
    draw_label(context, {end + 16, box.y0 + 4}, {0, 0}, legend);
  const std::vector<std::string> slices = {"Slices"};
  const float wide = tab_boxes(context.fonts, {0, 0}, slices)[0].width();
  if (end + wide + 12 < box.x1 && !session.panels.bare &&
      draw_tabs(context, "slices", {box.x1 - wide, box.y0}, slices, -1) == 0)
    session.show_overview(false);
  return kTabsHeight;
}

// Separate the nodes, and name those that have room for it.
void draw_nodes(const PanelContext& context, const HeatLayout& layout, const Nodes& nodes) {
  const Palette& palette = context.palette;
  if (nodes.size() < 2) return;
  const int size = nodes[0].size();
  float last = -1e9f;
  for (int row = 0, end = 0; row < layout.ranks; row = end) {
    const int node = layout.rank_of(row) / size;
    while (end < layout.ranks && layout.rank_of(end) / size == node) ++end;
    const float top = layout.top_of(row), bottom = layout.top_of(end);
    if (row > 0 && bottom - top >= 12)
      draw_list().AddLine({layout.box.x0 - 4, top - 0.5f}, {layout.box.x1, top - 0.5f},
                          with_alpha(palette.text_dim, 0.4), 1);
    const float y = (top + bottom) / 2;
    if (y - last < 13.5f) continue;
    last = y;
    draw_text(context.fonts.small, {layout.box.x0 - 62, y}, {1, 0.5f}, palette.text,
              fmt::format("node {}", node));
  }
}

// Return the flags of notes on the ranks that are shown.
std::vector<NoteFlag> flags_of(const Document& document, const HeatLayout& layout) {
  std::vector<NoteFlag> flags;
  for (const Note& note : document.notes) {
    const int row = layout.row_of(note.rank);
    if (row < 0) continue;
    const double step =
        document.axis.position(AxisMode::steps, note.rank, document.trace.begin_ns + note.ns);
    const float x = std::floor(layout.box.at(step / layout.steps, 0).x);
    const Box line{x, layout.top_of(row), x + 1, layout.top_of(row + 1)};
    flags.push_back(note_flag(note, line, line.y1, layout.box.x1));
  }
  return flags;
}

void draw_cells(const PanelContext& context, const Box& box, const Nodes& nodes) {
  Session& session = context.session;
  const Document& document = session.document();
  const WorkTable& balance = document.balance;
  const int forward = document.axis.forward_steps();
  HeatLayout layout;
  const Shown& shown = kept_shown(session, nodes);
  layout.order = shown.order;
  layout.ranks = static_cast<int>(layout.order.size());
  layout.steps = balance.steps;
  layout.box = {box.x0 + (nodes.size() > 1 ? 124.0f : 62.0f),
                box.y0 + (forward < balance.steps ? 38.0f : 22.0f), box.x1, box.y1 - kHeatScale};
  if (layout.box.height() < 20 || layout.box.width() < 40) return;
  // Where rows are too low to be read, the first ones get the height of a line.
  if (session.rank_map.by_deviation && layout.box.height() < kReadableRow * layout.ranks) {
    layout.high = kReadableRow;
    layout.high_rows =
        std::min(kMostHighRows, static_cast<int>(layout.box.height() / 2 / kReadableRow));
  }
  HeatPaint paint;
  paint.slot = "rank map";
  paint.metric = kHeatMetrics[session.rank_map.metric];
  paint.largest = shown.largest;
  if (!shown.alike) paint.usual = &shown.usual;
  if (session.marks_now()) paint.current_step = session.step_now(session.active);
  const std::vector<NoteFlag> flags = flags_of(document, layout);
  touch_notes(session, flags);
  const auto hit = draw_heatmap(context, session.active, layout, balance, paint);
  draw_nodes(context, layout, nodes);
  draw_note_flags(context, document.trace, flags);
  if (!hit) return;
  const auto [rank, step] = *hit;
  draw_cell_tooltip(context, document, rank, step);
  if (!ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) return;
  session.open_slice(rank, step);
  // Rows become high enough for words.
  constexpr float kRowsForWords = 5;
  timeline_state().row_scale = std::max(timeline_state().row_scale, kRowsForWords);
}

}  // namespace

void draw_rank_map(const PanelContext& context) {
  Session& session = context.session;
  const Document& document = session.document();
  const Box box = content_box();
  if (!session.rank_map.shown || document.balance.ranks == 0 || box.width() < 200 ||
      box.height() < 80)
    return;
  const Nodes nodes = nodes_of(document.trace.info);
  const float head = draw_head(context, box, nodes);
  if (session.rank_map.shown)
    draw_cells(context, {box.x0, box.y0 + head + 2, box.x1, box.y1}, nodes);
}

}  // namespace ringscope::viz
