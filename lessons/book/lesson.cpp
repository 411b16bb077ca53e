#include "lessons/book/lesson.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <stdexcept>
#include <vector>

#include "core/base/error.h"

namespace ringscope::lessons {
namespace {

// Return the text below the line "## NN" of a built-in file, up to the next one.
std::string section_of(std::string_view path, const std::string& label) {
  std::string section;
  bool inside = false;
  for (const std::string& line : lines_of(embedded_text(path))) {
    if (line.starts_with("## "))
      inside = line == "## " + label;
    else if (inside)
      section += line + "\n";
  }
  const std::size_t first = section.find_first_not_of('\n');
  if (first == std::string::npos) return "";
  return section.substr(first, section.find_last_not_of('\n') + 1 - first) + "\n";
}

std::vector<Lesson> read_lessons() {
  std::vector<Lesson> lessons;
  for (const EmbeddedLesson& embedded : embedded_lessons()) {
    Lesson lesson{embedded.number, embedded.folder, embedded.run, {}, {}};
    try {
      lesson.source = parse_lesson(embedded_text(lesson.path()), lesson.number);
    } catch (const std::logic_error& error) {
      throw std::logic_error(lesson.path() + ": " + error.what());
    }
    lesson.elsewhere = section_of("lessons/elsewhere.txt", lesson.label());
    lessons.push_back(std::move(lesson));
  }
  return lessons;
}

// What each lesson builds on, from lesson 1 on.
const std::vector<int> kNeeds[] = {
    {},       {1},          {2},      {3},      {4},  {5},  // 1 to 6
    {6},      {7},          {8},      {9},      {9},        // 7 to 11: masks, deals, backward
    {10, 11}, {4},          {6, 13},  {6},      {10},  // 12 to 16: overlap, GPUs, processes, a model
    {16, 28}, {16, 28},     {},       {6},      {28},  // 17 to 21
    {12},     {12, 16, 20}, {15, 21}, {21, 22},        // 22 to 25
    {14},     {26},         {12},     {16}};           // 26 to 29

auto count_lines(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

std::vector<std::string> Lesson::hints() const {
  std::vector<std::string> hints;
  for (const std::string& line : lines_of(section_of("lessons/my_ring/hints.txt", label())))
    if (!line.empty()) hints.push_back(line);
  return hints;
}

const std::vector<int>& Lesson::needs() const { return kNeeds[number - 1]; }

std::vector<int> Lesson::next() const {
  std::vector<int> after;
  for (const Lesson& other : all_lessons())
    if (std::ranges::count(other.needs(), number) > 0) after.push_back(other.number);
  return after;
}

std::vector<int> reading_order(const std::vector<int>& goals) {
  std::vector<int> order;
  for (const int goal : goals) {
    std::vector<int> before = reading_order(kNeeds[goal - 1]);
    before.push_back(goal);
    for (const int lesson : before)
      if (std::ranges::count(order, lesson) == 0) order.push_back(lesson);
  }
  return order;
}

std::string Lesson::exercise() const {
  return hints().empty() ? "lessons/" + folder + "/exercise.h" : "my_ring/" + folder + ".h";
}

std::string Lesson::label() const { return fmt::format("{:02}", number); }

std::span<const Lesson> all_lessons() {
  static const std::vector<Lesson> lessons = read_lessons();
  return lessons;
}

const Lesson& lesson_of_number(int number) {
  std::vector<int> numbers;
  for (const Lesson& lesson : all_lessons()) {
    if (lesson.number == number) return lesson;
    numbers.push_back(lesson.number);
  }
  throw InputError(fmt::format("lesson: '{}' given; accepted: list, glossary, {}", number,
                               fmt::join(numbers, ", ")));
}

double reading_minutes(const Lesson& lesson) {
  static const std::regex word(R"(\S+)"), question(R"(page\.(predict|choose)\()"),
      table(R"(page\.table\()"), region(R"#(page\.region\("([^"]+)",\s*"([^"]+)")#");
  const auto count = [](const std::string& text, const std::regex& pattern) {
    return static_cast<double>(
        std::distance(std::sregex_iterator(text.begin(), text.end(), pattern), {}));
  };
  const std::string& text = lesson.source.text;
  double minutes =
      (count(text, question) + count(text, table)) / 2 + count(lesson.elsewhere, word) / 200;
  for (const Piece& piece : lesson.source.pieces)
    minutes += piece.kind == Piece::Kind::prose
                   ? count(piece.text, word) / 200
                   : static_cast<double>(count_lines(piece.text)) * 4 / 60;
  for (std::sregex_iterator match(text.begin(), text.end(), region), end; match != end; ++match)
    minutes += static_cast<double>(count_lines(region_of((*match)[1], (*match)[2]).text)) * 4 / 60;
  return minutes;
}

std::string Way::numbers() const { return fmt::format("{}", fmt::join(lessons, ", ")); }

const std::vector<Way>& ways_through() {
  static const std::vector<Way> ways = {
      {"The idea", "why a ring gives exactly what one machine would, and keeps all ranks busy",
       reading_order({19, 10, 25})},
      {"Systems", "what a run costs, what fits, what hangs, and who is slow",
       reading_order({19, 12, 25, 15, 24, 16, 29, 17, 20, 23, 18})},
      {"GPUs", "how a kernel keeps its units busy, and which numbers may have sixteen bits",
       reading_order({27, 20})}};
  return ways;
}

std::string_view embedded_text(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return file.text;
  throw std::logic_error(std::string(path) + ": not built in; page.region needs literal strings");
}

Region region_of(const std::string& path, const std::string& name) {
  return region_in(embedded_text(path), path, name);
}

Region region_in(std::string_view text, const std::string& path, const std::string& name) {
  static const std::regex any_mark(R"(\s*// (\[[\w-]+|[\w-]+\]))");
  const auto is_mark = [](const std::string& line, const std::string& mark) {
    const std::size_t first = line.find_first_not_of(' ');
    return first != std::string::npos && line.substr(first) == "// " + mark;
  };
  std::vector<std::string> listed;
  int begins = 0, ends = 0, first_line = 0, line_number = 0;
  for (const std::string& line : lines_of(text)) {
    ++line_number;
    if (is_mark(line, "[" + name)) {
      ++begins;
    } else if (is_mark(line, name + "]")) {
      ++ends;
    } else if (begins == 1 && ends == 0 && !std::regex_match(line, any_mark)) {
      if (first_line == 0) first_line = line_number;
      listed.push_back(line);
    }
  }
  if (begins != 1 || ends != 1 || listed.empty())
    throw std::logic_error(path + ": not exactly one region '" + name + "' with lines in it");

  std::size_t margin = std::string::npos;
  for (const std::string& line : listed) margin = std::min(margin, line.find_first_not_of(' '));
  Region region{path, first_line, ""};
  for (const std::string& line : listed)
    region.text += line.substr(std::min(margin, line.size())) + "\n";
  return region;
}

}  // namespace ringscope::lessons
