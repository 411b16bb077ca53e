// Draws the recorded and the predicted run on one axis. Wheel and drag zoom and pan both, and the
// ruler moves the playhead in both.

#include "viz/panels/what_if/what_if_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "viz/model/session/format.h"
#include "viz/panels/timeline/timeline_strip.h"

namespace ringscope::viz {

namespace {

constexpr float kRowsForMessages = 30;  // least height of a rank that shows three rows

void draw_title(const PanelContext& context, const Box& strip, const char* what,
                const std::string& title, const std::string& rest, Color rest_color) {
  const float y = strip.y0 - kWhatIfTitle / 2;
  float x = strip.x0 + 4;
  x += draw_text(context.fonts.strong, {x, y}, {0, 0.5f}, context.palette.text, what) + 10;
  x += draw_label(context, {x, y}, {0, 0.5f}, title, strip.x1 - x);
  draw_text(context.fonts.small, {x + 10, y}, {0, 0.5f}, rest_color, rest, strip.x1 - x - 10);
}

void draw_strip(const PanelContext& context, const Document& document, const char* slot,
                const Box& strip) {
  const float rank =
      strip.height() / static_cast<float>(std::max<std::size_t>(document.trace.ranks.size(), 1));
  const bool room = rank >= kRowsForMessages;
  draw_timeline_strip(context, document, slot, {.messages = room, .labels = room}, strip,
                      context.session.view);
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
  draw_timeline_strip_ruler(context, longer ? shown->document : recorded, layout.ruler,
                            session.view);
  draw_title(context, layout.recorded, "Recorded", recorded.trace.title(),
             words_of_time(1e9 * session.what_if->recorded().wall_s), context.palette.text);
  draw_strip(context, recorded, "what if recorded", layout.recorded);

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
    draw_strip(context, shown->document, "what if predicted", layout.predicted);
  } else if (shown != nullptr) {
    draw_empty(context, layout.predicted, "This can't be", shown->refusal);
  }
}

constexpr float kSettings = 316, kFigureGap = 12, kFigure = 92, kLeastFigure = 80,
                kWhatIfRuler = 24;
constexpr float kLeastRank = 4, kMostRank = 120;  // height of a rank in a strip

void draw_figure(const PanelContext& context, const WhatIfFigure& figure, const Box& box) {
  const Palette& palette = context.palette;
  const ImFont* small = context.fonts.small;
  fill(box, mix(palette.panel, palette.text, 0.035), 7);
  const float x = box.x0 + 12, width = box.width() - 20;
  const Color color = figure.better > 0   ? palette.accent
                      : figure.better < 0 ? palette.warning
                                          : palette.text;
  draw_text(small, {x, box.y0 + 8}, {0, 0}, palette.text_dim, figure.name, width);
  const float end = x + draw_text(context.fonts.title, {x, box.y0 + 24}, {0, 0}, color,
                                  figure.shown.empty() ? "–" : figure.shown);
  draw_text(small, {end + 8, box.y0 + 31}, {0, 0}, color, figure.change, box.x1 - end - 12);
  const auto line = [&](float y, const std::string& name, const std::string& value) {
    const float after = x + draw_text(small, {x, y}, {0, 0}, palette.text_dim, name + " ");
    draw_text(small, {after, y}, {0, 0}, mix(palette.text_dim, palette.text, 0.5), value,
              box.x1 - after - 6);
  };
  if (!figure.unmoved.empty()) line(box.y0 + 53, "unmoved", figure.unmoved);
  line(box.y0 + 69, "recorded", figure.recorded);
}

// Return the height of the sentences, and draw them if `draw` is set.
float draw_words(const PanelContext& context, ImVec2 at, float width, bool draw) {
  const WhatIf& what_if = *context.session.what_if;
  const std::string headline = headline_of(what_if), trust = trust_of(what_if);
  const ImFont* font = text_width(context.fonts.title, headline) <= width ? context.fonts.title
                                                                          : context.fonts.strong;
  const bool twice = !trust.empty() && trust != headline;
  if (!draw)
    return std::max(wrapped_height(font, width, headline), 26.0f) +
           (twice ? wrapped_height(context.fonts.small, width, trust) : 0) + 8;
  const Prediction* shown = what_if.shown();
  const bool refused = shown != nullptr && !shown->refusal.empty();
  float y = at.y;
  y += draw_wrapped(font, {at.x, y}, width,
                    refused ? context.palette.warning : context.palette.text, headline);
  if (twice)
    y += draw_wrapped(context.fonts.small, {at.x, y + 2}, width, context.palette.text_dim, trust);
  return y - at.y;
}

}  // namespace

