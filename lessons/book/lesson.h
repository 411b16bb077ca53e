// The built-in lessons, by number.
#pragma once

#include <span>
#include <string>

#include "lessons/book/source.h"

namespace ringscope::lessons {

class Page;

struct Lesson {
  int number = 0;
  std::string folder;  // such as 01_naive_attention
  void (*run)(Page&) = nullptr;
  LessonSource source;

  std::string path() const { return "lessons/" + folder + "/lesson.cpp"; }
  std::string label() const;  // 01
};

// Return the lessons in order of their numbers.
std::span<const Lesson> all_lessons();

// Return a lesson. Throw InputError that lists the valid numbers.
const Lesson& lesson_of_number(int number);

// Return the minutes that reading takes: 200 words per minute, 4 s per line of code, and half a
// minute of thought per question.
double reading_minutes(const Lesson& lesson);

}  // namespace ringscope::lessons
