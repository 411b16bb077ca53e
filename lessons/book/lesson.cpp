#include "lessons/book/lesson.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <stdexcept>
#include <vector>

#include "core/base/error.h"
#include "lessons/book/embedded.h"

namespace ringscope::lessons {
namespace {

std::vector<Lesson> read_lessons() {
  std::vector<Lesson> lessons;
  for (const EmbeddedLesson& embedded : embedded_lessons()) {
    Lesson lesson{embedded.number, embedded.folder, embedded.run, {}};
    try {
      lesson.source = parse_lesson(embedded_text(lesson.path()), lesson.number);
    } catch (const std::logic_error& error) {
      throw std::logic_error(lesson.path() + ": " + error.what());
    }
    lessons.push_back(std::move(lesson));
  }
  return lessons;
}

auto count_lines(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

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
  static const std::regex word(R"(\S+)"), question(R"(page\.predict\()"),
      region(R"#(page\.region\("([^"]+)",\s*"([^"]+)")#");
  const auto count = [](const std::string& text, const std::regex& pattern) {
    return static_cast<double>(
        std::distance(std::sregex_iterator(text.begin(), text.end(), pattern), {}));
  };
  const std::string& text = lesson.source.text;
  double minutes = count(text, question) / 2;
  for (const Piece& piece : lesson.source.pieces)
    minutes += piece.kind == Piece::Kind::prose
                   ? count(piece.text, word) / 200
                   : static_cast<double>(count_lines(piece.text)) * 4 / 60;
  for (std::sregex_iterator match(text.begin(), text.end(), region), end; match != end; ++match)
    minutes += static_cast<double>(count_lines(region_of((*match)[1], (*match)[2]).text)) * 4 / 60;
  return minutes;
}

}  // namespace ringscope::lessons
