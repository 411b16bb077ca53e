// Parses the small subset of Markdown that lessons, their pages and stories use: blocks, and the spans
// within them. No text is refused.
//
//   # Heading   paragraph   - item   1. item   > quote   a block indented by four spaces, as it is
//   **strong**   `code`   *a new term*   [text](link)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringscope {

struct TextBlock {
  enum class Kind { heading, paragraph, item, quote, verbatim };
  Kind kind;
  std::string text;    // lines joined by blanks; verbatim: unchanged lines without the four spaces
  std::string marker;  // of an item: "-" or "1."
  int level = 0;       // of a heading
};

struct TextSpan {
  enum class Kind { plain, strong, code, term, link };
  Kind kind;
  std::string text;
  std::string target;  // of a link
};

std::vector<TextBlock> blocks_of(std::string_view markdown);
// Return the spans, which don't nest. Marks without their second half, and asterisks inside words or
// between spaces, are plain text.
std::vector<TextSpan> spans_of(std::string_view text);

// Return the anchor that Markdown makes of a heading's plain text.
std::string anchor_of(const std::string& heading);

}  // namespace ringscope
