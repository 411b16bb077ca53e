#include "viz/panels/balance/idle_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/panels/format.h"

namespace ringscope::viz {
namespace {

constexpr float kIdleLegendLine = 19, kIdleSwatch = 9, kMaxBar = 20, kMinBar = 3;

float bar_pitch(std::size_t ranks) {
  if (ranks <= 8) return kMaxBar + 6;
  return std::max(200.0f / static_cast<float>(ranks), kMinBar + 1);
}

struct LegendEntry {
  int part;
  std::string text;
  float x, y;
};

// Lay out the names with their totals, in as many lines as they need.
std::vector<LegendEntry> legend(const PanelContext& context, const IdleReport& idle, float width) {
  std::array<double, kIdleParts> totals{};
  for (const RankIdle& rank_idle : idle.ranks) {
    const auto parts = idle_parts(rank_idle);
    for (int i = 0; i < kIdleParts; ++i)
      totals[static_cast<std::size_t>(i)] +=
          static_cast<double>(parts[static_cast<std::size_t>(i)]);
  }
  const double whole =
      std::max(static_cast<double>(idle.wall_ns) * static_cast<double>(idle.ranks.size()), 1.0);
  std::vector<LegendEntry> entries;
  float x = 0, y = 0;
  for (int i = 0; i < kIdleParts; ++i) {
    const auto at = static_cast<std::size_t>(i);
    LegendEntry entry{i, fmt::format("{} {}", kIdleNames[at], percent_text(totals[at] / whole)), x,
                      y};
    const float wide = kIdleSwatch + 6 + text_width(context.fonts.small, entry.text) + 16;
    if (x > 0 && x + wide - 16 > width) {
      entry.x = x = 0;
      entry.y = y += kIdleLegendLine;
    }
    x += wide;
    entries.push_back(std::move(entry));
  }
  return entries;
}

void tooltip(const PanelContext& context, const IdleReport& idle, int rank) {
  const RankIdle& rank_idle = idle.ranks[static_cast<std::size_t>(rank)];
  const auto parts = idle_parts(rank_idle);
  const double wall = std::max(static_cast<double>(idle.wall_ns), 1.0);
  Pairs rows;
  for (std::size_t i = 0; i < kIdleParts; ++i)
    rows.emplace_back(kIdleNames[i],
                      fmt::format("{}   {}", time_text(static_cast<double>(parts[i])),
                                  percent_text(static_cast<double>(parts[i]) / wall)));
  rows.emplace_back("wall", time_text(static_cast<double>(idle.wall_ns)));
  rows.emplace_back("waited in all", time_text(static_cast<double>(rank_idle.wait_ns)));
  if (const int most = idle.waited_for_most(rank); most >= 0)
    rows.emplace_back("most of it for", fmt::format("rank {}", most));
  draw_tooltip(context, fmt::format("rank {}", rank), rows);
}

}  // namespace

std::array<std::int64_t, kIdleParts> idle_parts(const RankIdle& rank_idle) {
  return {rank_idle.compute_ns, rank_idle.imbalance_ns, rank_idle.late_ns, rank_idle.link_ns,
          rank_idle.overhead_ns};
}

Color idle_color(const Palette& palette, int part) {
  switch (part) {
    case 0:
      return mix(palette.panel, palette.accent, 0.85);
    case 1:
      return palette.warning;
    case 2:
      return palette.kind[static_cast<int>(Kind::communication)];
    case 3:
      return palette.kind[static_cast<int>(Kind::recv)];
    default:
      return mix(palette.panel, palette.text_dim, 0.45);
  }
}

float idle_height(const PanelContext& context, const IdleReport& idle, float width) {
  if (idle.ranks.empty()) return 0;
  return legend(context, idle, width).back().y + kIdleLegendLine + 8 +
         bar_pitch(idle.ranks.size()) * static_cast<float>(idle.ranks.size());
}

void draw_idle(const PanelContext& context, const IdleReport& idle, ImVec2 top_left, float width) {
  if (idle.ranks.empty() || width < 20) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Palette& palette = context.palette;
  const ImFont* font = context.fonts.small;
  float y = top_left.y;
  for (const LegendEntry& entry : legend(context, idle, width)) {
    const float x = top_left.x + entry.x;
    y = top_left.y + entry.y;
    fill(list, {x, y + 3, x + kIdleSwatch, y + 3 + kIdleSwatch}, idle_color(palette, entry.part),
         2);
    draw_text(list, font, {x + kIdleSwatch + 6, y + 1}, {0, 0}, palette.text_dim, entry.text);
  }
  y += kIdleLegendLine + 8;

  const int ranks = static_cast<int>(idle.ranks.size());
  const float pitch = bar_pitch(idle.ranks.size());
  const float gap = pitch > 12 ? 6 : 1;
  const float gutter = text_width(font, fmt::format("rank {}", ranks - 1)) + 10;
  const Box bars{top_left.x + gutter, y, top_left.x + width, y + pitch * static_cast<float>(ranks)};
  const double wall = std::max(static_cast<double>(idle.wall_ns), 1.0);
  const int every = std::max(1, static_cast<int>(std::ceil(15 / pitch)));
  for (int rank = 0; rank < ranks; ++rank) {
    const Box bar{bars.x0, y, bars.x1, y + pitch - gap};
    const auto parts = idle_parts(idle.ranks[static_cast<std::size_t>(rank)]);
    double done = 0;
    for (int i = 0; i < kIdleParts; ++i) {
      const double from = done;
      done += static_cast<double>(parts[static_cast<std::size_t>(i)]);
      const float x0 = bar.x0 + bar.width() * static_cast<float>(from / wall);
      const float x1 = bar.x0 + bar.width() * static_cast<float>(done / wall);
      if (x1 - x0 > 0.1f) fill(list, {x0, bar.y0, x1, bar.y1}, idle_color(palette, i));
    }
    const bool selected = context.session.selected_rank == rank;
    if (selected)
      outline(list, {bar.x0 - 2, bar.y0 - 2, bar.x1 + 2, bar.y1 + 2}, palette.selection, 3, 1.5f);
    if (rank % every == 0)
      draw_text(list, font, {top_left.x, bar.center().y}, {0, 0.5f},
                selected ? palette.text : palette.text_dim,
                rank == 0 || every == 1 ? fmt::format("rank {}", rank) : std::to_string(rank));
    y += pitch;
  }
  const Touch touched = touch("losses", bars);
  const int rank =
      std::clamp(static_cast<int>((ImGui::GetIO().MousePos.y - bars.y0) / pitch), 0, ranks - 1);
  if (touched.clicked) context.session.select_rank(rank);
  if (touched.hovered) tooltip(context, idle, rank);
}

}  // namespace ringscope::viz
