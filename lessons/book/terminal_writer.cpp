#include "lessons/book/terminal_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/markdown.h"
#include "core/base/program.h"
#include "core/base/text.h"
#include "lessons/book/book.h"

namespace ringscope::lessons {
namespace {

constexpr const char *kBold = "1", *kDim = "2", *kTerm = "1;4", *kHeading = "1;36", *kCode = "36",
                     *kGood = "32", *kBad = "1;31", *kAsk = "1;33";

std::string in_style(bool colour, const char* code, const std::string& text) {
  return colour ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

struct Word {
  std::string text;  // with its style
  bool after_blank;  // it may begin a new line
};

// Split spans into words that are styled one by one, so that lines may break between them.
std::vector<Word> words_of(const std::string& markdown, bool colour) {
  std::vector<Word> words;
  bool after_blank = true;
  for (const TextSpan& span : spans_of(markdown)) {
    const char* const style = span.kind == TextSpan::Kind::strong ? kBold
                              : span.kind == TextSpan::Kind::code ? kCode
                              : span.kind == TextSpan::Kind::term ? kTerm
                                                                  : nullptr;
    const std::string mark = colour                              ? ""
                             : span.kind == TextSpan::Kind::code ? "`"
                             : span.kind == TextSpan::Kind::term ? "*"
                                                                 : "";
    const std::string text = mark + span.text + mark;
    bool is_first = true;
    for (const std::string_view part : split(text, ' ')) {
      after_blank |= !std::exchange(is_first, false);
      if (part.empty()) continue;
      const std::string word(part);
      words.push_back({style == nullptr ? word : in_style(colour, style, word),
                       std::exchange(after_blank, false)});
    }
  }
  return words;
}

std::string wrap(const std::string& markdown, const std::string& first, const std::string& indent,
                 int width, bool colour) {
  const std::vector<Word> words = words_of(markdown, colour);
  std::string text = first;
  int column = columns_of(first);
  for (std::size_t i = 0; i < words.size();) {
    // Words without a blank between them stay on one line.
    std::string run = words[i].text;
    std::size_t next = i + 1;
    for (; next < words.size() && !words[next].after_blank; ++next) run += words[next].text;
    const int columns = columns_of(run);
    if (i > 0 && column + 1 + columns > width) {
      text += "\n" + indent;
      column = columns_of(indent);
    } else if (i > 0) {
      text += " ";
      ++column;
    }
    text += run;
    column += columns;
    i = next;
  }
  return text + "\n";
}

std::string with_margin(const std::string& text, const std::string& margin) {
  std::string result;
  for (const std::string& line : lines_of(text)) result += margin + line + "\n";
  return result;
}

bool looks_like_number(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
                           cell[0] == '-' || cell[0] == '.');
}

class TerminalWriter : public Writer {
 public:
  explicit TerminalWriter(Console& console) : console_(console) {}

  void begin(const Lesson& lesson) override {
    put(styled(kHeading, fmt::format("Lesson {}: {}", lesson.number, lesson.source.title)) + "\n",
        Last::block);
    put(styled(kDim, fmt::format("about {:.0f} minutes; the text is {}",
                                 std::ceil(reading_minutes(lesson)), lesson.path())) +
            "\n",
        Last::item);
  }

  void prose(const std::string& markdown) override {
    bool first = true;
    for (const TextBlock& block : blocks_of(markdown)) {
      const bool full = lines_ + 6 > console_.height() - 4;
      if ((first && output_) || (block.kind == TextBlock::Kind::heading && lines_ > 3) || full)
        pause();
      first = false;
      const bool is_item = block.kind == TextBlock::Kind::item;
      const std::string mark = is_item                                ? "  " + block.marker + " "
                               : block.kind == TextBlock::Kind::quote ? "  "
                                                                      : "";
      put(block.kind == TextBlock::Kind::heading ? styled(kHeading, block.text) + "\n"
          : block.kind == TextBlock::Kind::verbatim
              ? with_margin(block.text, "    ")
              : wrapped(block.text, mark, std::string(mark.size(), ' ')),
          is_item ? Last::item : Last::block);
    }
  }

