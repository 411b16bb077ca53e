#include "lessons/book/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/markdown.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace.h"
#include "lessons/book/lesson.h"
#include "lessons/book/terminal.h"

namespace ringscope::lessons {
namespace {

std::string plain(double value) {
  if (std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15)
    return Cell::with_commas(static_cast<Index>(value));
  return fmt::format("{:.4g}", value);
}

std::string with_unit(const std::string& text, const std::string& unit) {
  return "**" + text + (unit.empty() ? "" : " ") + unit + "**";
}

// Return a line with its new terms linked to the glossary.
std::string with_links(const std::string& line) {
  std::string text;
  for (const TextSpan& span : spans_of(line)) {
    const bool is_link = span.kind == TextSpan::Kind::link;
    const char* const mark = span.kind == TextSpan::Kind::strong ? "**"
                             : span.kind == TextSpan::Kind::code ? "`"
                                                                 : "";
    if (span.kind == TextSpan::Kind::term)
      text += "[*" + span.text + "*](../glossary.md#" + anchor_of(span.text) + ")";
    else
      text += is_link ? "[" + span.text + "](" + span.target + ")" : mark + span.text + mark;
  }
  return text;
}

std::string table_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

// Describe what a story's paragraph points at.
std::string place_of(const StoryStep& step) {
  std::string place = fmt::format("The {}", name_of(step.figure.value_or(Figure::timeline)));
  if (step.pass) place += fmt::format(", {}", name_of(*step.pass));
  if (step.rank >= 0) place += fmt::format(", rank {}", step.rank);
  if (step.step >= 0) place += fmt::format(", step {}", step.step);
  if (step.lane) place += fmt::format(", {}", name_of(*step.lane));
  return place;
}

std::string minutes_text(const Lesson& lesson) {
  const Minutes minutes = minutes_of(lesson);
  return fmt::format("minutes: {} to read, {} to predict{}", minutes.reading, minutes.predictions,
                     minutes.exercise == 0 ? "" : fmt::format(", {} to solve", minutes.exercise));
}

// Return links to lessons, as "01 Title" or as "01", from `folder`.
std::string links_to(const std::vector<int>& numbers, const std::string& folder, bool titles) {
  std::string text;
  for (const Lesson& lesson : all_lessons())
    if (std::ranges::count(numbers, lesson.number) > 0)
      text += fmt::format("{}[{}{}]({}{}/README.md)", text.empty() ? "" : ", ", lesson.label(),
                          titles ? " " + lesson.source.title : "", folder, lesson.folder);
  return text;
}

}  // namespace

// ---
// Numbers as text.

Cell::Cell(double value) : Cell(plain(value)) {}

std::string Cell::with_commas(Index value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

Cell fixed(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

Cell percent(double share, int decimals) { return fmt::format("{:.{}f} %", 100 * share, decimals); }

Cell bytes(double count) {
  constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; std::abs(count) >= 1024 && unit + 1 < std::size(units); ++unit) count /= 1024;
  return fmt::format("{:.4g} {}", count, units[unit]);
}

Cell rounding(double error, double bound) {
  const std::string shown = error == 0 ? "0" : fmt::format("{:.1e}", error);
  return {shown, error <= bound ? fmt::format("at most {:g}", bound) : shown};
}

void Table::add(std::vector<Cell> cells) {
  if (cells.size() != head.size())
    throw std::logic_error(
        fmt::format("a row of {} cells under a head of {}", cells.size(), head.size()));
  rows.push_back(std::move(cells));
}

std::string matrix(const std::vector<double>& values, std::size_t columns, int decimals) {
  std::vector<std::string> texts;
  std::size_t width = 0;
  for (const double value : values) {
    texts.push_back(fmt::format("{:.{}f}", value, decimals));
    width = std::max(width, texts.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool ends_row = (i + 1) % columns == 0 || i + 1 == texts.size();
    text += fmt::format("{:>{}}{}", texts[i], width, ends_row ? "\n" : "  ");
  }
  return text;
}

std::string numbers(const std::vector<double>& values, int decimals) {
  return fmt::format("{:.{}f}", fmt::join(values, ", "), decimals);
}

// ---
// The page.

Told tell(const Lesson& lesson, const std::string& trace_folder, Terminal* reader) {
  return Page(lesson, trace_folder, reader).tell();
}

Told Page::tell() {
  told_.page = "<!-- Made from lesson.cpp, by the target lesson_pages. -->\n";
  paragraph(fmt::format("# {} {}", lesson_.label(), lesson_.source.title));
  paragraph(fmt::format(
      "[All lessons](../README.md) · [the program](lesson.cpp) · to step through it: "
      "`./ringscope lesson {}` · {}{}{}",
      lesson_.number, minutes_text(lesson_),
      lesson_.needs().empty() ? "" : " · read before: " + links_to(lesson_.needs(), "../", false),
      lesson_.prerequisite().empty() ? "" : " · you should know " + lesson_.prerequisite()));
  lesson_.run(*this);
  show_until(lesson_.source.line_count + 1);
  if (!lesson_.takeaways.empty()) prose("## Three things to keep\n\n" + lesson_.takeaways);
  const std::string& last = lesson_.elsewhere;
  const std::size_t end = last.starts_with("What breaks if ") ? last.find('\n') + 1 : 0;
  const std::size_t mark = last.find('?') + 1;
  if (end > 0) prose("## " + last.substr(0, mark) + "\n\n" + last.substr(mark + 1, end - mark - 1));
  if (!last.empty()) prose("## Elsewhere\n\n" + last.substr(end));
  for (const Asked& asked : asked_)
    if (!asked.answered) throw std::logic_error("'" + asked.question + "' is never answered");
  if (worked_ != lesson_.worked.size())
    throw std::logic_error(fmt::format("{}: {} questions on paper, {} in lessons/answers.txt",
                                       lesson_.folder, worked_, lesson_.worked.size()));
  const std::vector<int> next = lesson_.next();
  std::string links = links_to(next, "../", true);
  if (!next.empty()) links = ": " + links;
  if (const int following = lesson_.number + 1; std::ranges::count(next, following) == 0)
    if (const std::string link = links_to({following}, "../", true); !link.empty())
      links += (next.empty() ? ", in order: " : "; in order: ") + link;
  if (!links.empty()) paragraph("**Next**" + links);
  return std::move(told_);
}

// Show what stands above a call and has not been shown yet.
void Page::show_until(const At& at) {
  const Lines* const call = std::string_view(at.file).ends_with(lesson_.path())
                                ? lesson_.source.call_at(at.line)
                                : nullptr;
  if (call == nullptr)
    throw std::logic_error(
        fmt::format("{}:{}: the page may be called only by {}, in the lesson's own function, by a "
                    "statement of its own",
                    at.file, at.line, lesson_.path()));
  show_until(call->first);
}

void Page::show_until(int line) {
  const std::vector<Piece>& pieces = lesson_.source.pieces;
  for (; shown_ < pieces.size() && pieces[shown_].line < line; ++shown_) {
    const Piece& piece = pieces[shown_];
    if (piece.kind == Piece::Kind::code)
      paragraph("```cpp\n" + piece.text + "```");
    else if (!piece.text.empty())
      prose(piece.text);
  }
}

void Page::prose(const std::string& markdown) {
  std::string text;
  for (const std::string& line : lines_of(markdown)) {
    if (line.starts_with("## ")) on_paper_ = line == "## On paper" || line == "## With the program";
    if (line == "## Checks") {  // they stand on a page of their own
      if (!lesson_.python.empty())
        text += "<details><summary>The same in NumPy</summary>\n\n```python\n" + lesson_.python +
                "```\n</details>\n";
      continue;
    }
    text += (line.starts_with("    ") ? line : with_links(line)) + "\n";
  }
  if (!text.empty()) paragraph(text);
}

void Page::paragraph(const std::string& text) {
  told_.page += "\n" + text + (text.ends_with('\n') ? "" : "\n");
  in_list_ = just_asked_ = false;
  if (reader_ != nullptr) reader_->show(text);
}

// Write an item. Consecutive items form one list.
void Page::item(const std::string& text) {
  told_.page += (in_list_ ? "- " : "\n- ") + text + "\n";
  in_list_ = true;
  if (reader_ != nullptr) reader_->show("- " + text);
}

Guess Page::predict(const std::string& question, const std::string& unit, At at) {
  show_until(at);
  paragraph("> **Predict.** " + question + (unit.empty() ? "" : " (" + unit + ")"));
  just_asked_ = true;
  asked_.push_back({question, unit, reader_ != nullptr ? reader_->ask("Your prediction") : ""});
  return {asked_.size() - 1};
}

void Page::answer(const Guess& guess, const Cell& actual, At at) {
  show_until(at);
  fold(guess, with_unit(seen(actual), asked_.at(guess.number).unit));
}

void Page::fold(const Guess& guess, const std::string& answer) {
  Asked& asked = asked_.at(guess.number);
  asked.answered = true;
  std::string how;
  if (on_paper_ && worked_++ < lesson_.worked.size()) how = "\n\n" + lesson_.worked[worked_ - 1];
  paragraph(fmt::format("<details><summary>Answer{}</summary>\n\n{}{}\n</details>",
                        just_asked_ ? "" : ": " + asked.question, answer, how));
  if (!asked.prediction.empty()) reader_->show("You predicted " + asked.prediction + ".");
}

void Page::predict(const std::string& question, const std::string& unit, const Cell& actual,
                   At at) {
  answer(predict(question, unit, at), actual, at);
}

void Page::choose(const std::string& question, const std::vector<std::string>& options,
                  const std::string& letters, At at) {
  std::string asked = question, right;
  for (std::size_t i = 0; i < options.size(); ++i)
    asked += fmt::format(" **{})** {}", static_cast<char>('a' + i), options[i]);
  for (const char c : letters)
    right += (right.empty() ? "" : "; ") + options.at(static_cast<std::size_t>(c - 'a'));
  predict(asked, "", right, at);
}

void Page::draw(const std::string& question, const std::string& cells, At at) {
  std::string rows = cells;
  std::ranges::replace(rows, '/', '\n');
  fold(predict(question, "", at), "```text\n" + rows + "\n```");
}

void Page::value(const std::string& name, const Cell& value, const std::string& unit, At at) {
  show_until(at);
  item(name + ": " + with_unit(seen(value), unit));
}

void Page::table(const Table& table, At at) {
  show_until(at);
  std::string text = table_row(table.head) + "|---|";
  for (std::size_t i = 1; i < table.head.size(); ++i) text += "---:|";
  text += "\n";
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(seen(cell));
    text += table_row(cells);
  }
  paragraph(text);
}

void Page::print(const std::string& text, At at) {
  show_until(at);
  paragraph("```text\n" + text + (text.ends_with('\n') ? "" : "\n") + "```");
}

void Page::check(const std::string& claim, bool holds, At at) { judge(claim, holds, "", at); }

void Page::equal(const std::string& claim, const Cell& found, const Cell& expected, At at) {
  judge(claim, found.shown == expected.shown,
        fmt::format(": {} found, {} expected", found.shown, expected.shown), at);
}

void Page::at_most(const std::string& claim, double error, double bound, At at) {
  judge(claim, error <= bound, fmt::format(": {:g} found, at most {:g} expected", error, bound),
        at);
}

void Page::judge(const std::string& claim, bool holds, const std::string& details, const At& at) {
  show_until(at);
  ++told_.checks;
  if (holds) {
    told_.claims += "- " + claim + "\n";
    return;
  }
  ++told_.failed;
  item("**WRONG** " + claim + details);
}

void Page::region(const std::string& path, const std::string& name, At at) {
  show_until(at);
  const Region region = region_in(embedded_text(path), path, name);
  paragraph(fmt::format("[{}](../../{}), line {}:", path, path, region.first_line));
  paragraph("```cpp\n" + region.text + "```");
}

void Page::trace(Recording recording, std::vector<StoryStep> story, const std::string& name,
                 At at) {
  show_until(at);
  const std::string label = name.empty() ? "" : "-" + name;
  recording.story = std::move(story);
  const std::filesystem::path folder = trace_folder_.empty() ? "runs/lessons" : trace_folder_;
  const std::string file = (folder / (lesson_.label() + label + ".json")).string();
  if (!trace_folder_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
      throw InputError(fmt::format("--out '{}': {}; accepted: a folder that exists or can be made",
                                   trace_folder_, error.message()));
    write_chrome_trace(file, recording);
  }
  paragraph("The lesson records this run, with a story: `./ringscope view " + file + "`.");
  int number = 0;
  for (const StoryStep& step : recording.story) {
    told_.pictures.push_back({fmt::format("story{}-{}.svg", label, number + 1), recording, number});
    paragraph(fmt::format("{}. {}\n\n   ![{}]({})", ++number, step.text, place_of(step),
                          told_.pictures.back().file));
  }
}

void Page::picture(const std::string& file, const std::string& caption, At at) {
  show_until(at);
  paragraph("![" + caption + "](" + file + ")");
}

void Page::picture(const std::string& file, const std::string& caption, const Drawing& drawing,
                   At at) {
  told_.drawings[file] = drawing.svg(caption);
  picture(file, caption, at);
}

// ---
// Pages beside those of the lessons.

std::string contents_page() {
  std::string books[2], ways;  // the second book is about GPUs
  for (const Lesson& lesson : all_lessons())
    books[lesson.folder.substr(3, 3) == "gpu"] += fmt::format(
        "| {} | [{}]({}/README.md) | {} | {} + {} + {} |\n", lesson.label(), lesson.source.title,
        lesson.folder, lesson.source.summary, minutes_of(lesson).reading,
        minutes_of(lesson).predictions, minutes_of(lesson).exercise);
  for (const Way& way : ways_through()) {
    ways += fmt::format("- **{}**: {}. Read", way.name, way.aim);
    for (const int number : way.lessons)
      ways += (number == way.lessons[0] ? " " : ", ") + links_to({number}, "", false);
    ways += ".\n";
  }
  return filled(embedded_text("lessons/contents.txt"),
                {{"first", books[0]}, {"second", books[1]}, {"ways", ways}});
}

std::string checks_page() {
  std::string text(embedded_text("lessons/checks.txt"));
  for (const Lesson& lesson : all_lessons()) text += "\n" + claims_of(lesson, tell(lesson));
  return text;
}

std::string claims_of(const Lesson& lesson, const Told& told) {
  return fmt::format("## [{} {}]({}/README.md)\n\n{}", lesson.label(), lesson.source.title,
                     lesson.folder, told.claims);
}

std::string glossary_page() {
  std::string text = "<!-- Made from glossary.txt, by the target lesson_pages. -->\n\n# Glossary\n";
  for (const Entry& entry : glossary()) {
    text += fmt::format("\n## {}\n\n{}\n\nDefined in [{}](../{}): `{}`. ", entry.term, entry.text,
                        entry.file, entry.file, entry.name);
    text += "Lesson " + links_to({entry.lesson}, "", true) + ".\n";
  }
  return text;
}

}  // namespace ringscope::lessons
