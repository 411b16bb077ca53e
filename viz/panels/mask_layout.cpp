#include "viz/panels/mask_layout.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {

MaskLayout mask_layout(const Box& box) {
  constexpr float kPad = 8, kTabs = 26, kNotes = 170, kNotesGap = 20;
  MaskLayout layout;
  layout.tabs = {box.x0 + kPad, box.y0 + kPad - 2};
  layout.axes = box.width() >= 200 && box.height() >= 170;
  const float gutter = layout.axes ? 50.0f : 0.0f, head = layout.axes ? 24.0f : 4.0f;
  const float x = box.x0 + kPad + gutter, y = box.y0 + kPad + kTabs + head;
  const float high = box.y1 - kPad - y, wide = box.x1 - kPad - x;
  const bool column = wide - high >= kNotes + kNotesGap;
  const bool footer = !column && box.height() >= 280;
  const float side = std::max(std::floor(std::min(wide, high - (footer ? 24.0f : 0.0f))), 16.0f);
  layout.picture = {x, y, x + side, y + side};
  if (column) {
    layout.notes = {x + side + kNotesGap, y, x + side + kNotesGap + kNotes, y + side};
  } else {
    // What is left of the width goes to both sides.
    const float shift = std::floor(std::max(wide - side, 0.0f) / 2);
    layout.picture.x0 += shift;
    layout.picture.x1 += shift;
    if (footer)
      layout.footer = {box.x0 + kPad, layout.picture.y1 + 6, box.x1 - kPad, layout.picture.y1 + 24};
  }
  return layout;
}

const std::vector<std::string>& mask_order_names() {
  static const std::vector<std::string> names = {"global order", "local order"};
  return names;
}

}  // namespace ringscope::viz
