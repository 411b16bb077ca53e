// Parses the small subset of Markdown that lessons use: blocks, and the spans within them.
//
//   # Heading   paragraph   - item   1. item   > quote   a block indented by four spaces, as it is
//   **strong**   `code`   *a new term*   [text](link)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringscope::lessons {

struct Block {
  enum class Kind { heading, paragraph, item, quote, verbatim };
  Kind kind;
  std::string text;    // lines joined by blanks; verbatim: unchanged lines without the four spaces
  std::string marker;  // of an item: "-" or "1."
  int level = 0;       // of a heading
};

struct Span {
  enum class Kind { plain, strong, code, term, link };
  Kind kind;
  std::string text;
  std::string target;  // of a link
};

std::vector<Block> blocks_of(std::string_view markdown);
std::vector<Span> spans_of(std::string_view text);

// Return the anchor that Markdown makes of a heading's plain text.
std::string anchor_of(const std::string& heading);

// Return the terms that prose introduces *in single asterisks*, in order.
std::vector<std::string> terms_in(std::string_view markdown);

}  // namespace ringscope::lessons
