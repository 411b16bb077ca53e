// The heat map of rank x step that the balance and compare panels share. The stronger a cell's
// colour, the more work (or waiting) it stands for.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "viz/data/analysis/balance.h"
#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

// A HeatMetric is a figure of a cell.
struct HeatMetric {
  const char* name;
  std::int64_t WorkCell::*figure;
  NumberFormat text;

  double of(const WorkCell& cell) const { return cell.*figure; }
  double largest(const WorkTable& table) const { return of(table.largest); }
  bool is_waiting() const { return figure == &WorkCell::wait_ns; }
};
inline constexpr HeatMetric kHeatMetrics[] = {{"pairs", &WorkCell::pairs, count_text},
                                              {"FLOPs", &WorkCell::flops, flops_text},
                                              {"time", &WorkCell::compute_ns, time_text},
                                              {"waiting", &WorkCell::wait_ns, time_text},
                                              {"pace", &WorkCell::pace_ns, time_text}};

// Divides `box` into cells: evenly, but the first `high_rows` rows are `high` pixels each.
struct HeatLayout {
  Box box;
  int ranks = 0, steps = 0;     // rows and columns
  std::vector<int> order = {};  // [row]: its rank; empty: the rank of the same number
  int high_rows = 0;
  float high = 0;

  int rank_of(int row) const { return order.empty() ? row : order[row]; }
  int row_of(int rank) const;  // -1: none
  float top_of(int row) const;
  int row_at(float y) const;  // the nearest one
  Box cell(int row, int step) const;
  std::optional<std::pair<int, int>> at(ImVec2 mouse) const;  // rank and step
};

struct HeatPaint {
  std::string slot{};  // texture slot
  HeatMetric metric = kHeatMetrics[0];
  double largest = 1;  // value drawn in full colour
  // [step]: if set, cells show by how much they are above (warm) or below (cold) this.
  const std::vector<double>* usual = nullptr;
  int current_step = -1;    // its column is marked
  std::uint64_t first = 0;  // of a difference: the number of the other document
  bool has_scale = true;    // below the cells

  // Return what a cell shows. A cell that lacks the figure does not differ from the usual.
  double value_of(const WorkCell& cell, int step) const {
    if (usual == nullptr) return metric.of(cell);
    const double median = (*usual)[step];
    return cell.has(metric.figure) ? metric.of(cell) - median : 0;
  }
};

// The room below a table that its scale takes.
inline constexpr float kHeatScale = 20;

// A cell: rank, and step of the step axis.
using HeatCell = std::pair<int, int>;

// Draw a table of document `index`, in which the selected rank is marked, with ranks at the left,
// steps on top (20 pixels of labels, or 36 with a backward pass), and below it what colours mean. A click on a cell goes there. Return
// the cell under the mouse.
std::optional<HeatCell> draw_heatmap(const PanelContext& context, std::size_t index,
                                     const HeatLayout& layout, const WorkTable& table,
                                     const HeatPaint& paint);

// Draw from which to which value the colours of a table go.
void draw_heat_scale(const PanelContext& context, ImVec2 at, const HeatPaint& paint);

// Draw tabs that choose the metric of heat maps, and return it. `end` becomes where they end.
int choose_metric(const PanelContext& context, ImVec2 at, float* end = nullptr);

// List a cell's figures beside the mouse.
void draw_cell_tooltip(const PanelContext& context, const Document& document, int rank, int step);

}  // namespace ringscope::viz
