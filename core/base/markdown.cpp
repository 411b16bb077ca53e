#include "core/base/markdown.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/ranges.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kFold = "<details><summary>";

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

using Lines = std::vector<std::string_view>;
constexpr int kMostNested = 8;  // a story from elsewhere may nest without end

std::size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Return the length of an item's indentation and marker, "- " or "1. ", or 0 for another line.
std::size_t item_length(std::string_view line) {
  const std::size_t indent = indent_of(line);
  const std::size_t digits = std::min(line.find_first_not_of("0123456789", indent), line.size());
  const std::string_view sign = digits == indent ? "- " : ". ";
  return indent < 4 && line.substr(digits).starts_with(sign)
             ? digits + 1 + indent_of(line.substr(digits + 1))
             : 0;
}

std::size_t heading_level(std::string_view line) {
  const std::size_t level = std::min(line.find_first_not_of('#'), line.size());
  return line.substr(level).starts_with(' ') ? level : 0;
}

bool is_empty(std::string_view line) { return ranges::all_of(line, is_blank); }

bool is_quote(std::string_view line) { return line.starts_with("> ") || line == ">"; }

// Return whether a line ends the paragraph before it.
bool ends_paragraph(std::string_view line) {
  return is_empty(line) || is_quote(line) || heading_level(line) > 0 || item_length(line) > 0 ||
         line.starts_with("```") || line.starts_with(kFold);
}

class BlockParser {
 public:
  BlockParser(Lines lines, int depth) : lines_(std::move(lines)), depth_(depth) {}

  std::vector<TextBlock> parse() {
    while (at_ < lines_.size()) {
      const std::string_view line = lines_[at_];
      if (is_empty(line) || skip_comment()) {
        ++at_;
      } else if (line.starts_with("```")) {
        ++at_;
        add(Kind::listing, text_until("```"), std::string(line.substr(3)));
      } else if (line.starts_with("    ")) {
        indented_listing();
      } else if (const std::size_t level = heading_level(line); level > 0) {
        add(Kind::heading, std::string(line.substr(level + 1)));
        blocks_.back().level = static_cast<int>(level);
        ++at_;
      } else if (line.starts_with('|') && at_ + 1 < lines_.size() &&
                 lines_[at_ + 1].starts_with("|-")) {
        add(Kind::table, "");
        for (; at_ < lines_.size() && lines_[at_].starts_with('|'); ++at_)
          blocks_.back().text += std::string(lines_[at_]) + "\n";
      } else if (depth_ < kMostNested && line.starts_with(kFold)) {
        fold(line);
      } else if (depth_ < kMostNested && is_quote(line)) {
        Lines inside;
        for (; at_ < lines_.size() && is_quote(lines_[at_]); ++at_)
          inside.push_back(lines_[at_].substr(std::min<std::size_t>(2, lines_[at_].size())));
        add(Kind::quote, "");
        blocks_.back().inside = BlockParser(inside, depth_ + 1).parse();
      } else if (depth_ < kMostNested && item_length(line) > 0) {
        item();
      } else {
        add(Kind::paragraph, std::string(line.substr(indent_of(line))));
        for (++at_; at_ < lines_.size() && !ends_paragraph(lines_[at_]); ++at_)
          blocks_.back().text += " " + std::string(lines_[at_].substr(indent_of(lines_[at_])));
      }
    }
    return std::move(blocks_);
  }

 private:
  using Kind = TextBlock::Kind;

  void add(Kind kind, std::string text, std::string marker = "") {
    blocks_.push_back({kind, std::move(text), std::move(marker)});
  }

  // Move to the last line of a comment that begins here. Return false if there is none.
  bool skip_comment() {
    if (!lines_[at_].starts_with("<!--")) return false;
    for (std::size_t last = at_; last < lines_.size(); ++last)
      if (lines_[last].find("-->") != kNone) return at_ = last, true;
    return false;
  }

