#include "lessons/book/terminal.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.h"
#include "lessons/book/drawing.h"

namespace ringscope::lessons {
namespace {

constexpr const char *kBold = "1", *kDim = "2", *kTerm = "1;4", *kHeading = "1;36", *kCode = "36",
                     *kAsk = "1;33";

}  // namespace

void Terminal::show(std::string_view markdown) { show(blocks_of(markdown), ""); }

void Terminal::show(const std::vector<TextBlock>& blocks, const std::string& margin) {
  for (const TextBlock& block : blocks) {
    switch (block.kind) {
      case TextBlock::Kind::heading:
        if (lines_ > 3) ask("Enter: go on");
        put(styled(kHeading, block.text) + "\n");
        break;
      case TextBlock::Kind::paragraph:
        put(wrapped(block.text, margin, margin));
        break;
      case TextBlock::Kind::item: {
        const std::string mark = margin + "  " + block.marker + " ";
        put(wrapped(block.text, mark, std::string(mark.size(), ' ')), true);
        show(block.inside, std::string(mark.size(), ' '));
        break;
      }
      case TextBlock::Kind::listing: {
        std::string lines;
        for_each_line(block.text, [&](std::string_view line) {
          lines += margin + "    " + styled(kCode, std::string(line)) + "\n";
        });
        put(lines);
        break;
      }
      case TextBlock::Kind::table:
        put(table(block.text, margin));
        break;
      case TextBlock::Kind::fold:
        put(margin + styled(kAsk, block.text) + "\n");
        show(block.inside, margin + "  ");
        break;
      case TextBlock::Kind::quote:
        show(block.inside, margin + "  ");
        break;
    }
  }
}

std::string Terminal::ask(const std::string& what) {
  if (!somebody_reads()) return "";
  lines_ = 0;
  console_.write("\n" + styled(kDim, what + "; q: stop. "));
  const std::optional<std::string> line = console_.read_line();
  if (!line || *line == "q") throw ReaderStopped{};
  return *line;
}

// Write whole lines, after an empty one unless an item follows another. Let the reader catch up before
// what no longer fits the screen.
void Terminal::put(const std::string& text, bool is_item) {
  const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  if (lines_ > 0 && lines_ + lines + 3 > console_.height) ask("Enter: go on");
  const bool goes_on = is_first_ || (in_list_ && is_item);
  console_.write((goes_on ? "" : "\n") + text);
  lines_ += lines + (goes_on ? 0 : 1);
  is_first_ = false;
  in_list_ = is_item;
}

std::string Terminal::styled(const char* style, const std::string& text) const {
  return console_.colour && *style != '\0' && !text.empty()
             ? fmt::format("\033[{}m{}\033[0m", style, text)
             : text;
}

// Wrap `markdown`. The first line begins with `first`, and the others with `indent`.
std::string Terminal::wrapped(const std::string& markdown, const std::string& first,
                              const std::string& indent) const {
  const auto width = static_cast<std::size_t>(std::clamp(console_.width, 40, 90));
  std::string text = first, word;  // `word` may have parts in several styles
  std::size_t column = columns_of(first), word_columns = 0;
  bool begins_line = true;
  const auto end_word = [&] {
    if (word.empty()) return;
    if (!begins_line && column + 1 + word_columns > width) {
      text += "\n" + indent;
      column = columns_of(indent);
    } else if (!begins_line) {
      text += " ";
      ++column;
    }
    text += word;
    column += word_columns;
    begins_line = false;
    word.clear();
    word_columns = 0;
  };
  const std::vector<TextSpan> spans = spans_of(markdown);
  bool is_picture = false;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const TextSpan& span = spans[i];
    const bool is_term = span.kind == TextSpan::Kind::term,
               is_code = span.kind == TextSpan::Kind::code;
    const bool is_strong = span.kind == TextSpan::Kind::strong;
    const char* const style = is_term ? kTerm : is_code ? kCode : is_strong ? kBold : "";
    const char* const mark = console_.colour ? "" : is_term ? "*" : is_code ? "`" : "";
    std::string shown = mark + span.text + mark;
    if (is_picture) shown += " (" + span.target + ")";
    is_picture =
        shown.ends_with('!') && i + 1 < spans.size() && spans[i + 1].kind == TextSpan::Kind::link;
    if (is_picture) shown.pop_back();
    bool is_first = true;
    for (const std::string_view part : split(shown, ' ')) {
      if (!is_first) end_word();
      is_first = false;
      word += styled(style, std::string(part));
      word_columns += columns_of(part);
    }
  }
  end_word();
  return text + "\n";
}

// Align a table's columns: numbers, which the rule tells, to the right.
std::string Terminal::table(const std::string& text, const std::string& margin) const {
  const std::vector<std::vector<std::string>> rows = cells_of(text);
  std::vector<std::size_t> widths(std::min(rows[0].size(), rows[1].size()), 1);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < widths.size() && c < rows[i].size() && i != 1; ++c)
      widths[c] = std::max(widths[c], columns_of(rows[i][c]));
  std::string lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string line = margin;
    for (std::size_t c = 0; c < widths.size() && c < rows[i].size(); ++c) {
      const std::string blanks(widths[c] - std::min(widths[c], columns_of(rows[i][c])), ' ');
      const bool is_right = rows[1][c].ends_with("-:");
      line += "  " + (i == 1     ? fmt::format("{:─<{}}", "", widths[c])
                      : is_right ? blanks + rows[i][c]
                                 : rows[i][c] + blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines += styled(i == 0 ? kBold : i == 1 ? kDim : "", line) + "\n";
  }
  return lines;
}

}  // namespace ringscope::lessons