  void listing(const std::string& origin, const std::string& code) override {
    std::string text = origin.empty() ? "" : "  " + styled(kDim, origin) + "\n";
    for (const std::string& line : lines_of(code)) {
      const std::size_t comment = line.find("//");
      const std::string head = line.substr(0, comment);
      text += "  " + styled(kDim, "│") + " " + (head.empty() ? "" : styled(kCode, head)) +
              (comment == std::string::npos ? "" : styled(kDim, line.substr(comment))) + "\n";
    }
    if (lines_ > 6 && lines_ + static_cast<int>(lines_of(code).size()) > console_.height() - 4)
      pause();
    put(text, Last::block);
  }

  std::optional<std::string> ask(const Question& question) override {
    const std::string unit = question.unit.empty() ? "" : " (" + question.unit + ")";
    put(wrapped(question.text + unit, styled(kAsk, "Predict: "), ""), Last::block);
    for (std::size_t i = 0; i < question.options.size(); ++i)
      put(fmt::format("  {}  {}\n", static_cast<char>('a' + i), question.options[i]), Last::output);
    if (console_.somebody_reads()) lines_ = 0;
    return read_answer(console_, question);
  }

  void answer(const Question& question, const Cell& actual, const std::string& verdict) override {
    if (!question.cells.empty()) {
      put(styled(kAsk, "It is this.") + (verdict.empty() ? "" : " " + verdict) + "\n" +
              drawn_rows(question.cells, "  "),
          Last::block);
      output_ = true;
      return;
    }
    const std::string unit = question.unit.empty() ? "" : " " + question.unit;
    put(styled(kAsk, "It is " + actual.shown + unit + ".") +
            (verdict.empty() ? "" : " " + verdict) + "\n",
        Last::block);
    output_ = true;
  }

  void value(const std::string& name, const Cell& value, const std::string& unit) override {
    put(wrapped(name + ": **" + value.shown + (unit.empty() ? "" : " " + unit) + "**", "  ",
                "    "),
        Last::output);
    output_ = true;
  }

  void table(const Table& table) override {
    std::vector<int> widths;
    for (std::size_t c = 0; c < table.head().size(); ++c) {
      int widest = columns_of(table.head()[c]);
      for (const std::vector<Cell>& row : table.rows())
        widest = std::max(widest, columns_of(row[c].shown));
      widths.push_back(widest);
    }
    const auto line_of = [&](std::size_t c, const std::string& text, bool right) {
      const std::string blanks(static_cast<std::size_t>(widths[c] - columns_of(text)), ' ');
      return "  " + (right ? blanks + text : text + blanks);
    };
    std::string head, rule, body;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      head += line_of(c, table.head()[c], c > 0);
      rule += fmt::format("  {:─<{}}", "", widths[c]);
    }
    for (const std::vector<Cell>& row : table.rows()) {
      std::string line;
      for (std::size_t c = 0; c < widths.size(); ++c)
        line += line_of(c, row[c].shown, c > 0 || looks_like_number(row[c].shown));
      body += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    put(styled(kBold, head) + "\n" + styled(kDim, rule) + "\n" + body, Last::block);
    output_ = true;
  }

  void text(const std::string& text) override {
    put(with_margin(text, "    "), Last::block);
    output_ = true;
  }

  void check(const std::string& claim, bool holds, const std::string& details) override {
    put(wrapped(claim + (details.empty() ? "" : ": " + details),
                holds ? styled(kGood, "  ok    ") : styled(kBad, "  WRONG "), "        "),
        Last::output);
    output_ = true;
  }

  void recording(const std::string& file, const Recording& recording) override {
    put(wrapped(fmt::format("Recorded, with a story of {}. Look at it now, and come back:",
                            count_text(recording.story.size(), "paragraph")),
                "", "") +
            "\n    " + styled(kBold, own_command() + " view " + file) + "\n",
        Last::block);
    output_ = true;
  }

  void picture(const std::string& file, const std::string& caption) override {
    put(wrapped("Picture: " + caption + " (" + file + ")", "  ", "  "), Last::block);
    output_ = true;
  }

