// Sets a story's paragraph in lines.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "viz/model/session/rich_text.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {
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

}  // namespace

float draw_rich(const PanelContext& context, ImVec2 top_left, float width, bool lit,
                std::string_view text) {
  return Setter(context, true, top_left, width, lit).set(rich_blocks(text));
}

float rich_height(const PanelContext& context, float width, std::string_view text) {
  return Setter(context, false, {0, 0}, width, false).set(rich_blocks(text));
}

}  // namespace ringscope::viz
