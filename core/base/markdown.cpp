#include "core/base/markdown.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Return the length of "- " or "1. ", including the blank, or 0 if `line` begins no item.
std::size_t marker_length(std::string_view line) {
  const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  const std::string_view sign = digits == 0 ? "- " : ". ";
  return line.substr(digits).starts_with(sign) ? digits + sign.size() : 0;
}

bool is_blank(char c) { return static_cast<unsigned char>(c) <= ' '; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0; }

constexpr std::pair<std::string_view, TextSpan::Kind> kMarks[] = {
    {"**", TextSpan::Kind::strong}, {"*", TextSpan::Kind::term}, {"`", TextSpan::Kind::code}};

// Return where the second `mark` of a pair is whose first is at `at`, or kNone if that is no first, as
// in "a * b" and "2*3*4".
std::size_t partner(std::string_view text, std::size_t at, std::string_view mark) {
  const std::size_t begin = at + mark.size();
  if (mark == "`") {
    const std::size_t end = text.find('`', begin);
    return end == begin ? kNone : end;
  }
  const bool opens = begin < text.size() && !is_blank(text[begin]) && text[begin] != '*' &&
                     (at == 0 || !is_word(text[at - 1]));
  if (!opens) return kNone;
  for (std::size_t end = text.find(mark, begin); end != kNone; end = text.find(mark, end + 1)) {
    const std::size_t behind = end + mark.size();
    const bool longer = text[end - 1] == '*' || (behind < text.size() && text[behind] == '*');
    const bool inside = behind < text.size() && is_word(text[behind]);
    if (!is_blank(text[end - 1]) && !longer && !inside) return end;
  }
  return kNone;
}

}  // namespace

std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (is_word(c) || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

std::vector<TextBlock> blocks_of(std::string_view markdown) {
  std::vector<TextBlock> blocks;
  bool open = false;  // the last block may continue
  const auto go_on = [&](TextBlock::Kind kind) {
    return open && !blocks.empty() && blocks.back().kind == kind;
  };
  const auto begin = [&](TextBlock::Kind kind, std::string_view text,
                         std::string_view marker = "") {
    blocks.push_back({kind, std::string(text), std::string(marker), 0});
    open = true;
  };
  for_each_line(markdown, [&](std::string_view line) {
    const std::size_t level = std::min(line.find_first_not_of('#'), line.size());
    if (std::all_of(line.begin(), line.end(), is_blank)) {
      if (go_on(TextBlock::Kind::verbatim))
        blocks.back().text += "\n";
      else
        open = false;
    } else if (line.starts_with("    ") && (!open || go_on(TextBlock::Kind::verbatim))) {
      if (!go_on(TextBlock::Kind::verbatim)) begin(TextBlock::Kind::verbatim, "");
      blocks.back().text += std::string(line.substr(4)) + "\n";
    } else if (level > 0 && line.substr(level).starts_with(' ')) {
      begin(TextBlock::Kind::heading, line.substr(level + 1));
      blocks.back().level = static_cast<int>(level);
      open = false;
    } else if (const std::size_t marker = marker_length(line); marker > 0) {
      begin(TextBlock::Kind::item, line.substr(marker), line.substr(0, marker - 1));
    } else if (line.starts_with("> ")) {
      if (go_on(TextBlock::Kind::quote))
        blocks.back().text += " " + std::string(line.substr(2));
      else
        begin(TextBlock::Kind::quote, line.substr(2));
    } else if (go_on(TextBlock::Kind::paragraph) || go_on(TextBlock::Kind::item)) {
      blocks.back().text += " " + std::string(line.substr(line.find_first_not_of(' ')));
    } else {
      begin(TextBlock::Kind::paragraph, line);
    }
  });
  for (TextBlock& block : blocks)
    while (block.kind == TextBlock::Kind::verbatim && block.text.ends_with("\n\n"))
      block.text.pop_back();
  return blocks;
}

std::vector<TextSpan> spans_of(std::string_view text) {
  std::vector<TextSpan> spans;
  std::string plain;
  const auto add = [&](TextSpan span) {
    if (!plain.empty()) spans.push_back({TextSpan::Kind::plain, std::exchange(plain, ""), ""});
    if (!span.text.empty()) spans.push_back(std::move(span));
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto* const mark =
        std::find_if(std::begin(kMarks), std::end(kMarks),
                     [&](const auto& each) { return text.substr(i).starts_with(each.first); });
    if (mark != std::end(kMarks)) {
      const std::size_t size = mark->first.size(), end = partner(text, i, mark->first);
      if (end == kNone)
        plain += mark->first;
      else
        add({mark->second, std::string(text.substr(i + size, end - i - size)), ""});
      i = (end == kNone ? i : end) + size;
      continue;
    }
    const std::size_t end = text[i] == '[' ? text.find("](", i) : kNone;
    const std::size_t close = end == kNone ? kNone : text.find(')', end);
    if (close == kNone) {
      plain += text[i++];
      continue;
    }
    add({TextSpan::Kind::link, std::string(text.substr(i + 1, end - i - 1)),
         std::string(text.substr(end + 2, close - end - 2))});
    i = close + 1;
  }
  add({TextSpan::Kind::plain, "", ""});
  return spans;
}

}  // namespace ringscope
