#include "viz/model/session/rich_text.h"

#include <algorithm>

namespace ringscope::viz {

namespace {

bool is_space(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }
bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Return where the second `mark` of a pair is whose first is at `at`, or npos if that is no first.
std::size_t partner(std::string_view text, std::size_t at, std::string_view mark) {
  const std::size_t begin = at + mark.size();
  if (mark == "`") {
    const std::size_t end = text.find('`', begin);
    return end == begin ? std::string_view::npos : end;
  }
  const bool opens = begin < text.size() && !is_space(text[begin]) && text[begin] != '*' &&
                     (at == 0 || !is_word(text[at - 1]));
  if (!opens) return std::string_view::npos;
  for (std::size_t end = text.find(mark, begin); end != std::string_view::npos;
       end = text.find(mark, end + 1)) {
    const std::size_t behind = end + mark.size();
    const bool longer = text[end - 1] == '*' || (behind < text.size() && text[behind] == '*');
    const bool inside = behind < text.size() && is_word(text[behind]);
    if (!is_space(text[end - 1]) && !longer && !inside) return end;
  }
  return std::string_view::npos;
}

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

void add_line(RichBlock& block, std::string_view text) {
  bool spaced = true;
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::string_view mark;
    for (const std::string_view known : {"**", "*", "`"})
      if (mark.empty() && text.substr(at, known.size()) == known) mark = known;
    const std::size_t end = mark.empty() ? std::string_view::npos : partner(text, at, mark);
    if (end == std::string_view::npos) {
      at += std::max<std::size_t>(mark.size(), 1);
      continue;
    }
    add_words(block, text.substr(plain, at - plain), TextStyle::plain, spaced);
    const std::size_t begin = at + mark.size();
    add_words(block, text.substr(begin, end - begin),
              mark == "`"   ? TextStyle::code
              : mark == "*" ? TextStyle::emphasis
                            : TextStyle::strong,
              spaced);
    plain = at = end + mark.size();
  }
  add_words(block, text.substr(plain), TextStyle::plain, spaced);
}

}  // namespace

std::vector<RichBlock> rich_blocks(std::string_view text) {
  std::vector<RichBlock> blocks;
  std::string pending;  // the block's lines, joined
  bool item = false;
  const auto finish = [&] {
    RichBlock block{item, {}};
    add_line(block, pending);
    if (!block.words.empty()) blocks.push_back(std::move(block));
    pending.clear();
    item = false;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool empty = std::all_of(line.begin(), line.end(), is_space);
    const bool begins_item = line.starts_with("- ");
    if (empty || begins_item) finish();
    if (begins_item) {
      item = true;
      line.remove_prefix(2);
    }
    if (!pending.empty()) pending += ' ';
    pending += line;
  }
  finish();
  return blocks;
}

}  // namespace ringscope::viz
