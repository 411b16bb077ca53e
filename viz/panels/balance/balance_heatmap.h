// The heat map of rank x step that the balance and compare panels share. The stronger a cell's
// colour, the more work (or waiting) it stands for.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "viz/model/analysis/balance.h"
#include "viz/model/session/format.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

// A HeatMetric is a figure of a cell.
struct HeatMetric {
  const char* name;
  std::int64_t WorkCell::*figure;
  NumberFormat text;

  double of(const WorkCell& cell) const { return static_cast<double>(cell.*figure); }
  double largest(const WorkTable& table) const;
  bool is_waiting() const { return figure == &WorkCell::wait_ns; }
};
inline constexpr HeatMetric kHeatMetrics[] = {{"pairs", &WorkCell::pairs, count_text},
                                              {"FLOPs", &WorkCell::flops, flops_text},
                                              {"time", &WorkCell::compute_ns, time_text},
                                              {"waiting", &WorkCell::wait_ns, time_text}};

// Divides `box` evenly into cells.
struct HeatLayout {
  Box box;
  int ranks = 0, steps = 0;

  Box cell(int rank, int step) const;
  std::optional<std::pair<int, int>> at(ImVec2 mouse) const;  // rank, step
};

struct HeatPaint {
  std::string slot{};  // texture slot
  HeatMetric metric = kHeatMetrics[0];
  double largest = 1;        // value drawn in full colour
  int forward_steps = 0;     // a line separates them from the backward steps
  int current_step = -1;     // its column is marked
  int selected_rank = -1;    // its row is marked
  bool predictions = false;  // mark the predicted value in every cell
};
void draw_heatmap(const PanelContext& context, const HeatLayout& layout, const WorkTable& balance,
                  const HeatPaint& paint);

// Draw ranks at the left and steps on top: 20 pixels of labels, or 36 with a backward pass.
void draw_heat_labels(const PanelContext& context, const HeatLayout& layout, int forward_steps);

// Return the step of the step axis that most ranks are at, or -1 without ranks.
int common_step(const RingMoment& moment);

}  // namespace ringscope::viz
