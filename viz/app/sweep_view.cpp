#include "viz/app/sweep_view.h"

#include "viz/app/png.h"
#include "viz/app/still.h"
#include "viz/panels/sweep_charts.h"

namespace ringscope::viz {

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
