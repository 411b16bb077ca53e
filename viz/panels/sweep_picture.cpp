// The page: title, and the charts' places on it.
#include "viz/panels/sweep_picture.h"

#include <algorithm>

namespace ringscope::viz {
namespace {

constexpr float kChartGap = 20;

// `count` boxes beside each other.
std::vector<Box> beside(const Box& box, std::size_t count) {
  std::vector<Box> boxes;
  const auto n = static_cast<float>(count);
  const float width = (box.width() - kChartGap * (n - 1)) / n;
  for (std::size_t i = 0; i < count; ++i) {
    const float x = box.x0 + static_cast<float>(i) * (width + kChartGap);
    boxes.push_back({x, box.y0, x + width, box.y1});
  }
  return boxes;
}

std::pair<Box, Box> above_each_other(const Box& box, float share) {
  const float y = box.y0 + share * (box.height() - kChartGap);
  return {{box.x0, box.y0, box.x1, y}, {box.x0, y + kChartGap, box.x1, box.y1}};
}

}  // namespace

void draw_sweep(const ChartDrawing& drawing, const SweepPicture& picture, const Box& box) {
  const Box page = draw_page(drawing, picture.title, picture.subtitle, box);
  for (const BarChart& chart : picture.bars) draw_bars(drawing, chart, page);
  if (picture.curves.empty()) return;
  if (picture.maps.empty()) {
    const auto boxes = beside(page, picture.curves.size());
    for (std::size_t i = 0; i < boxes.size(); ++i)
      draw_curves(drawing, picture.curves[i], boxes[i]);
    return;
  }
  if (picture.maps.size() == 1) {
    const auto halves = beside(page, 2);
    draw_curves(drawing, picture.curves[0], halves[0]);
    const auto [top, bottom] = above_each_other(halves[1], 0.5f);
    draw_curves(drawing, picture.curves[1], top);
    draw_map(drawing, picture.maps[0], bottom);
    return;
  }
  const auto [top, bottom] = above_each_other(page, 0.5f);
  const auto halves = beside(top, 2);
  for (std::size_t i = 0; i < 2; ++i) draw_curves(drawing, picture.curves[i], halves[i]);
  const auto maps = beside(bottom, picture.maps.size());
  for (std::size_t i = 0; i < maps.size(); ++i) draw_map(drawing, picture.maps[i], maps[i]);
}

}  // namespace ringscope::viz
