// Rank x step as a picture: the stronger a cell's colour, the more work (or waiting). Shared by the
// balance and compare panels.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "viz/model/analysis/balance.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

enum class HeatMetric { pairs, flops, time, waiting };

double heat_value(const Cell& cell, HeatMetric metric);
std::string heat_text(double value, HeatMetric metric);
double largest_value(const Balance& balance, HeatMetric metric);

// Where cells lie: `box` divided evenly.
struct HeatLayout {
  Box box;
  int ranks = 0, steps = 0;

  Box cell(int rank, int step) const;
  std::optional<std::pair<int, int>> at(ImVec2 mouse) const;  // rank, step
};

struct HeatPaint {
  std::string slot;  // of the texture
  HeatMetric metric = HeatMetric::pairs;
  double largest = 1;        // the value with full colour
  int forward_steps = 0;     // a line separates what is behind them
  int current_step = -1;     // whose column is marked
  int selected_rank = -1;    // whose row is marked
  bool predictions = false;  // a mark in every cell where the closed forms put the value
};
void draw_heatmap(const PanelContext& context, const HeatLayout& layout, const Balance& balance,
                  const HeatPaint& paint);

// Ranks at the left, steps on top; 20 pixels of it, 36 with a backward pass.
void draw_heat_labels(const PanelContext& context, const HeatLayout& layout, int forward_steps);

// The step that most ranks are at, on the step axis; -1 without ranks.
int common_step(const RingMoment& moment);

}  // namespace ringscope::viz
