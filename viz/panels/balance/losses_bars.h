// Draws every rank's wall time as one bar: its computing, and the causes that took up the rest.
#pragma once

#include <array>
#include <string_view>

#include "viz/model/analysis/losses.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

inline constexpr int kLossParts = 5;
inline constexpr std::array<std::string_view, kLossParts> kLossNames = {
    "computing", "imbalance", "late rank", "link", "overhead"};
// Return the nanoseconds under the headings above. They add up to the wall time.
std::array<std::int64_t, kLossParts> loss_parts(const RankLoss& loss);
Color loss_color(const Palette& palette, int part);

// Return the height of the bars and their legend at this width.
float losses_height(const PanelContext& context, const LossReport& losses, float width);
// Draw the bars and their legend from `top_left`. A click on a bar selects its rank.
void draw_losses(const PanelContext& context, const LossReport& losses, ImVec2 top_left,
                 float width);

}  // namespace ringscope::viz
