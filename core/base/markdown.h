// Parses the part of Markdown that lessons, the project's pages and stories use: blocks, which may hold
// others, and the spans of their text. No text is refused.
//
//   # Heading   paragraph   - item   1. item   > quote   | table |   ```listing```   <!-- comment -->
//   a listing indented by four spaces   <details><summary>Summary</summary> a fold </details>
//   **strong**   `code`   *a new term*   [text](link)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringscope {

struct TextBlock {
  enum class Kind { heading, paragraph, item, quote, listing, table, fold };
  Kind kind;
  // Markdown in one line: of an item its first paragraph, of a fold its summary. Of a listing and a table:
  // their lines.
  std::string text;
  std::string marker = {};  // of an item "-" or "1."; of a listing its language, if it has one
  int level = 0;            // of a heading
  std::vector<TextBlock> inside = {};  // of an item (without its text), a quote and a fold
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

// Return the rows of a table's text, each with its cells. The second row is the rule below the head.
std::vector<std::vector<std::string>> cells_of(std::string_view table);

// Return the anchor that Markdown makes of a heading's plain text.
std::string anchor_of(const std::string& heading);

}  // namespace ringscope
