// The options of `ringscope lesson`: which lesson, and how to show it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ringscope {

class CommandFlags;

struct LessonOptions {
  std::vector<std::string> words;  // a number; list; glossary and perhaps a term; nothing: list

  bool no_pause = false;
  bool check = false;                // the learner's exercise instead of the lesson
  std::optional<std::string> page;   // write Markdown there instead; "-": to stdout
  std::string out = "runs/lessons";  // folder for recordings
};

void add_lesson(CommandFlags& flags, LessonOptions& lesson);

// Throw InputError for options that contradict each other.
void check_lesson(const LessonOptions& lesson);

// Return the lesson's number, or none for list and glossary. Throw InputError for any other word.
std::optional<int> lesson_number(const LessonOptions& lesson);

}  // namespace ringscope