  void end(const Lesson& lesson, int checks, int failed) override {
    const std::string checked =
        failed > 0 ? styled(kBad, fmt::format("{} of {} checks failed.", failed, checks))
                   : styled(kGood, fmt::format("All {} checks hold.", checks));
    std::string on = fmt::format(" Exercise: {} lesson {} --check", own_command(), lesson.number);
    for (const int next : lesson.next())
      on += fmt::format("\nNext: {} lesson {}, {}", own_command(), next,
                        lesson_of_number(next).source.title);
    put(checked + on + "\n", Last::block);
  }

 private:
  enum class Last { nothing, block, item, output };

  int width() const { return std::clamp(console_.width(), 40, 90); }

  std::string styled(const char* code, const std::string& text) const {
    return in_style(console_.colour(), code, text);
  }

  // Wrap `markdown`. The first line begins with `first`, and the others with `indent`.
  std::string wrapped(const std::string& markdown, const std::string& first,
                      const std::string& indent) const {
    return wrap(markdown, first, indent, width(), console_.colour());
  }

  // Write whole lines, after an empty one unless they continue a list or output.
  void put(const std::string& text, Last kind) {
    const bool goes_on = last_ == Last::nothing || (last_ == Last::item && kind == Last::item) ||
                         (last_ == Last::output && kind == Last::output);
    console_.write((goes_on ? "" : "\n") + text);
    lines_ += static_cast<int>(std::count(text.begin(), text.end(), '\n')) + (goes_on ? 0 : 1);
    last_ = kind;
  }

  // Let the reader catch up before more comes.
  void pause() {
    lines_ = 0;
    output_ = false;
    if (!console_.somebody_reads()) return;
    console_.write("\n" + styled(kDim, "Space: go on, q: stop"));
    const bool goes_on = console_.wait_for_key();
    // Erase the line, so that the next text begins in its place.
    console_.write(console_.colour() ? "\r\033[K\033[A" : "\n");
    if (!goes_on) throw ReaderStopped{};
  }

  Console& console_;
  Last last_ = Last::nothing;
  int lines_ = 0;        // since the last pause
  bool output_ = false;  // since the last pause
};

}  // namespace

int columns_of(std::string_view text) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((text[i] & 0xc0) != 0x80) {  // not a continuation byte
      ++columns;
    }
  }
  return columns;
}

std::string wrapped_text(const Console& console, const std::string& markdown,
                         const std::string& indent) {
  std::string text;
  for (const TextBlock& block : blocks_of(markdown))
    text += wrap(block.text, indent, indent, std::clamp(console.width(), 40, 90), console.colour());
  return text;
}

std::optional<std::string> read_answer(Console& console, const Question& question) {
  const bool draws = !question.cells.empty(), is_number = question.options.empty() && !draws;
  const std::string wanted = draws                   ? "Rows of # and ., with / between rows"
                             : is_number             ? "A number"
                             : question.letters == 1 ? "A letter"
                                                     : "All letters in order";
  const std::string not_that = draws       ? "That has other rows. "
                               : is_number ? "That is no number. "
                                           : "That is not among them. ";
  for (int tries = 0; tries < 3 && console.somebody_reads(); ++tries) {
    console.write(in_style(console.colour(), kDim,
                           (tries == 0 ? "" : not_that) + wanted + ", or Enter to skip: "));
    const std::optional<std::string> line = console.read_line();
    if (!line || *line == "q") throw ReaderStopped{};
    if (line->find_first_not_of(" \t\r") == std::string::npos) return std::nullopt;
    if (is_number && number_in(*line)) return line;
    const std::string others = draws ? cells_in(*line, question.cells)
                                     : letters_in(*line, question.options.size(), question.letters);
    if (!others.empty()) return others;
  }
  return std::nullopt;
}

Told tell_at(Console& console, const Lesson& lesson, const std::string& trace_folder) {
  TerminalWriter writer(console);
  return tell(lesson, writer, trace_folder);
}

}  // namespace ringscope::lessons
