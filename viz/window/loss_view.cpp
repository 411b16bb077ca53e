#include "viz/window/loss_view.h"

#include "viz/panels/charts/loss_picture.h"
#include "viz/panels/charts/sweep_charts.h"
#include "viz/window/png.h"
#include "viz/window/still.h"

namespace ringscope::viz {

Image loss_image(const LossCurve& curve) {
  const LossPicture picture = picture_of(curve);
  return still_image(1600, 900, [&](const ChartDrawing& drawing, const Box& box) {
    draw_loss_curve(drawing, picture, box);
  });
}

void write_loss_picture(const LossCurve& curve, const std::string& path) {
  write_png(path, loss_image(curve));
}

Image sweep_image(const SweepTable& table, const std::string& machine) {
  const SweepPicture picture = picture_of(table, machine);
  return still_image(1600, 1000, [&](const ChartDrawing& drawing, const Box& box) {
    draw_sweep(drawing, picture, box);
  });
}

void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path) {
  write_png(path, sweep_image(table, machine));
}

}  // namespace ringscope::viz