WhatIfLayout what_if_layout(const Box& room, float words, int figures, int recorded_ranks,
                            int predicted_ranks) {
  WhatIfLayout layout;
  const float settings = std::min(kSettings, std::floor(room.width() / 2));
  layout.settings = {room.x0, room.y0, room.x0 + settings, room.y1};
  const float x = layout.settings.x1 + kFigureGap;
  float y = room.y0;
  layout.words = {x, y, room.x1, y + words};
  y += words;
  const float each =
      std::floor((room.x1 - x - 8 * static_cast<float>(figures - 1)) / static_cast<float>(figures));
  if (each >= kLeastFigure && y + kFigure < room.y1) {
    for (int i = 0; i < figures; ++i) {
      const float left = x + (each + 8) * static_cast<float>(i);
      layout.figures.push_back({left, y, left + each, y + kFigure});
    }
    y += kFigure + kFigureGap;
  }
  layout.ruler = {x, y, room.x1, y + kWhatIfRuler};
  y += kWhatIfRuler;

  // Ranks of both runs are equally high, as far as there is room.
  const float left = std::max(room.y1 - y - 2 * kWhatIfTitle - kFigureGap, 2 * kLeastRank);
  const float all = static_cast<float>(recorded_ranks + predicted_ranks);
  const float share =
      std::clamp(static_cast<float>(recorded_ranks) / std::max(all, 1.0f), 0.3f, 0.7f);
  const auto height = [&](float part, int ranks) {
    return std::floor(std::min(part * left, kMostRank * static_cast<float>(std::max(ranks, 1))));
  };
  y += kWhatIfTitle;
  layout.recorded = {x, y, room.x1, y + height(share, recorded_ranks)};
  y = layout.recorded.y1 + kFigureGap + kWhatIfTitle;
  layout.predicted = {x, y, room.x1, y + height(1 - share, predicted_ranks)};
  return layout;
}

void draw_what_if(const PanelContext& context) {
  Session& session = context.session;
  const Box room = content_box();
  if (!session.what_if || room.width() < 60 || room.height() < 60) return;
  if (!session.what_if->refusal().empty())
    return draw_empty(context, room, "What if: not for this trace", session.what_if->refusal());
  session.update_what_if();
  const WhatIf& what_if = *session.what_if;
  const std::vector<WhatIfFigure> figures = figures_of(what_if);
  const Prediction* shown = what_if.shown();
  const auto ranks = [](const Document& document) {
    return static_cast<int>(document.trace.ranks.size());
  };
  const int predicted = shown != nullptr ? ranks(shown->document) : 1;
  // The sentences' position does not depend on their height.
  const auto layout_for = [&](float words) {
    return what_if_layout(room, words, static_cast<int>(figures.size()), ranks(session.document()),
                          predicted);
  };
  const Box words = layout_for(0).words;
  const WhatIfLayout layout = layout_for(draw_words(context, words.min(), words.width(), false));

  ImGui::SetCursorScreenPos(layout.settings.min());
  ImGui::PushStyleColor(ImGuiCol_ChildBg, mix(context.palette.panel, context.palette.text, 0.025));
  ImGui::BeginChild("settings", {layout.settings.width(), layout.settings.height()}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding);
  draw_what_if_controls(context);
  ImGui::EndChild();
  ImGui::PopStyleColor();
  if (!session.what_if || layout.words.width() < 100) return;  // the controls may have closed it
  draw_words(context, words.min(), words.width(), true);
  for (std::size_t i = 0; i < layout.figures.size(); ++i)
    draw_figure(context, figures[i], layout.figures[i]);
  if (layout.ruler.y1 + 2 * kWhatIfTitle + kFigureGap < room.y1)
    draw_what_if_timelines(context, layout);
}

}  // namespace ringscope::viz
