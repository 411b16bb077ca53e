// The story beside a recording: its paragraphs in order, with the current one highlighted. Each
// paragraph moves the playhead to its topic; Space, a click or the buttons advance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "viz/model/session/story.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {
namespace {

constexpr float kHeader = 38, kFooter = 30, kStoryGap = 8;
constexpr float kNumber = 30, kPadX = 10, kPadY = 9, kCardGap = 2, kPlace = 22;

void draw_header(const PanelContext& context, const Box& box) {
  const Session& session = context.session;
  const Palette& palette = context.palette;
  const float y = box.y0 + 13;
  draw_text(context.fonts.strong, {box.x0, y}, {0, 0.5f}, palette.text, "Story");
  const std::size_t count = session.story().size();
  draw_label(context, {box.x1, y}, {1, 0.5f}, fmt::format("{} of {}", session.story_at + 1, count));
  const float share = static_cast<float>(session.story_at + 1) / static_cast<float>(count);
  const Box bar{box.x0, box.y0 + 28, box.x1, box.y0 + 31};
  fill(bar, mix(palette.panel, palette.text, 0.12), 1.5f);
  if (share > 0)
    fill({bar.x0, bar.y0, bar.x0 + std::max(3.0f, bar.width() * share), bar.y1}, palette.accent,
         1.5f);
}

// Draw one paragraph into `card`, with its text in lines of at most `width`.
void draw_paragraph(const PanelContext& context, int index, const Box& card, float width) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const StoryStep& told = session.story()[static_cast<std::size_t>(index)];
  const bool current = index == session.story_at;
  ImGui::PushID(index);
  const Touch touched = touch("paragraph", card);
  ImGui::PopID();
  if (touched.clicked) session.tell(index);
  if (!ImGui::IsRectVisible(card.min(), card.max())) return;
  if (current) {
    fill(card, mix(palette.panel, palette.accent, 0.11), 7);
    fill({card.x0, card.y0 + 7, card.x0 + 3, card.y1 - 7}, palette.accent, 1.5f);
  } else if (touched.hovered) {
    fill(card, with_alpha(palette.text, 0.05), 7);
  }
  const float line = std::round(font_height(context.fonts.text) * 1.42f);
  draw_text(context.fonts.small,
            {card.x0 + kNumber - 9, std::round(card.y0 + kPadY + line / 2 + 1)}, {1, 0.5f},
            current ? palette.accent : palette.text_dim, std::to_string(index + 1));
  const float height = draw_rich(context, {card.x0 + kNumber, card.y0 + kPadY}, width,
                                 current || touched.hovered, told.text);
  const std::string place = place_of(told);
  if (current && !place.empty())
    draw_text(context.fonts.small, {card.x0 + kNumber, card.y0 + kPadY + height + kPlace / 2 + 2},
              {0, 0.5f}, mix(palette.text_dim, palette.accent, 0.5), place, width);
}

// Draw all paragraphs. Scroll to the current one if it or the panel's size has changed.
void draw_paragraphs(const PanelContext& context) {
  const Session& session = context.session;
  const Box box = content_box();
  const float height = box.height() + ImGui::GetScrollY();
  const float view = ImGui::GetWindowHeight();
  const float width = box.width() - kNumber - kPadX;
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  float y = 0, current_y = 0, current_height = 0;
  for (int i = 0; i < static_cast<int>(session.story().size()); ++i) {
    const StoryStep& told = session.story()[static_cast<std::size_t>(i)];
    const bool current = i == session.story_at;
    const float place = current && !place_of(told).empty() ? kPlace : 0;
    const float card = rich_height(context, width, told.text) + place + 2 * kPadY;
    if (current) {
      current_y = y;
      current_height = card;
    }
    draw_paragraph(context, i,
                   {origin.x, origin.y + y, origin.x + box.width(), origin.y + y + card}, width);
    y += card + kCardGap;
  }
  ImGui::Dummy({1, y});
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID told_id = ImGui::GetID("told"), width_id = ImGui::GetID("width"),
                view_id = ImGui::GetID("view");
  const bool moved = storage.GetInt(told_id, -2) != session.story_at ||
                     storage.GetFloat(width_id) != width || storage.GetFloat(view_id) != view;
  if (!moved || height <= 0) return;
  storage.SetInt(told_id, session.story_at);
  storage.SetFloat(width_id, width);
  storage.SetFloat(view_id, view);
  // Keep the paragraphs before it in sight as far as there is room.
  ImGui::SetScrollY(std::max(0.0f, current_y - std::max(0.0f, (view - current_height) * 0.35f)));
}

// Fade out paragraphs that are cut off.
void draw_fades(const PanelContext& context, const Box& box) {
  constexpr float kFade = 18;
  const Color ground = context.palette.panel, clear = with_alpha(ground, 0);
  const float right = box.x1 - ImGui::GetStyle().ScrollbarSize;
  if (ImGui::GetScrollY() > 0)
    draw_list().AddRectFilledMultiColor(box.min(), {right, box.y0 + kFade}, ground, ground, clear,
                                        clear);
  if (ImGui::GetScrollY() < ImGui::GetScrollMaxY())
    draw_list().AddRectFilledMultiColor({box.x0, box.y1 - kFade}, {right, box.y1}, clear, clear,
                                        ground, ground);
}

void draw_buttons(const PanelContext& context, float width) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const float half = std::floor((width - kStoryGap) / 2);
  const bool first = session.story_at <= 0;
  ImGui::BeginDisabled(first);
  if (ImGui::Button("Back", {half, kFooter})) session.run(Command::story_back);
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("The paragraph before (B)");
  ImGui::SameLine(0, kStoryGap);
  const bool over = session.story_over();
  ImGui::PushStyleColor(ImGuiCol_Button, mix(palette.panel, palette.accent, over ? 0.18 : 0.38));
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(palette.panel, palette.accent, 0.5));
  const char* const words = !over ? "Next" : session.playback.playing() ? "Pause" : "Play it all";
  if (ImGui::Button(words, {half, kFooter})) {
    if (over && !session.playback.playing()) session.run(Command::to_start);
    session.run(over ? Command::play_pause : Command::go_on);
  }
  ImGui::PopStyleColor(2);
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip(over ? "The run from its start" : "The next paragraph (Space)");
}

}  // namespace

void draw_story(const PanelContext& context) {
  const Box box = content_box();
  if (context.session.story().empty() || box.width() < 60 || box.height() < 60) return;
  draw_header(context, box);
  const bool buttons = box.height() > 200;
  const float room = box.height() - kHeader - (buttons ? kFooter + kStoryGap : 0);
  ImGui::SetCursorScreenPos({box.x0 - 6, box.y0 + kHeader});
  draw_child("paragraphs", {box.width() + 12, room}, 0, [&] {
    draw_paragraphs(context);
    draw_fades(context, {box.x0 - 6, box.y0 + kHeader, box.x1 + 6, box.y0 + kHeader + room});
  });
  if (!buttons) return;
  ImGui::SetCursorScreenPos({box.x0, box.y1 - kFooter});
  draw_buttons(context, box.width());
}

}  // namespace ringscope::viz
