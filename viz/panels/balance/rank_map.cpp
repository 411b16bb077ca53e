// Shows all ranks x steps of a recording at once: a heat map, grouped by node, in which the ranks that
// differ most come first, and beside it the matrix of links. A click leads to a node, then to a slice.
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

constexpr float kTabsHeight = 26, kLeastWithLinks = 820, kReadableRow = 14, kLeastMatrix = 120;
constexpr int kMostHighRows = 8;
constexpr double kSlowLinkFrom = 2;  // times the usual time for the same bytes

using Nodes = std::vector<std::vector<int>>;

// Which ranks are shown in which order, and from what their values are told apart.
struct Shown {
  std::vector<int> order;
  std::vector<double> usual;  // [step]
  double largest = 1;         // difference in full colour
};

// Return what make() returns, from memory while `key` is the same: it takes long for many ranks.
template <class Key, class Make>
const auto& kept(const Key& key, Make&& make) {
  static std::pair<Key, decltype(make())> last;
  if (last.first != key) last = {key, make()};
  return last.second;
}

// Return what is shown now: the recorded ranks. Nodes stay together.
Shown shown_of(const Session& session, const Nodes& nodes, const Deviations& found) {
  std::vector<std::vector<int>> groups = nodes;
  if (session.node >= 0) groups = {nodes[session.node]};
  const WorkTable& balance = session.document().balance;
  for (std::vector<int>& ranks : groups)
    std::erase_if(ranks, [&](int r) { return !balance.recorded[r]; });
  std::erase_if(groups, [](const std::vector<int>& ranks) { return ranks.empty(); });
  if (session.by_deviation) {
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
  constexpr double kLittle = 0.1;
  const double mean = std::accumulate(found.usual.begin(), found.usual.end(), 0.0) / balance.steps;
  shown.largest = std::max(*std::max_element(found.by_rank.begin(), found.by_rank.end()),
                           kLittle * std::abs(mean));
  if (session.heat_metric == 2 || session.heat_metric == 3)  // times
    shown.largest = std::max(shown.largest, kLittle * 1e9 * balance.wall_s / balance.steps);
  return shown;
}

const Shown& kept_shown(const Session& session, const Nodes& nodes) {
  const WorkTable& balance = session.document().balance;
  const std::tuple table(session.document().number, session.heat_metric);
  const Deviations& found =
      kept(table, [&] { return deviations_of(balance, kHeatMetrics[session.heat_metric].figure); });
  return kept(std::tuple_cat(table, std::tuple(session.by_deviation, session.node)),
              [&] { return shown_of(session, nodes, found); });
}

// Draw what is shown, what it is sorted by, and the way back. Return the height.
float draw_head(const PanelContext& context, const Box& box, const Nodes& nodes) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  float x = box.x0;
  const auto words = [&](const std::string& text, bool link) {
    const float wide = text_width(context.fonts.strong, text);
    const Touch touched = link ? touch(text.c_str(), {x, box.y0, x + wide, box.y0 + 20}) : Touch{};
    draw_text(context.fonts.strong, {x, box.y0 + 2}, {0, 0},
              touched.hovered ? palette.text
              : link          ? palette.accent
                              : palette.text,
              text);
    x += wide + 10;
    return touched.clicked;
  };
  const std::vector<bool>& ranks = session.document().balance.recorded;
  const auto recorded = static_cast<std::size_t>(std::count(ranks.begin(), ranks.end(), true));
  if (words(counted(ranks.size(), "rank") +
                (recorded < ranks.size() ? fmt::format(", {} recorded", recorded) : ""),
            session.node >= 0))
    session.show_overview(true);
  if (session.node >= 0)
    words(fmt::format("node {}", session.node), false);
  else if (nodes.size() > 1)
    x += draw_text(context.fonts.text, {x, box.y0 + 2}, {0, 0}, palette.text_dim,
                   fmt::format("on {} nodes", nodes.size())) +
         10;
  x += 8;
  choose_metric(context, {x, box.y0}, &x);
  x += 24;
  const std::vector<std::string> orders = {"outliers first", "by rank"};
  const float end = tab_boxes(context.fonts, {x, box.y0}, orders).back().x1;
  if (end < box.x1)
    session.by_deviation =
        draw_tabs(context, "order", {x, box.y0}, orders, session.by_deviation ? 0 : 1) == 0;
  constexpr std::string_view kLegend = "orange: more than the median rank at this step; blue: less";
  if (text_width(context.fonts.small, kLegend) + end + 100 < box.x1)
    draw_label(context, {end + 16, box.y0 + 4}, {0, 0}, kLegend);
  const std::vector<std::string> slices = {"Slices"};
  const float wide = tab_boxes(context.fonts, {0, 0}, slices)[0].width();
  if (end + wide + 12 < box.x1 &&
      draw_tabs(context, "slices", {box.x1 - wide, box.y0}, slices, -1) == 0)
    session.show_overview(false);
  return kTabsHeight;
}

