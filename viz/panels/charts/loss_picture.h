// The losses of a training run as a picture: every step's, faint, and through them the curve that
// they scatter around, beside what a model reaches that knows nothing, or only how often each byte
// occurs.
#pragma once

#include <string>
#include <vector>

#include "core/train/loss_csv.h"
#include "viz/panels/charts/chart_drawing.h"

namespace ringscope::viz {

struct LossPoint {
  double step = 0, loss = 0;
};

// A loss that curves are measured by.
struct LossMark {
  std::string name;
  double loss = 0;
};

struct LossPicture {
  std::string title, subtitle;
  ChartScale x, y;
  std::vector<LossPoint> raw;     // finite ones; of very many, evenly chosen ones
  std::vector<LossPoint> smooth;  // ascending steps
  std::vector<LossMark> marks;    // those within y
};

// Of any losses, also none and such as are no numbers.
LossPicture picture_of(const LossCurve& curve);

// Draws it into `box`, which is all of the picture.
void draw_loss_curve(const ChartDrawing& drawing, const LossPicture& picture, const Box& box);

}  // namespace ringscope::viz
