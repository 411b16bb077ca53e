// The story beside a recording: its paragraphs in order, with the current one highlighted. Each
// paragraph moves the playhead to its topic; Space, a click or the buttons advance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/markdown.h"
#include "viz/data/session/session.h"
#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// ---
// Sets a paragraph's Markdown (core/base/markdown.h) in lines.

namespace {

using Style = TextSpan::Kind;
constexpr float kBlockGap = 8, kIndent = 16, kCodePad = 3;

// Lines don't break inside a Word unless it is wider than a line. `code` is one word.
struct Word {
  std::string text;
  Style style = Style::plain;
  bool spaced = false;  // a space stands before it; otherwise it clings to the last word
};

// Add the words of `text`. `spaced` says, in and out, whether a space came before.
void add_words(std::vector<Word>& words, std::string_view text, Style style, bool& spaced) {
  bool begun = false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') {
      spaced = true;
      continue;
    }
    const bool is_new = !begun || (spaced && style != Style::code);
    if (is_new)
      words.push_back({"", style, spaced && !words.empty()});
    else if (spaced)
      words.back().text += ' ';
    words.back().text += c;
    begun = true;
    spaced = false;
  }
}

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

  // Return the height of all that is set.
  float set(const std::vector<TextBlock>& blocks) {
    for (const TextBlock& block : blocks) {
      std::vector<Word> words;
      bool spaced = true;
      const bool item = block.marker == "-";
      if (!item) add_words(words, block.marker + " ", Style::plain, spaced);
      for (const TextSpan& span : spans_of(block.text)) {
        const bool link = span.kind == Style::link;
        add_words(words, link ? "[" + span.text + "](" + span.target + ")" : span.text,
                  link ? Style::plain : span.kind, spaced);
      }
      if (!words.empty()) set_block(words, item);
      set(block.inside);
    }
    return y_;
  }

 private:
  ImFont* font_of(Style style) const {
    return style == Style::strong ? context_.fonts.strong
           : style == Style::code ? context_.fonts.mono
                                  : context_.fonts.text;
  }
  static float pad_of(Style style) { return style == Style::code ? kCodePad : 0; }
  float width_of(const Word& word) const {
    return text_width(font_of(word.style), word.text) + 2 * pad_of(word.style);
  }

  void set_block(const std::vector<Word>& words, bool item) {
    if (y_ > 0) y_ += item && was_item_ ? kBlockGap / 2 : kBlockGap;
    was_item_ = item;
    left_ = item ? std::min(kIndent, width_ / 4) : 0;
    if (item && draws_)
      draw_text(context_.fonts.text, {at_.x + 3, at_.y + y_ + line_ / 2}, {0, 0.5f}, ink_,
                "\u2022");
    const float space = text_width(context_.fonts.text, " ");
    x_ = left_;
    for (std::size_t first = 0; first < words.size();) {
      // Keep words together that have no space between them.
      std::size_t end = first + 1;
      float width = width_of(words[first]);
      for (; end < words.size() && !words[end].spaced; ++end) width += width_of(words[end]);
      const float before = x_ > left_ && words[first].spaced ? space : 0;
      if (x_ > left_ && x_ + before + width > width_)
        next_line();
      else
        x_ += before;
      for (; first < end; ++first) set_word(words[first]);
    }
    y_ += line_;
  }

  void set_word(const Word& word) {
    ImFont* font = font_of(word.style);
    const float pad = pad_of(word.style);
    std::string_view rest = word.text;
    while (!rest.empty()) {
      const float room = width_ - x_ - 2 * pad;
      std::string_view part = rest;
      if (text_width(font, rest) > room + 0.5f) {
        const char* stop = nullptr;
        font->CalcTextSizeA(font_height(font), std::max(room, 1.0f), 0, rest.data(),
                            rest.data() + rest.size(), &stop);
        part = rest.substr(0, static_cast<std::size_t>(stop - rest.data()));
        if (const std::size_t blank = part.rfind(' '); blank != part.npos)
          part = part.substr(0, blank + 1);
        if (part.empty() && x_ > left_) {
          next_line();
          continue;
        }
        if (part.empty()) part = first_character(rest);
      }
      const float width = text_width(font, part);
      draw(word.style, part, width, pad);
      x_ += width + 2 * pad;
      rest.remove_prefix(part.size());
      if (!rest.empty()) next_line();
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

  // `pad` is the width of the ground before and behind the text.
  void draw(Style style, std::string_view text, float width, float pad) {
    if (!draws_) return;
    const Palette& palette = context_.palette;
    const float x = at_.x + x_, middle = at_.y + y_ + line_ / 2;
    if (style == Style::code)
      fill({x, middle - line_ * 0.43f, x + width + 2 * pad, middle + line_ * 0.43f},
           mix(palette.panel, palette.text, 0.1), 3);
    const Color ink = style == Style::term ? mix(ink_, palette.accent, 0.55) : ink_;
    draw_text(font_of(style), {x + pad, middle}, {0, 0.5f}, ink, text);
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
  draw_label(context, {box.x1, y}, {1, 0.5f},
             fmt::format("{} of {}", session.telling.at + 1, count));
  const float share = static_cast<float>(session.telling.at + 1) / count;
  ImGui::SetCursorScreenPos({box.x0, box.y0 + 28});
  ImGui::ProgressBar(share, {box.width(), 3}, "");
}

// Draw one paragraph into `card`, with its text in lines of at most `width`.
void draw_paragraph(const PanelContext& context, int index, const Box& card, float width) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const StoryStep& told = session.story()[index];
  const bool current = index == session.telling.at;
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
    const bool current = i == session.telling.at;
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
  const bool moved = storage.GetInt(told_id, -2) != session.telling.at ||
                     storage.GetFloat(width_id) != width || storage.GetFloat(view_id) != view;
  if (!moved || height <= 0) return;
  storage.SetInt(told_id, session.telling.at);
  storage.SetFloat(width_id, width);
  storage.SetFloat(view_id, view);
  // Keep the paragraphs before it in sight as far as there is room.
  ImGui::SetScrollY(std::max(0.0f, current_y - std::max(0.0f, (view - current_height) * 0.35f)));
}

void draw_buttons(const PanelContext& context, float width) {
  Session& session = context.session;
  const Palette& palette = context.palette;
  const float half = std::floor((width - kStoryGap) / 2);
  const bool first = session.telling.at <= 0;
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
  return Setter(context, true, top_left, width, lit).set(blocks_of(text));
}

float rich_height(const PanelContext& context, float width, std::string_view text) {
  return Setter(context, false, {0, 0}, width, false).set(blocks_of(text));
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
