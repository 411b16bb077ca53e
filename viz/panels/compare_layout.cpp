#include "viz/panels/compare_layout.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {

CompareLayout compare_layout(ImVec2 top_left, ImVec2 room, int columns, int ranks, int figures,
                             bool backward) {
  constexpr float kGap = 10, kPad = 12, kTitle = 50, kRuler = 24, kLeastColumn = 236;
  CompareLayout layout;
  const float labels = backward ? 36 : 20;
  columns = std::max(columns, 1);
  const float names = room.x >= 900 ? 204.0f : 116.0f;
  const float wide = std::floor(std::clamp((room.x - names) / static_cast<float>(columns) - kGap,
                                           kLeastColumn, std::max(720.0f, kLeastColumn)));
  const float inner = wide - 2 * kPad;

  // The mask and the strip share what the rows of fixed height leave.
  layout.row_height = 19;
  const float table =
      layout.row_height * static_cast<float>(figures) + (figures > 0 ? 10.0f : 0.0f);
  const float heat = std::clamp(20.0f * static_cast<float>(ranks), 20.0f, 128.0f);
  const float fixed = kTitle + 12 + labels + heat + 14 + kRuler + 12 + table + kPad;
  const float left = room.y - fixed;
  const float mask = std::floor(std::clamp(left * 0.6f, 110.0f, std::min(inner * 0.6f, 300.0f)));
  const float strip = std::floor(
      std::clamp(left - mask, std::min(70.0f, 14.0f * static_cast<float>(ranks) + 20), 240.0f));

  float y = top_left.y;
  layout.names = {top_left.x, y, top_left.x + names, y};
  for (int i = 0; i < columns; ++i) {
    CompareColumn column;
    const float x = top_left.x + names + (wide + kGap) * static_cast<float>(i);
    float at = y;
    column.card = {x, y, x + wide, y};
    column.title = {x, at, x + wide, at + kTitle};
    at += kTitle;
    column.mask = {x + kPad, at, x + kPad + mask, at + mask};
    column.highlights = {x + kPad + mask + 16, at, x + wide - kPad, at + mask};
    at += mask + 12 + labels;
    column.heat = {x + kPad + 56, at, x + wide - kPad, at + heat};
    at += heat + 14;
    layout.ruler_y = at;
    at += kRuler;
    column.strip = {x + kPad - 8, at, x + wide - kPad, at + strip};
    at += strip + 12;
    layout.table_y = at;
    at += table + kPad;
    column.card.y1 = at;
    layout.columns.push_back(column);
  }
  layout.names.y1 = layout.columns.back().card.y1;
  layout.width = layout.columns.back().card.x1 - top_left.x;
  layout.height = layout.names.y1 - top_left.y;
  return layout;
}

}  // namespace ringscope::viz
