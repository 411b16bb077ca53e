// The story beside a recording: its paragraphs in order, with the current one highlighted. Each
// paragraph moves the playhead to its topic; Space, a click or the buttons advance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "viz/model/session/rich_text.h"
#include "viz/model/session/session.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// ---
// Sets a paragraph in lines.

namespace {

constexpr float kBlockGap = 8, kIndent = 16, kCodePad = 3;

class Setter {
 public:
  // Unless `draws` is set, the text is only measured.
  Setter(const PanelContext& context, bool draws, ImVec2 at, float width, bool lit)
      : context_(context),
        draws_(draws),
        at_(at),
        width_(std::max(width, 1.0f)),
        ink_(lit ? context.palette.text : context.palette.text_dim),
        line_(std::round(font_height(context.fonts.text) * 1.42f)) {}

  float set(const std::vector<RichBlock>& blocks) {
    for (const RichBlock& block : blocks) {
      if (&block != blocks.data()) y_ += block.item && was_item_ ? kBlockGap / 2 : kBlockGap;
      was_item_ = block.item;
      left_ = block.item ? std::min(kIndent, width_ / 4) : 0;
      if (block.item && draws_)
        draw_text(context_.fonts.text, {at_.x + 3, at_.y + y_ + line_ / 2}, {0, 0.5f}, ink_,
                  "\u2022");
      set_words(block.words);
      y_ += line_;
    }
    return y_;
  }

 private:
  const ImFont* font_of(TextStyle style) const {
    return style == TextStyle::strong ? context_.fonts.strong
           : style == TextStyle::code ? context_.fonts.mono
                                      : context_.fonts.text;
  }
  float width_of(const RichWord& word) const {
    const float pad = word.style == TextStyle::code ? kCodePad : 0;
    return text_width(font_of(word.style), word.text) + (word.joined ? pad : 2 * pad);
  }

  void set_words(const std::vector<RichWord>& words) {
    const float space = text_width(context_.fonts.text, " ");
    x_ = left_;
    for (std::size_t first = 0; first < words.size();) {
      // Keep words together that have no space between them.
      std::size_t end = first + 1;
      float width = width_of(words[first]);
      for (; end < words.size() && !words[end].spaced; ++end) width += width_of(words[end]);
      const float before = x_ <= left_ || !words[first].spaced ? 0
                           : words[first].joined               ? space - kCodePad
                                                               : space;
      const bool breaks = x_ > left_ && x_ + before + width > width_;
      if (breaks) {
        y_ += line_;
        x_ = left_;
      } else {
        x_ += before;
      }
      for (std::size_t i = first; i < end; ++i)
        set_word(words[i], i == first && words[i].joined && !breaks ? before : 0);
      first = end;
    }
  }

  // `bridge` is the width of the space before the word if the space belongs to it, else 0.
  void set_word(const RichWord& word, float bridge) {
    const ImFont* font = font_of(word.style);
    std::string_view rest = word.text;
    while (!rest.empty()) {
      const bool code = word.style == TextStyle::code;
      const float pad = code ? kCodePad : 0, lead = word.joined ? 0 : pad;
      const float room = width_ - x_ - lead - pad;
      std::string_view part = rest;
      if (text_width(font, rest) > room + 0.5f) {
        const char* stop = nullptr;
        font->CalcTextSizeA(font_height(font), std::max(room, 1.0f), 0, rest.data(),
                            rest.data() + rest.size(), &stop);
        part = rest.substr(0, static_cast<std::size_t>(stop - rest.data()));
        if (part.empty() && x_ > left_) {
          next_line();
          continue;
        }
        if (part.empty()) part = first_character(rest);
      }
      const float width = text_width(font, part);
      draw(word.style, part, width, lead, pad, bridge);
      x_ += lead + width + pad;
      rest.remove_prefix(part.size());
      if (!rest.empty()) next_line();
      bridge = 0;
    }
  }

  void next_line() {
    y_ += line_;
    x_ = left_;
  }

  static std::string_view first_character(std::string_view text) {
    std::size_t size = 1;
    while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) ++size;
    return text.substr(0, size);
  }

