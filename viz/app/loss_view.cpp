#include "viz/app/loss_view.h"

#include "viz/app/png.h"
#include "viz/app/still.h"
#include "viz/panels/loss_picture.h"

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

}  // namespace ringscope::viz
