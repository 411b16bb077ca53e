// Splits the Markdown that a story is written in (core/base/markdown.h) into words to set in lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringscope::viz {

enum class TextStyle : std::uint8_t { plain, strong, emphasis, code };

// Lines don't break inside a RichWord unless it is wider than a line.
struct RichWord {
  std::string text;  // not empty; without spaces and control characters
  TextStyle style = TextStyle::plain;
  bool spaced = false;  // a space stands before it; otherwise it clings to the last word
  bool joined = false;  // it continues the `code` of the word before

  bool operator==(const RichWord&) const = default;
};

struct RichBlock {
  bool item = false;  // of a list
  std::vector<RichWord> words;
};

// Return the blocks of `text`; a new term is emphasised, and a link is plain text.
std::vector<RichBlock> rich_blocks(std::string_view text);

}  // namespace ringscope::viz