  // `lead` and `pad` are the widths of the ground before and behind the text.
  void draw(TextStyle style, std::string_view text, float width, float lead, float pad,
            float bridge) {
    if (!draws_) return;
    const Palette& palette = context_.palette;
    const float x = at_.x + x_, middle = at_.y + y_ + line_ / 2;
    if (style == TextStyle::code) {
      const Color ground = mix(palette.panel, palette.text, 0.1);
      const Box box{x, middle - line_ * 0.43f, x + lead + width + pad, middle + line_ * 0.43f};
      // Fill the space too, from the end of the text before, and square the corners that face it.
      if (bridge > 0) fill({x - bridge - pad, box.y0, x + pad, box.y1}, ground);
      fill(box, ground, 3);
    }
    const Color ink = style == TextStyle::emphasis ? mix(ink_, palette.accent, 0.55) : ink_;
    draw_text(font_of(style), {x + lead, middle}, {0, 0.5f}, ink, text);
  }

  const PanelContext& context_;
  bool draws_;
  ImVec2 at_;
  float width_;
  Color ink_;
  float line_;
  float x_ = 0, y_ = 0, left_ = 0;
  bool was_item_ = false;
};

constexpr float kHeader = 38, kFooter = 30, kStoryGap = 8;
constexpr float kNumber = 30, kPadX = 10, kPadY = 9, kCardGap = 2, kPlace = 22;

void draw_header(const PanelContext& context, const Box& box) {
  const Session& session = context.session;
  const Palette& palette = context.palette;
  const float y = box.y0 + 13;
  draw_text(context.fonts.strong, {box.x0, y}, {0, 0.5f}, palette.text, "Story");
  const std::size_t count = session.story().size();
  draw_label(context, {box.x1, y}, {1, 0.5f}, fmt::format("{} of {}", session.story_at + 1, count));
  const float share = static_cast<float>(session.story_at + 1) / count;
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
  const StoryStep& told = session.story()[index];
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
    const StoryStep& told = session.story()[i];
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

void draw_buttons(const PanelContext& context, float width) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const float half = std::floor((width - kStoryGap) / 2);
  const bool first = session.story_at <= 0;
  ImGui::BeginDisabled(first);
  if (ImGui::Button("Back", {half, kFooter})) commands::story_back(session);
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("The paragraph before (B)");
  ImGui::SameLine(0, kStoryGap);
  const bool over = session.story_over();
  ImGui::PushStyleColor(ImGuiCol_Button, mix(palette.panel, palette.accent, over ? 0.18 : 0.38));
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(palette.panel, palette.accent, 0.5));
  const char* const words = !over ? "Next" : session.playback.playing() ? "Pause" : "Play it all";
  if (ImGui::Button(words, {half, kFooter})) {
    if (over && !session.playback.playing()) commands::to_start(session);
    (over ? commands::play_pause : commands::go_on)(session);
  }
  ImGui::PopStyleColor(2);
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip(over ? "The run from its start" : "The next paragraph (Space)");
}

}  // namespace

float draw_rich(const PanelContext& context, ImVec2 top_left, float width, bool lit,
                std::string_view text) {
  return Setter(context, true, top_left, width, lit).set(rich_blocks(text));
}

float rich_height(const PanelContext& context, float width, std::string_view text) {
  return Setter(context, false, {0, 0}, width, false).set(rich_blocks(text));
}

void draw_story(const PanelContext& context) {
  const Box box = content_box();
  if (context.session.story().empty() || box.width() < 60 || box.height() < 60) return;
  draw_header(context, box);
  const bool buttons = box.height() > 200;
  const float room = box.height() - kHeader - (buttons ? kFooter + kStoryGap : 0);
  ImGui::SetCursorScreenPos({box.x0 - 6, box.y0 + kHeader});
  draw_child("paragraphs", {box.width() + 12, room}, 0, [&] { draw_paragraphs(context); });
  if (!buttons) return;
  ImGui::SetCursorScreenPos({box.x0, box.y1 - kFooter});
  draw_buttons(context, box.width());
}

}  // namespace ringscope::viz