  // Return the lines before the next one that is `end`, and pass that.
  std::string text_until(std::string_view end) {
    std::string text;
    for (; at_ < lines_.size() && lines_[at_] != end; ++at_)
      text += std::string(lines_[at_]) + "\n";
    ++at_;
    return text;
  }

  void indented_listing() {
    add(Kind::listing, "");
    std::string& text = blocks_.back().text;
    for (std::string blank; at_ < lines_.size(); ++at_) {
      const std::string_view line = lines_[at_];
      if (!is_empty(line) && !line.starts_with("    ")) break;
      if (is_empty(line))
        blank += "\n";
      else
        text += std::exchange(blank, "") + std::string(line.substr(4)) + "\n";
    }
  }

  void fold(std::string_view line) {
    const std::string_view summary = line.substr(kFold.size());
    add(Kind::fold, std::string(summary.substr(0, summary.find("</summary>"))));
    Lines inside;
    for (++at_; at_ < lines_.size() && lines_[at_] != "</details>"; ++at_)
      inside.push_back(lines_[at_]);
    ++at_;
    blocks_.back().inside = BlockParser(inside, depth_ + 1).parse();
  }

  // An item goes on with lines that are indented, also after empty ones, and with the rest of a paragraph.
  void item() {
    const std::string_view line = lines_[at_];
    const std::size_t margin = indent_of(line), width = item_length(line);
    std::string marker(line.substr(margin, width - margin));
    marker.erase(marker.find_last_not_of(' ') + 1);
    add(Kind::item, "", std::move(marker));
    Lines inside = {line.substr(width)};
    for (++at_; at_ < lines_.size(); ++at_) {
      const std::string_view next = lines_[at_];
      const std::size_t indent = indent_of(next);
      const bool goes_on =
          is_empty(next) ? at_ + 1 < lines_.size() && !is_empty(lines_[at_ + 1]) &&
                               indent_of(lines_[at_ + 1]) >= width
                         : indent > margin || (!is_empty(inside.back()) && !ends_paragraph(next));
      if (!goes_on) break;
      inside.push_back(next.substr(std::min(width, indent)));
    }
    std::vector<TextBlock> blocks = BlockParser(inside, depth_ + 1).parse();
    if (!blocks.empty() && blocks[0].kind == Kind::paragraph) {
      blocks_.back().text = std::move(blocks[0].text);
      blocks.erase(blocks.begin());
    }
    blocks_.back().inside = std::move(blocks);
  }

  Lines lines_;
  int depth_;
  std::size_t at_ = 0;
  std::vector<TextBlock> blocks_;
};

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
  Lines lines;
  for_each_line(markdown, [&](std::string_view line) { lines.push_back(line); });
  return BlockParser(std::move(lines), 0).parse();
}

std::vector<std::vector<std::string>> cells_of(std::string_view table) {
  std::vector<std::vector<std::string>> rows;
  for_each_line(table, [&](std::string_view line) {
    std::string cell;
    rows.emplace_back();
    for (std::size_t i = 1; i < line.size(); ++i) {
      if (line[i] == '|') {
        cell.erase(cell.find_last_not_of(' ') + 1);
        rows.back().push_back(cell.substr(indent_of(cell)));
        cell.clear();
      } else {
        if (line[i] == '\\' && line.substr(i + 1).starts_with('|')) ++i;
        cell += line[i];
      }
    }
  });
  return rows;
}

std::vector<TextSpan> spans_of(std::string_view text) {
  std::vector<TextSpan> spans;
  std::string plain;
  const auto add = [&](TextSpan span) {
    if (!plain.empty()) spans.push_back({TextSpan::Kind::plain, std::exchange(plain, ""), ""});
    if (!span.text.empty()) spans.push_back(std::move(span));
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto* const mark = ranges::find_if(
        kMarks, [&](const auto& each) { return text.substr(i).starts_with(each.first); });
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
