// Draws the losses of a training run: each step's loss faintly, and a smoothed curve through them.
// For comparison it marks the loss of a model that knows nothing, and of one that knows only how
// often each byte occurs.
#pragma once

#include <string>
#include <vector>

#include "core/train/loss_csv.h"
#include "viz/panels/charts/chart_drawing.h"

namespace ringscope::viz {

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

}  // namespace ringscope::viz
