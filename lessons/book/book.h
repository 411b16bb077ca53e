// Tells a lesson: runs its code and weaves its text around what the code has to say.
#pragma once

#include <optional>
#include <string>

#include "lessons/book/lesson.h"
#include "lessons/book/writer.h"

namespace ringscope::lessons {

struct Told {
  int checks = 0;
  int failed = 0;
};

// `trace_folder`: where recordings are written, made when it is missing; empty: none are. Throws
// what the lesson throws, std::logic_error when it calls the page from where it may not, and
// InputError when recordings can't be written there.
Told tell(const Lesson& lesson, Writer& writer, const std::string& trace_folder);

// What a reader who predicted `guess` is told, and a number as readers write it: "64", "1,024",
// "1e6", "64k" (thousands), "64Ki" (1024s), "50 %" (50). None when it is no number.
std::string verdict_on(double guess, double actual, double tolerance);
std::optional<double> number_in(const std::string& text);

}  // namespace ringscope::lessons
