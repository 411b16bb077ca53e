// The lessons that were built in, by number.
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

// In order.
std::span<const Lesson> all_lessons();

// Throws InputError that says which there are.
const Lesson& lesson_of_number(int number);

// How long it takes to read: 200 words a minute, 4 s a line of code, half a minute to think about a
// question.
double reading_minutes(const Lesson& lesson);

}  // namespace ringscope::lessons
