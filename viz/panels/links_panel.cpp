// The links between ranks: bytes, time and bandwidth of each, and the slowest ones. Links inside a node
// and between nodes are told apart, each kind with its own colour and scale.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "viz/data/session/format.h"
#include "viz/data/session/search.h"
#include "viz/panels/drawing.h"
#include "viz/panels/layouts.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

std::vector<LinkKind> link_kinds(const Document& document) {
  const RunInfo& info = document.trace.info;
  std::vector<LinkKind> kinds;
  for (const bool between : {false, true}) {
    LinkKind kind{.between_nodes = between};
    for (const LinkHistory::Carried& link : document.links.links)
      if (link.between_nodes == between) kind.links.push_back(&link);
    if (kind.links.empty()) continue;
    const bool has_nodes = info.machine && info.machine->nodes > 1;
    const std::string place = !has_nodes ? "" : between ? "between nodes" : "in a node";
    if (info.machine) kind.name = between ? info.machine->between : info.machine->link;
    kind.name = kind.name.empty() ? capitalized(place.empty() ? "links" : "links " + place)
                : place.empty()   ? kind.name
                                  : fmt::format("{}, {}", kind.name, place);
    std::stable_sort(kind.links.begin(), kind.links.end(), [](const auto* a, const auto* b) {
      return a->bytes_per_second() < b->bytes_per_second();
    });
    for (const Diagnosis& finding : document.why.findings)
      for (const auto& [from, to] : finding.alike)
        for (const LinkHistory::Carried* link : kind.links)
          if (link->src == from && link->dst == to) kind.slow.insert(link);
    for (std::size_t m = 0; m < std::size(kLinkMetrics); ++m)
      for (const LinkHistory::Carried* link : kind.links)
        kind.largest[m] = std::max(kind.largest[m], kLinkMetrics[m].of(*link));
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

namespace {

constexpr float kLinksPad = 10, kLinksColumn = 190, kLeastSquare = 150;

Color shade(const Palette& palette, const LinkKind& kind, double share) {
  return heat_shade(palette, kind.between_nodes ? palette.warning : palette.accent, share);
}

void draw_link_tooltip(const PanelContext& context, const LinkKind& kind,
                       const LinkHistory::Carried& link) {
  const double median = kind.median().bytes_per_second();
  draw_tooltip(context, fmt::format("rank {} to rank {}", link.src, link.dst),
               {{"link", kind.name},
                {"messages", std::to_string(link.ends.size())},
                {"bytes", bytes_text(link.bytes.back())},
                {"time on the way", time_text(link.under_way_ns)},
                {"bandwidth", bandwidth_text(link.bytes_per_second())},
                {"of the median link's", percent_text(link.bytes_per_second() / median)}});
}

void go_to_link(Session& session, const LinkHistory::Carried& link) {
  if (const auto longest =
          longest_slice(session.document().trace, link.dst, Lane::recv,
                        [&](const TraceEvent& recv) { return recv.peer() == link.src; }))
    session.reveal(*longest, true);
}

// Draw the ranks that send, downwards, by those that receive.
void draw_link_map(const PanelContext& context, const std::vector<LinkKind>& kinds,
                   std::size_t metric, const Box& box) {
  Session& session = context.session;
  const Document& document = session.document();
  const Palette& palette = context.palette;
  const int n = document.trace.info.world_size;
  const float cell = box.width() / static_cast<float>(n);
  draw_painted(context, "links", std::tuple(document.number, metric, palette.panel, n), box,
               [&](Image& image) {
                 image.fill(0, 0, image.width, image.height, heat_shade(palette, 0, 0));
                 const auto at = [&](int rank) { return rank * image.width / n; };
                 const int gap = image.width / n >= 6 ? 1 : 0;
                 for (const LinkKind& kind : kinds)
                   for (const LinkHistory::Carried* link : kind.links)
                     image.fill(at(link->dst), at(link->src),
                                std::max(at(link->dst + 1), at(link->dst) + 2) - gap,
                                std::max(at(link->src + 1), at(link->src) + 2) - gap,
                                shade(palette, kind, kind.share(metric, *link)));
               });
  outline({box.x0 - 1, box.y0 - 1, box.x1 + 1, box.y1 + 1}, palette.panel_border);

  const int every = static_cast<int>(round_step(std::max(1.0f, 22 / cell)));
  for (int rank = 0; rank < n; rank += every) {
    const auto [x, y] = box.at((rank + 0.5) / n, (rank + 0.5) / n);
    draw_label(context, {x, box.y0 - 4}, {0.5f, 1}, std::to_string(rank));
    draw_label(context, {box.x0 - 6, y}, {1, 0.5f}, std::to_string(rank));
  }
  draw_label(context, {box.x0 - 6, box.y0 - 4}, {1, 1}, "from");
  draw_label(context, {box.x1 + 6, box.y0 - 4}, {0, 1}, "to");

  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Touch touched = touch("link map", box);
  for (const LinkKind& kind : kinds)
    for (const LinkHistory::Carried* link : kind.links) {
      const Box place = Box::between(box.at(double(link->dst) / n, double(link->src) / n),
                                     box.at((link->dst + 1.0) / n, (link->src + 1.0) / n));
      const std::string text = kLinkMetrics[metric].text(kLinkMetrics[metric].of(*link));
      if (cell >= 18 && text_width(context.fonts.small, text) < cell - 4)
        draw_text(context.fonts.small, place.center(), {0.5f, 0.5f},
                  ink_on(shade(palette, kind, kind.share(metric, *link))), text);
      if (kind.is_slow(*link)) outline(place, palette.selection, 0, 2);
      if (!touched.hovered || !place.contains(mouse)) continue;
      draw_link_tooltip(context, kind, *link);
      if (touched.clicked) go_to_link(session, *link);
    }
}

// Say of each kind how many links there are and what they carry, and list the slowest of them, each of
// which leads to its longest message. Return the height.
float draw_slowest(const PanelContext& context, const std::vector<LinkKind>& kinds,
                   std::size_t metric, ImVec2 at, float width, float until) {
  const Palette& palette = context.palette;
  ImFont* const small = context.fonts.small;
  const float lines = (until - at.y) / 18 / static_cast<float>(kinds.size()) - 4;
  float y = at.y;
  for (const LinkKind& kind : kinds) {
    const auto text = [&](const LinkHistory::Carried& link) {
      return bandwidth_text(link.bytes_per_second());
    };
    y += draw_wrapped(context.fonts.strong, {at.x, y}, width, palette.text, kind.name) + 2;
    draw_scale(context, {at.x, y + 3}, "0", kLinkMetrics[metric].text(kind.largest[metric]),
               [&](double share) { return shade(palette, kind, share); });
    y += 18;
    y += draw_wrapped(small, {at.x, y}, width, palette.text_dim,
                      fmt::format("{}, the median has {}", counted(kind.links.size(), "link"),
                                  text(kind.median())));
    const auto most = std::min<std::size_t>(kind.links.size(), std::clamp(lines, 1.0f, 8.0f));
    for (std::size_t i = 0; i < most; ++i, y += 18) {
      const LinkHistory::Carried& link = *kind.links[i];
      const Box line{at.x - 4, y, at.x + width, y + 18};
      ImGui::PushID(&link);
      const Touch touched = touch("slow link", line);
      ImGui::PopID();
      if (touched.hovered) {
        fill(line, with_alpha(palette.text, 0.07), 4);
        draw_link_tooltip(context, kind, link);
      }
      if (touched.clicked) go_to_link(context.session, link);
      const float used =
          draw_text(small, {at.x, line.center().y}, {0, 0.5f}, palette.accent,
                    fmt::format("{}rank {} to {}",
                                i == 0 && text(link) != text(kind.median()) ? "slowest: " : "",
                                link.src, link.dst));
      draw_text(small, {line.x1 - 4, line.center().y}, {1, 0.5f},
                kind.is_slow(link) ? palette.warning : palette.text, text(link), width - used - 12);
    }
    y += 12;
  }
  const RunInfo& run = context.session.document().trace.info;
  if (shares_cores(run) && run.backend != "sim")
    y += draw_wrapped(small, {at.x, y}, width, palette.text_dim,
                      fmt::format("{} ranks shared {}: what a link took is also the scheduler's.",
                                  run.world_size, counted(run.machine->cores, "core")));
  return y - at.y;
}

}  // namespace

void draw_links(const PanelContext& context) {
  const Document& document = context.session.document();
  const Box whole = content_box();
  if (whole.width() < 60 || whole.height() < 40) return;
  if (document.links.links.empty())
    return draw_empty(context, whole, "No links in this trace",
                      "Recordings of several ranks made with --trace show here what each link "
                      "carried, and how fast.");
  draw_child("links", {0, 0}, 0, [&] {
    const Box box = content_box();
    const std::vector<LinkKind>& kinds =
        kept(document.number, [&] { return link_kinds(document); });
    ImGuiStorage& storage = *ImGui::GetStateStorage();
    const ImGuiID key = ImGui::GetID("metric");
    std::vector<std::string> words;
    for (const LinkMetric& metric : kLinkMetrics) words.emplace_back(metric.name);
    const ImVec2 top(box.x0 + kLinksPad, box.y0 + 4);
    const int metric = draw_title_tabs(context, "metric", top, words, storage.GetInt(key, 2));
    storage.SetInt(key, metric);

    const float wide = box.width() - 2 * kLinksPad, y = top.y + 46, gutter = 34;
    const bool column = wide >= kLinksColumn + kLeastSquare + gutter;
    const float room = box.y0 + ImGui::GetWindowHeight() - kLinksPad - y;
    const float side = std::clamp(std::min(room, wide - gutter - 24 - (column ? kLinksColumn : 0)),
                                  kLeastSquare, 1200.0f);
    const Box map{top.x + gutter, y, top.x + gutter + side, y + side};
    draw_link_map(context, kinds, static_cast<std::size_t>(metric), map);
    const ImVec2 list = column ? ImVec2(map.x1 + 36, top.y + 4) : ImVec2(top.x, map.y1 + 14);
    const float width = std::min(box.x1 - kLinksPad - list.x, kLinksColumn + 80);
    const float high = draw_slowest(context, kinds, static_cast<std::size_t>(metric), list, width,
                                    column ? y + room : list.y + 240);
    ImGui::SetCursorScreenPos(box.min());
    ImGui::Dummy({1, std::max(map.y1, list.y + high) + kLinksPad - box.y0});
  });
}

}  // namespace ringscope::viz
