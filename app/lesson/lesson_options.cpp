#include "app/lesson/lesson_options.h"

#include <fmt/format.h>

#include <charconv>

#include "app/command_line/flags.h"
#include "core/base/error.h"

namespace ringscope {

void add_lesson(CommandFlags& flags, LessonOptions& lesson) {
  flags.words("WHAT", lesson.words,
              "a lesson's number; list (the default); or glossary, and perhaps a term");
  flags.flag("--no-pause", lesson.no_pause, "tell all of it at once and ask nothing");
  flags.flag("--check", lesson.check, "build and test your version of the lesson's exercise");
  flags.path("--page", lesson.page, "write it as a page of Markdown; -: to stdout");
  flags.value("--out", "DIR", "folder for recordings (runs/lessons)",
              [&lesson](const std::string& text) { lesson.out = text; });
}

std::optional<int> lesson_number(const LessonOptions& lesson) {
  if (lesson.words.empty() || lesson.words[0] == "list" || lesson.words[0] == "glossary")
    return std::nullopt;
  const std::string& word = lesson.words[0];
  int number = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || *stop != 0)
    throw InputError(fmt::format(
        "lesson '{}' given; accepted: a number of ringscope lesson list, list, glossary", word));
  return number;
}

void check_lesson(const LessonOptions& lesson) {
  const bool is_glossary = !lesson.words.empty() && lesson.words[0] == "glossary";
  const bool is_lesson = lesson_number(lesson).has_value();
  if (lesson.words.size() > 1 && !is_glossary)
    throw InputError(fmt::format("lesson: '{}' given after '{}'; accepted: one lesson at a time",
                                 lesson.words[1], lesson.words[0]));
  if (lesson.check && !is_lesson)
    throw InputError("--check: given without a lesson; accepted: lesson N --check");
  if (lesson.check && lesson.page)
    throw InputError("--check: given beside --page; accepted: one of them");
  if (lesson.page && lesson.words.size() > 1)
    throw InputError("--page: given beside a term; accepted: lesson glossary --page FILE");
}

}  // namespace ringscope
