// Tells a lesson: runs its code, and weaves its text around what the code reports.
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

// Tell `lesson`. Recordings go to `trace_folder`, which is made if missing, or nowhere if it is
// empty. Throw what the lesson throws, std::logic_error if it calls the page from a forbidden
// place, and InputError if recordings can't be written there.
Told tell(const Lesson& lesson, Writer& writer, const std::string& trace_folder);

// Return what a reader who predicted `guess` is told. number_in() parses "64", "1,024", "1e6",
// "64k" (thousands), "64Ki" (1024s) or "50 %" (50), and returns none for anything else.
std::string verdict_on(double guess, double actual, double tolerance);
std::optional<double> number_in(const std::string& text);

}  // namespace ringscope::lessons
