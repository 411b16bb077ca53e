// The picture of a sweep: curves, bars and maps as plain data, and the functions that draw them.
// sweep_picture.cpp makes the data from a table of simulations.
#pragma once

#include <string>
#include <vector>

#include "core/sim/sweep.h"
#include "viz/panels/charts/chart_drawing.h"

namespace ringscope::viz {

struct CurvePoint {
  double x = 0, y = 0;
};

struct Curve {
  std::string name;
  int color = 0;        // index of the distinct colours
  double strength = 1;  // above 0; a lower value is closer to the background
  std::vector<CurvePoint> points;
};

struct CurveChart {
  std::string title, note;  // what the chart shows; the values of other settings
  std::string x_title;
  ChartScale x, y;
  std::vector<Curve> curves;
};

// Values in [0, 1] by row and column. NaN marks a missing value.
struct HeatMap {
  std::string title, note;
  std::string x_title, y_title;
  std::vector<std::string> columns, rows;   // rows from the bottom to the top
  std::vector<std::vector<double>> values;  // [row][column]
};

// Times that add up, drawn side by side.
struct BarPart {
  std::string name;
  Kind kind = Kind::compute;  // gives the colour
};
struct Bar {
  std::string name;
  std::vector<double> parts;
  std::string text;  // at the bar's end
};
struct BarChart {
  std::string title;
  std::vector<BarPart> parts;
  std::vector<Bar> bars;
  ChartScale x;
};

struct SweepPicture {
  std::string title, subtitle;
  std::vector<CurveChart> curves;
  std::vector<HeatMap> maps;  // small maps, beside each other
  std::vector<BarChart> bars;
};

// Make the picture of a table with at least one point. `machine` names the simulated machine. The
// swept settings decide which charts it has:
//
//   time against seqlen, or else the first other setting with numbers, with a curve for each
//   combination of the settings with names and of as many other numbers as stay readable
//   efficiency against world_size, or else the same setting
//   exposed communication over the first two settings with numbers, if there are two
//   bars of time if only names are swept
SweepPicture picture_of(const SweepTable& table, const std::string& machine);

// Draw the picture over all of `box`.
void draw_sweep(const ChartDrawing& drawing, const SweepPicture& picture, const Box& box);

}  // namespace ringscope::viz
