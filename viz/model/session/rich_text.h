// Numbers in the sentences and tables that the model writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringscope::viz {

std::string words_of_time(double ns);        // "312 ms", "1.25 s": three digits, one unit
std::string words_of_count(double count);    // "134 M"
std::string words_of_bytes(double bytes);    // "4.25 MiB"
std::string words_of_share(double share);    // "97 %"; "0.4 %" below one
std::string words_of_factor(double factor);  // "1.75", "7", "13"

// ---
// The little Markdown that a story is written in, as words to be set in lines.

enum class TextStyle : std::uint8_t { plain, strong, emphasis, code };

// What no line breaks inside of, save where it is wider than a line.
struct RichWord {
  std::string text;  // not empty; without spaces and control characters
  TextStyle style = TextStyle::plain;
  bool spaced = false;  // a space stands before it; otherwise it clings to the word before
  bool joined = false;  // it goes on with the `code` of the word before

  bool operator==(const RichWord&) const = default;
};

struct RichBlock {
  bool item = false;  // of a list
  std::vector<RichWord> words;
};

// An empty line begins a block, and so does a line that begins with "- ", an item. `code`, **strong**
// and *emphasis* don't nest; marks without their second half, and asterisks inside words or between
// spaces, stand for themselves. Any text is some text.
std::vector<RichBlock> rich_blocks(std::string_view text);

}  // namespace ringscope::viz
