// A sweep as a picture: curves, bars and maps, as plain data and then drawn. sweep_charts.h makes
// the data from a table of simulations.
#pragma once

#include <string>
#include <vector>

#include "viz/panels/charts/chart_drawing.h"

namespace ringscope::viz {

struct CurvePoint {
  double x = 0, y = 0;
};

struct Curve {
  std::string name;
  int color = 0;        // which of the distinct ones
  double strength = 1;  // above 0; less of it is closer to the ground
  std::vector<CurvePoint> points;
};

struct CurveChart {
  std::string title, note;  // what it shows; at what values of other settings
  std::string x_title;
  ChartScale x, y;
  std::vector<Curve> curves;
};

// Values in [0, 1] of rows and columns; NaN: there is none.
struct HeatMap {
  std::string title, note;
  std::string x_title, y_title;
  std::vector<std::string> columns, rows;   // rows from the bottom to the top
  std::vector<std::vector<double>> values;  // [row][column]
};

// Times that add up, side by side.
struct BarPart {
  std::string name;
  Kind kind = Kind::compute;  // for its colour
};
struct Bar {
  std::string name;
  std::vector<double> parts;
  std::string text;  // at its end
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
  std::vector<HeatMap> maps;  // small ones, beside each other
  std::vector<BarChart> bars;
};

// Draws it into `box`, which is all of the picture.
void draw_sweep(const ChartDrawing& drawing, const SweepPicture& picture, const Box& box);

// Parts of it, each in a box of its own.
void draw_curves(const ChartDrawing& drawing, const CurveChart& chart, const Box& box);
void draw_map(const ChartDrawing& drawing, const HeatMap& map, const Box& box);
void draw_bars(const ChartDrawing& drawing, const BarChart& chart, const Box& box);

}  // namespace ringscope::viz
