// Pictures of sweeps and of losses, and what they share: pages, frames, and scales with round values
// that label an axis.
#pragma once

#include <imgui.h>

#include <functional>
#include <string>
#include <vector>

#include "core/model/loss_csv.h"
#include "core/sim/sweep.h"
#include "viz/model/timeline/palette.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct Tick {
  double at = 0;  // the value
  std::string label;
};

using ValueText = std::function<std::string(double)>;

struct ChartScale {
  bool logarithmic = false;
  double low = 0, high = 1;
  std::vector<Tick> ticks{};

  // Return where a value lies: 0 at low, 1 at high; and the value that lies there.
  double share(double value) const;
  double value_at(double share) const;
};

// Return a scale between round numbers at or below `low` and at or above `high`. Its ticks are 1, 2
// or 5 times a power of ten apart, and about `count` of them.
ChartScale linear_scale(double low, double high, int count, const ValueText& text);
// Return a scale a little wider than the positive values need, for distant values or a single one.
// Its ticks are 1, 2 and 5 of every decade, or powers of ten where those would be too many.
ChartScale log_scale(double low, double high, int count, const ValueText& text);
// Return a scale with ticks at the ascending values themselves, at most `count` of them. It is
// logarithmic if that spaces the values more evenly.
ChartScale scale_at(const std::vector<double>& values, int count, const ValueText& text);
// Return a scale of names at 0, 1, 2, ..., of which at most `count` are written.
ChartScale named_scale(const std::vector<std::string>& names, int count);

// Return "50 µs" or "1 s", with no more digits than needed.
std::string tick_time_text(double seconds);
// Return "8k" for 8192, "1M" for 1048576, "1000" for 1000.
std::string tokens_text(double count);

// ---
// The drawings of charts share the page, the frames and the axes.

struct ChartDrawing {
  const Fonts& fonts;
  const Palette& palette;
  Theme theme;
};

inline constexpr float kTickGap = 8;  // between a plot and its tick labels

// Draw the page and its title over all of `box`. Return the box that is left.
Box draw_page(const ChartDrawing& drawing, const std::string& title, const std::string& subtitle,
              const Box& box);

// Draw a chart's frame, title and note. Return the box that is left inside.
Box draw_frame(const ChartDrawing& drawing, const Box& box, const std::string& title,
               const std::string& note);

float x_of(const Box& plot, const ChartScale& scale, double value);
float y_of(const Box& plot, const ChartScale& scale, double value);

float widest_label(const ImFont* font, const std::vector<Tick>& ticks);
// Draw the tick labels that have room below the plot, and the title below them, in 40 pixels.
void draw_x_axis(const ChartDrawing& drawing, const ChartScale& scale, const Box& plot,
                 const std::string& title, bool with_grid);
// Draw labels left of the plot, and lines across it.
void draw_y_axis(const ChartDrawing& drawing, const ChartScale& scale, const Box& plot);

// ---
// Draws the losses of a training run: each step's loss faintly, and a smoothed curve through them.
// For comparison it marks the loss of a model that knows nothing, and of one that knows only how
// often each byte occurs.

struct LossPoint {
  double step = 0, loss = 0;
};

// A reference loss to measure curves by.
struct LossMark {
  std::string name;
  double loss = 0;
};

struct LossPicture {
  std::string title, subtitle;
  ChartScale x, y;
  std::vector<LossPoint> raw;     // finite losses, thinned evenly if there are very many
  std::vector<LossPoint> smooth;  // in ascending order of steps
  std::vector<LossMark> marks;    // marks within y
};

// Make the picture of any losses, even of none or of NaN and infinite ones.
LossPicture picture_of(const LossCurve& curve);

// Draw the picture over all of `box`.
void draw_loss_curve(const ChartDrawing& drawing, const LossPicture& picture, const Box& box);

// ---
// The picture of a sweep: curves, bars and maps as plain data, and the functions that draw them.
// sweep_picture.cpp makes the data from a table of simulations.

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
