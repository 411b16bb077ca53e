#include "viz/model/session/rich_text.h"

#include "core/base/markdown.h"

namespace ringscope::viz {

namespace {

bool is_space(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }

// Add the words of `text` in one style. `spaced` says, in and out, whether a space came before.
void add_words(RichBlock& block, std::string_view text, TextStyle style, bool& spaced) {
  bool joined = false;
  for (std::size_t at = 0; at < text.size();) {
    if (is_space(text[at])) {
      spaced = true;
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && !is_space(text[end])) ++end;
    block.words.push_back({std::string(text.substr(at, end - at)), style,
                           spaced && !block.words.empty(), joined && style == TextStyle::code});
    joined = true;
    spaced = false;
    at = end;
  }
}

void add_blocks(std::vector<RichBlock>& blocks, const std::vector<TextBlock>& parsed_blocks) {
  for (const TextBlock& parsed : parsed_blocks) {
    RichBlock block{parsed.marker == "-", {}};
    bool spaced = true;
    if (!block.item) add_words(block, parsed.marker + " ", TextStyle::plain, spaced);
    for (const TextSpan& span : spans_of(parsed.text)) {
      const bool is_link = span.kind == TextSpan::Kind::link;
      add_words(block, is_link ? "[" + span.text + "](" + span.target + ")" : span.text,
                span.kind == TextSpan::Kind::strong ? TextStyle::strong
                : span.kind == TextSpan::Kind::code ? TextStyle::code
                : span.kind == TextSpan::Kind::term ? TextStyle::emphasis
                                                    : TextStyle::plain,
                spaced);
    }
    if (!block.words.empty()) blocks.push_back(std::move(block));
    add_blocks(blocks, parsed.inside);
  }
}

}  // namespace

std::vector<RichBlock> rich_blocks(std::string_view text) {
  std::vector<RichBlock> blocks;
  add_blocks(blocks, blocks_of(text));
  return blocks;
}

}  // namespace ringscope::viz
