#include "lessons/book/prose.h"

#include <cctype>
#include <regex>

#include "lessons/book/source.h"

namespace ringscope::lessons {
namespace {

// Return the length of "- " or "1. ", including the blank, or 0 if `line` begins no item.
std::size_t marker_length(const std::string& line) {
  static const std::regex pattern(R"(^(-|\d+\.) )");
  std::smatch match;
  return std::regex_search(line, match, pattern) ? static_cast<std::size_t>(match.length()) : 0;
}

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Return whether a letter or digit stands before `at`, as in "2*3*4".
bool follows_word(std::string_view text, std::size_t at) {
  return at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
}

// Return the end of the span from `from` to its `mark`, or npos if there is none, as in "a * b".
std::size_t closing(std::string_view text, std::size_t from, std::string_view mark) {
  if (from >= text.size() || is_blank(text[from])) return std::string_view::npos;
  const std::size_t end = text.find(mark, from + 1);
  return end == std::string_view::npos || is_blank(text[end - 1]) ? std::string_view::npos : end;
}

}  // namespace

std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || (c & 0x80) != 0)
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

std::vector<Block> blocks_of(std::string_view markdown) {
  std::vector<Block> blocks;
  bool open = false;  // the last block may continue
  const auto go_on = [&](Block::Kind kind) {
    return open && !blocks.empty() && blocks.back().kind == kind;
  };
  for (const std::string& line : lines_of(markdown)) {
    if (line.empty()) {
      if (go_on(Block::Kind::verbatim))
        blocks.back().text += "\n";
      else
        open = false;
    } else if (line.starts_with("    ") && (!open || go_on(Block::Kind::verbatim))) {
      if (!go_on(Block::Kind::verbatim)) blocks.push_back({Block::Kind::verbatim, "", "", 0});
      blocks.back().text += line.substr(4) + "\n";
      open = true;
    } else if (line[0] == '#') {
      const std::size_t level = line.find_first_not_of('#');
      blocks.push_back({Block::Kind::heading, line.substr(level + 1), "", static_cast<int>(level)});
      open = false;
    } else if (const std::size_t marker = marker_length(line); marker > 0) {
      blocks.push_back({Block::Kind::item, line.substr(marker), line.substr(0, marker - 1), 0});
      open = true;
    } else if (line.starts_with("> ")) {
      if (go_on(Block::Kind::quote))
        blocks.back().text += " " + line.substr(2);
      else
        blocks.push_back({Block::Kind::quote, line.substr(2), "", 0});
      open = true;
    } else if (go_on(Block::Kind::paragraph) || go_on(Block::Kind::item)) {
      blocks.back().text += " " + line.substr(line.find_first_not_of(' '));
    } else {
      blocks.push_back({Block::Kind::paragraph, line, "", 0});
      open = true;
    }
  }
  for (Block& block : blocks)
    while (block.kind == Block::Kind::verbatim && block.text.ends_with("\n\n"))
      block.text.pop_back();
  return blocks;
}

std::vector<Span> spans_of(std::string_view text) {
  std::vector<Span> spans;
  std::string plain;
  const auto add = [&](Span span) {
    if (!plain.empty()) spans.push_back({Span::Kind::plain, plain, ""});
    plain.clear();
    spans.push_back(std::move(span));
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto inner = [&](std::size_t skip, std::size_t end) {
      return std::string(text.substr(i + skip, end - i - skip));
    };
    std::size_t end = 0;
    if (text[i] == '`' && (end = text.find('`', i + 1)) != std::string_view::npos) {
      add({Span::Kind::code, inner(1, end), ""});
      i = end + 1;
    } else if (text.substr(i, 2) == "**" &&
               (end = closing(text, i + 2, "**")) != std::string_view::npos) {
      add({Span::Kind::strong, inner(2, end), ""});
      i = end + 2;
    } else if (text[i] == '*' && !follows_word(text, i) &&
               (end = closing(text, i + 1, "*")) != std::string_view::npos) {
      add({Span::Kind::term, inner(1, end), ""});
      i = end + 1;
    } else if (text[i] == '[' && (end = text.find("](", i)) != std::string_view::npos &&
               text.find(')', end) != std::string_view::npos) {
      const std::size_t close = text.find(')', end);
      add({Span::Kind::link, inner(1, end), std::string(text.substr(end + 2, close - end - 2))});
      i = close + 1;
    } else {
      plain += text[i++];
    }
  }
  if (!plain.empty()) spans.push_back({Span::Kind::plain, plain, ""});
  return spans;
}

std::vector<std::string> terms_in(std::string_view markdown) {
  std::vector<std::string> terms;
  for (const Block& block : blocks_of(markdown)) {
    if (block.kind == Block::Kind::verbatim) continue;
    for (const Span& span : spans_of(block.text))
      if (span.kind == Span::Kind::term) terms.push_back(span.text);
  }
  return terms;
}

}  // namespace ringscope::lessons