// Separate the nodes, and name those that have room for it.
void draw_nodes(const PanelContext& context, const HeatLayout& layout, const Nodes& nodes) {
  const Palette& palette = context.palette;
  if (nodes.size() < 2 || context.session.node >= 0) return;
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

void draw_cells(const PanelContext& context, const Box& box, const Nodes& nodes) {
  Session& session = context.session;
  const Document& document = session.document();
  const WorkTable& balance = document.balance;
  const bool grouped = nodes.size() > 1 && session.node < 0;
  const int forward = document.axis.forward_steps();
  HeatLayout layout;
  const Shown& shown = kept_shown(session, nodes);
  layout.order = shown.order;
  layout.ranks = static_cast<int>(layout.order.size());
  layout.steps = balance.steps;
  layout.box = {box.x0 + (grouped ? 124.0f : 62.0f),
                box.y0 + (forward < balance.steps ? 38.0f : 22.0f), box.x1, box.y1};
  if (layout.box.height() < 20 || layout.box.width() < 40) return;
  // Where rows are too low to be read, the first ones get the height of a line.
  if (session.by_deviation && layout.box.height() < kReadableRow * layout.ranks) {
    layout.high = kReadableRow;
    layout.high_rows =
        std::min(kMostHighRows, static_cast<int>(layout.box.height() / 2 / kReadableRow));
  }
  HeatPaint paint;
  paint.slot = "rank map";
  paint.metric = kHeatMetrics[session.heat_metric];
  paint.largest = shown.largest;
  paint.usual = &shown.usual;
  paint.current_step = common_step(session.moment(session.active));
  const auto hit = draw_heatmap(context, document, layout, balance, paint);
  draw_nodes(context, layout, nodes);
  if (!hit) return;
  const auto [rank, step, clicked, hovered] = *hit;
  if (hovered) draw_cell_tooltip(context, document, rank, step);
  if (!clicked) return;
  if (grouped) {
    session.node = rank / static_cast<int>(nodes[0].size());
    session.seek_step(step);
    session.select_rank(rank);
    return;
  }
  session.open_slice(rank, step);
  // Rows become high enough for words.
  constexpr float kRowsForWords = 5;
  timeline_state().row_scale = std::max(timeline_state().row_scale, kRowsForWords);
}

// ---
// The matrix of links, from each sender (down) to each receiver (across).

Color link_color(const Palette& palette, double slowness) {
  if (slowness < kSlowLinkFrom) return mix(palette.panel, palette.accent, 0.6);
  return mix(mix(palette.panel, palette.warning, 0.5), palette.warning,
             std::min(1.0, std::log2(slowness / kSlowLinkFrom) / 2));
}

void draw_link_matrix(const PanelContext& context, const Box& box, const Nodes& nodes) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const Document& document = session.document();
  const std::vector<LinkHistory::Carried>& links = document.links.links;
  const auto slow = std::count_if(links.begin(), links.end(), [](const LinkHistory::Carried& link) {
    return link.slowness >= kSlowLinkFrom;
  });
  draw_text(context.fonts.text, {box.x0, box.y0 - kTabsHeight + 2}, {0, 0}, palette.text, "Links",
            box.width());
  draw_label(context, {box.x0 + 44, box.y0 - kTabsHeight + 4}, {0, 0},
             slow == 0 ? fmt::format("{}, all alike", links.size())
                       : fmt::format("{} of {} slow", slow, links.size()),
             box.width() - 44);
  draw_label(context, {box.x0, box.y0 + 16}, {0, 1}, "sender down, receiver across", box.width());
  const float side = std::min(box.width(), box.height() - 22);
  const Box square{box.x0, box.y0 + 22, box.x0 + side, box.y0 + 22 + side};
  fill(square, mix(palette.panel, palette.text, 0.05));
  const float cell = side / document.balance.ranks;
  const auto place = [&](const LinkHistory::Carried& link) {
    const float least = std::max(cell, 3.0f) / 2;
    const float x = square.x0 + cell * (link.dst + 0.5f);
    const float y = square.y0 + cell * (link.src + 0.5f);
    return Box{std::max(x - least, square.x0), std::max(y - least, square.y0),
               std::min(x + least, square.x1), std::min(y + least, square.y1)};
  };
  const float node = cell * nodes[0].size();
  for (std::size_t i = 1; i < nodes.size() && node >= 8; ++i) {
    const float at = node * i;
    const Color line = with_alpha(palette.grid, 0.9);
    draw_list().AddLine({square.x0 + at, square.y0}, {square.x0 + at, square.y1}, line);
    draw_list().AddLine({square.x0, square.y0 + at}, {square.x1, square.y0 + at}, line);
  }
  // Slow links are drawn last, over the others.
  for (const bool slow_ones : {false, true})
    for (const LinkHistory::Carried& link : links)
      if ((link.slowness >= kSlowLinkFrom) == slow_ones)
        fill(place(link), link_color(palette, link.slowness));
  outline(square, palette.panel_border);

  const Touch touched = touch("links", square);
  if (!touched.hovered) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const LinkHistory::Carried* nearest = nullptr;
  float distance = 6;  // pixels
  for (const LinkHistory::Carried& link : links) {
    const ImVec2 at = place(link).center();
    const float away = std::hypot(at.x - mouse.x, at.y - mouse.y) - cell / 2;
    if (away >= distance) continue;
    nearest = &link;
    distance = away;
  }
  if (nearest == nullptr) return;
  const LinkHistory::Carried& link = *nearest;
  draw_tooltip(context, fmt::format("link from {} to {}", link.src, link.dst),
               {{"bandwidth", bandwidth_text(1e9 * link.bytes.back() /
                                             std::max<std::int64_t>(link.under_way_ns, 1))},
                {"times the usual time", words_of_factor(link.slowness)},
                {"carried", bytes_text(static_cast<double>(link.bytes.back()))},
                {"messages", count_text(static_cast<double>(link.ends.size()))}});
  if (touched.clicked) session.select_rank(link.dst);
}

}  // namespace

void draw_rank_map(const PanelContext& context) {
  Session& session = context.session;
  const Document& document = session.document();
  const Box box = content_box();
  if (!session.overview || document.balance.ranks == 0 || box.width() < 200 || box.height() < 80)
    return;
  const Nodes nodes = nodes_of(*document.trace.run);
  Box map = box;
  const float top = box.y0 + kTabsHeight + 2;
  const float matrix = std::min(box.y1 - top - 22, box.width() / 4);
  const bool links = box.width() >= kLeastWithLinks && matrix >= kLeastMatrix;
  if (links) map.x1 -= matrix + 24;
  map.y0 += draw_head(context, map, nodes) + 2;
  if (!session.overview) return;
  draw_cells(context, map, nodes);
  if (links && session.overview)
    draw_link_matrix(context, {map.x1 + 24, top, box.x1, box.y1}, nodes);
}

}  // namespace ringscope::viz
