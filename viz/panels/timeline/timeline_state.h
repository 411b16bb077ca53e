// The state that only the timeline keeps from frame to frame: the current gesture, the height of
// rows, and the painted pictures. It belongs to an ImGui context and is destroyed with it.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "viz/model/timeline/palette.h"
#include "viz/model/timeline/timeline_layout.h"
#include "viz/model/timeline/timeline_painter.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

// Everything that a painted timeline depends on. The trace is identified by address, path and size,
// so that another trace at the same address is noticed.
struct PictureKey {
  const Trace* trace = nullptr;
  std::size_t slices = 0;
  std::string path;
  AxisMode mode = AxisMode::time;
  ColorBy color_by = ColorBy::owner;
  Theme theme = Theme::dark;
  bool dim_all = false;
  TimelineView view;
  int width = 0, height = 0;
  float content_height = 0;
  bool operator==(const PictureKey&) const = default;
};

// A picture as it was last uploaded to the textures.
struct Picture {
  PictureKey key;
  Image image;
  ImTextureID texture = nullptr;
};

struct TimelineState {
  enum class Gesture : std::uint8_t { none, press, measure, pan } gesture = Gesture::none;
  ImVec2 pressed_at;
  TimelineView pressed_view;
  float row_scale = 1;
  double last_zoom_s = -10;         // ImGui time of the last wheel notch
  bool touched = false;             // the user knows that the mouse works here
  double playhead = 0;              // in the last frame
  std::optional<SliceId> selected;  // in the last frame
  bool hovered_is_ours = false;     // Session::hovered was set by this panel
  Box body;                         // on the screen, in the last frame
  Box ruler, map, gutter;
  TimelineLayout layout;
  std::map<std::string, Picture> pictures;  // by texture slot
};

// Return the state of the current ImGui context.
TimelineState& timeline_state();

}  // namespace ringscope::viz
