// Moves the playhead: has the usual player's buttons, a bar to scrub on with the ring steps marked,
// and the playhead's position in words.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "viz/model/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

constexpr float kButton = 30, kButtonGap = 3;
constexpr float kSpeedWidth = 46, kWordsWidth = 250;
constexpr float kLeastBar = 60;

enum class Icon { to_start, step_back, play, pause, step_forward, to_end };

void draw_icon(Icon icon, ImVec2 c, Color color) {
  const float s = 6;
  const auto right = [&](float x) {
    draw_list().AddTriangleFilled({c.x + x - s * 0.6f, c.y - s}, {c.x + x + s * 0.8f, c.y},
                                  {c.x + x - s * 0.6f, c.y + s}, color);
  };
  const auto left = [&](float x) {
    draw_list().AddTriangleFilled({c.x + x + s * 0.6f, c.y - s}, {c.x + x + s * 0.6f, c.y + s},
                                  {c.x + x - s * 0.8f, c.y}, color);
  };
  const auto bar = [&](float x) {
    draw_list().AddRectFilled({c.x + x - 1.5f, c.y - s}, {c.x + x + 1.5f, c.y + s}, color);
  };
  switch (icon) {
    case Icon::play:
      return right(0);
    case Icon::pause:
      bar(-4);
      return bar(4);
    case Icon::step_forward:
      right(-2);
      return bar(6);
    case Icon::step_back:
      left(2);
      return bar(-6);
    case Icon::to_end:
      right(-5);
      right(2);
      return bar(8);
    case Icon::to_start:
      left(5);
      left(-2);
      return bar(-8);
  }
}

void icon_button(const PanelContext& context, const char* id, Icon icon, Command command,
                 const char* help) {
  const float height = ImGui::GetFrameHeight();
  if (ImGui::Button(id, {kButton, height})) context.session.run(command);
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  draw_icon(icon, {(low.x + high.x) / 2, (low.y + high.y) / 2}, context.palette.text);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", help);
  ImGui::SameLine(0, kButtonGap);
}

void draw_buttons(const PanelContext& context) {
  Session& session = context.session;
  const bool playing = session.playback.playing();
  icon_button(context, "##start", Icon::to_start, Command::to_start, "To the start");
  icon_button(context, "##back", Icon::step_back, Command::step_back, "To the step before");
  icon_button(context, "##play", playing ? Icon::pause : Icon::play, Command::play_pause,
              playing ? "Pause (R)" : "Play (R)");
  icon_button(context, "##forward", Icon::step_forward, Command::step_forward, "To the next step");
  icon_button(context, "##end", Icon::to_end, Command::to_end, "To the end");
}

void draw_speed(const PanelContext& context) {
  Session& session = context.session;
  const double speed = session.playback.speed();
  const std::string text =
      speed >= 1 ? fmt::format("{:.0f}\u00d7", speed) : fmt::format("1/{:.0f}\u00d7", 1 / speed);
  if (ImGui::Button("\u2212##slower", {22, 0})) session.run(Command::slower);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Half the speed");
  ImGui::SameLine(0, 0);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::Dummy({kSpeedWidth, ImGui::GetFrameHeight()});
  draw_text(context.fonts.text, {at.x + kSpeedWidth / 2, at.y + ImGui::GetFrameHeight() / 2},
            {0.5f, 0.5f}, context.palette.text, text);
  ImGui::SameLine(0, 0);
  if (ImGui::Button("+##faster", {22, 0})) session.run(Command::faster);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Twice the speed");
}

// Describe the playhead's position. `brief` 1 omits the number of steps, and 2 also the step.
std::string words(const Session& session, int brief) {
  const Axis& axis = session.document().axis;
  const int rank = std::max(session.selected_rank, 0);
  const double position = session.playback.position();
  std::string step;
  if (axis.steps() > 0) {
    const int at = session.axis_mode == AxisMode::steps
                       ? std::clamp(static_cast<int>(position), 0, axis.steps() - 1)
                       : axis.step_at(rank, axis.time_at(AxisMode::time, rank, position));
    const bool backward = axis.is_backward(at);
    const int count = backward ? axis.steps() - axis.forward_steps() : axis.forward_steps();
    step = words_of_step(backward ? Pass::backward : Pass::forward, axis.ring_step(at));
    if (brief == 0) step += fmt::format(" (0 to {})", count - 1);
  }
  if (session.axis_mode == AxisMode::steps) return step;
  const std::string time =
      fmt::format("{} of {}", time_text(position), time_text(session.length()));
  return step.empty() || brief > 1 ? time : fmt::format("{} \u00b7 rank {}: {}", time, rank, step);
}

void draw_bar(const PanelContext& context, float width) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const double length = session.length();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = ImGui::GetFrameHeight();
  ImGui::InvisibleButton("##scrub", {width, height});
  const float x0 = at.x + 7, room = std::max(1.0f, width - 14), y = at.y + height / 2;
  if (ImGui::IsItemActive()) {
    session.playback.pause();
    session.seek(length * std::clamp((ImGui::GetIO().MousePos.x - x0) / room, 0.0f, 1.0f));
  }
  const bool lit = ImGui::IsItemActive() || ImGui::IsItemHovered();
  const double share = length > 0 ? std::clamp(session.playback.position() / length, 0.0, 1.0) : 0;
  const float x = x0 + room * static_cast<float>(share);
  draw_list().AddRectFilled({x0, y - 2}, {x0 + room, y + 2}, mix(palette.panel, palette.text, 0.16),
                            2);
  draw_list().AddRectFilled({x0, y - 2}, {x, y + 2}, palette.accent, 2);

  const Axis& axis = session.document().axis;
  const int rank = std::max(session.selected_rank, 0);  // whose steps the arrow keys go to as well
  if (length > 0 && room / static_cast<float>(std::max(1, axis.steps())) >= 6) {
    for (int step = 1; step < axis.steps(); ++step) {
      const double position =
          session.axis_mode == AxisMode::steps
              ? step
              : axis.position(AxisMode::time, rank, axis.step_begin_ns(rank, step));
      const float tick = x0 + room * static_cast<float>(position / length);
      const bool first_backward = step == axis.forward_steps();
      const float reach = first_backward ? 8.0f : 5.0f;
      draw_list().AddLine({tick, y - reach}, {tick, y + reach}, palette.text_dim);
    }
  }
  draw_list().AddCircleFilled({x, y}, lit ? 8.0f : 7.0f, palette.playhead);
  draw_list().AddCircleFilled({x, y}, lit ? 4.0f : 3.0f, palette.panel);
}

}  // namespace

void draw_playback(const PanelContext& context) {
  draw_buttons(context);
  ImGui::SameLine(0, 10);
  float room = ImGui::GetContentRegionAvail().x;
  const bool has_speed = room > kLeastBar + 100;
  if (has_speed) {
    draw_speed(context);
    ImGui::SameLine(0, 10);
    room = ImGui::GetContentRegionAvail().x;
  }
  const bool has_words = room > kWordsWidth + 2 * kLeastBar;
  draw_bar(context, std::max(kLeastBar, room - (has_words ? kWordsWidth : 0)));
  if (!has_words) return;
  ImGui::SameLine(0, 10);
  const Box box = content_box();
  const float y = box.y0 + ImGui::GetFrameHeight() / 2;
  std::string text = words(context.session, 0);
  for (int brief = 1; brief <= 2 && text_width(context.fonts.text, text) > box.width(); ++brief)
    text = words(context.session, brief);
  draw_text(context.fonts.text, {box.x1, y}, {1, 0.5f}, context.palette.text_dim, text,
            box.width());
}

}  // namespace ringscope::viz
