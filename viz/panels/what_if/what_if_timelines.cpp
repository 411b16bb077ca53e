// Draws the recorded and the predicted run on one axis. Wheel and drag zoom and pan both, and the
// ruler moves the playhead in both.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "viz/model/session/rich_text.h"
#include "viz/panels/timeline/timeline_strip.h"
#include "viz/panels/what_if/what_if_panel.h"

namespace ringscope::viz {
namespace {

constexpr float kRowsForMessages = 30;  // least height of a rank that shows three rows

void draw_title(const PanelContext& context, const Box& strip, const char* what,
                const std::string& title, const std::string& rest, Color rest_color) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float y = strip.y0 - kWhatIfTitle / 2;
  float x = strip.x0 + 4;
  x += draw_text(list, context.fonts.strong, {x, y}, {0, 0.5f}, context.palette.text, what) + 10;
  x += draw_text(list, context.fonts.small, {x, y}, {0, 0.5f}, context.palette.text_dim,
                 fitted(context.fonts.small, title, strip.x1 - x));
  draw_text(list, context.fonts.small, {x + 10, y}, {0, 0.5f}, rest_color,
            fitted(context.fonts.small, rest, strip.x1 - x - 10));
}

void draw_strip(const PanelContext& context, const Document& document, bool active,
                const char* slot, const Box& strip) {
  const float rank =
      strip.height() / static_cast<float>(std::max<std::size_t>(document.trace.ranks.size(), 1));
  const bool room = rank >= kRowsForMessages;
  draw_timeline_strip(context, document, active, slot, {.messages = room, .labels = room},
                      strip.min(), {strip.width(), strip.height()}, context.session.view);
}

// Zoom and pan both strips with the mouse.
void touch_strips(Session& session, const Box& box) {
  const float width = box.width();
  if (width < 8 || box.height() < 8 || session.length() <= 0) return;
  ImGui::SetCursorScreenPos(box.min());
  ImGui::InvisibleButton("##strips", {width, box.height()},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight |
                             ImGuiButtonFlags_MouseButtonMiddle);
  const ImGuiIO& io = ImGui::GetIO();
  const double a_pixel = session.view.width() / static_cast<double>(width);
  if (ImGui::IsItemActive() && io.MouseDelta.x != 0) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeAll);
    session.view =
        panned(session.view, -static_cast<double>(io.MouseDelta.x) * a_pixel, session.length());
  }
  if (ImGui::IsItemHovered() && io.MouseWheel != 0) {
    const double at = session.view.begin + static_cast<double>(io.MousePos.x - box.x0) * a_pixel;
    session.view =
        zoomed(session.view, at, std::pow(kZoomNotch, static_cast<double>(io.MouseWheel)),
               session.length(), session.axis_mode);
  }
}

void touch_ruler(Session& session, const Box& box) {
  if (box.width() < 8 || session.length() <= 0) return;
  ImGui::SetCursorScreenPos(box.min());
  ImGui::InvisibleButton("##ruler", {box.width(), box.height()});
  if (ImGui::IsItemHovered()) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  if (!ImGui::IsItemActive()) return;
  const double share = (ImGui::GetIO().MousePos.x - box.x0) / box.width();
  session.playback.pause();
  session.seek(session.view.begin + share * session.view.width());
}

}  // namespace

void draw_what_if_timelines(const PanelContext& context, const WhatIfLayout& layout) {
  Session& session = context.session;
  const Document& recorded = session.document();
  const Prediction* shown = session.what_if->shown();
  const bool there = shown != nullptr && shown->refusal.empty();
  const auto right_of_gutter = [](const Box& box) {
    return Box{box.x0 + kTimelineStripGutter, box.y0, box.x1, box.y1};
  };
  touch_ruler(session, right_of_gutter(layout.ruler));
  touch_strips(session, right_of_gutter({layout.recorded.x0, layout.recorded.y0, layout.recorded.x1,
                                         layout.predicted.y1}));

  const auto length = [&](const Document& d) { return d.axis.length(session.axis_mode); };
  const bool longer = there && length(shown->document) > length(recorded);
  draw_timeline_strip_ruler(context, longer ? shown->document : recorded, false, layout.ruler.min(),
                            {layout.ruler.width(), layout.ruler.height()}, session.view);
  draw_title(context, layout.recorded, "Recorded", recorded.trace.title(),
             words_of_time(1e9 * session.what_if->recorded().wall_s), context.palette.text);
  draw_strip(context, recorded, true, "what if recorded", layout.recorded);

  std::string rest = "working…";
  std::string title;
  if (there) {
    title = shown->document.trace.title();
    if (!shown->whole)
      title += fmt::format(" ({} of them shown)", shown->document.trace.ranks.size());
    if (!session.what_if->pending()) rest = words_of_time(1e9 * shown->figures.wall_s);
  } else if (shown != nullptr && !session.what_if->pending()) {
    rest = "";
  }
  draw_title(context, layout.predicted, "Predicted", title, rest,
             session.what_if->pending() ? context.palette.warning : context.palette.text);
  if (there) {
    draw_strip(context, shown->document, false, "what if predicted", layout.predicted);
  } else if (shown != nullptr) {
    draw_empty(context, layout.predicted, "This can't be", shown->refusal);
  }
}

}  // namespace ringscope::viz
