// Every rank's wall time as one bar: computing, and what the rest of it was lost to.
#pragma once

#include <array>
#include <string_view>

#include "viz/model/analysis/losses.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

inline constexpr int kLossParts = 5;
inline constexpr std::array<std::string_view, kLossParts> kLossNames = {
    "computing", "imbalance", "late rank", "link", "overhead"};
// Nanoseconds under the headings above; they add up to the wall time.
std::array<std::int64_t, kLossParts> loss_parts(const RankLoss& loss);
Color loss_color(const Palette& palette, int part);

// How high the bars and their legend are for so many ranks at this width.
float losses_height(const PanelContext& context, const LossReport& losses, float width);
// Draws them from `top_left`. A click on a bar selects its rank.
void draw_losses(const PanelContext& context, const LossReport& losses, ImVec2 top_left,
                 float width);

}  // namespace ringscope::viz
