// Draws every rank's wall time as one bar: its computing, and the causes that took up the rest.
#pragma once

#include <array>
#include <string_view>

#include "viz/model/analysis/idle_time.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

inline constexpr int kIdleParts = 5;
inline constexpr std::array<std::string_view, kIdleParts> kIdleNames = {
    "computing", "imbalance", "late rank", "link", "overhead"};
// Return the nanoseconds under the headings above. They add up to the wall time.
std::array<std::int64_t, kIdleParts> idle_parts(const RankIdle& rank_idle);
Color idle_color(const Palette& palette, int part);

// Return the height of the bars and their legend at this width.
float idle_height(const PanelContext& context, const IdleReport& idle, float width);
// Draw the bars and their legend from `top_left`. A click on a bar selects its rank.
void draw_idle(const PanelContext& context, const IdleReport& idle, ImVec2 top_left, float width);

}  // namespace ringscope::viz
