// What a lesson's code calls. A lesson is one function in lessons/NN_name/lesson.cpp; its comments
// are the text. Every call here knows the line that it stands on, so the book first shows what
// stands above that line and has not been shown yet, prose and code in the file's order, and then
// what the call has to say. Calls themselves are not listed.
//
// Calls stand in the lesson's own function, as statements of their own, never in a loop or a
// lambda: otherwise they throw std::logic_error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/trace/event.h"
#include "lessons/book/cell.h"

namespace ringscope::lessons {

// A question that was asked.
struct Guess {
  int number = 0;  // of the lesson's questions
};

// Whether a number is the same everywhere.
enum class Source { computed, measured };

// Where a call stands: std::source_location, which clang 14 can't read, in the little that is
// needed.
struct At {
  const char* file;
  int line;

  static At current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

class Page {
 public:
  virtual ~Page() = default;

  // Asks for a number. `unit` follows it ("GiB"; "" when it is a plain count). The answer comes
  // with answer(), after the code that finds it.
  virtual Guess predict(const std::string& question, const std::string& unit,
                        At at = At::current()) = 0;
  // Tells it, and how far off the prediction was. Within `tolerance` (relative) it counts as right.
  virtual void answer(const Guess& guess, double actual, double tolerance = 0.05,
                      Source source = Source::computed, At at = At::current()) = 0;
  // Both at once, where no code stands between.
  virtual void predict(const std::string& question, const std::string& unit, double actual,
                       double tolerance = 0.05, At at = At::current()) = 0;

  // "name: value unit".
  virtual void value(const std::string& name, const Cell& value, const std::string& unit = "",
                     At at = At::current()) = 0;
  virtual void table(const Table& table, At at = At::current()) = 0;
  // Text as it is, such as matrix().
  virtual void print(const std::string& text, At at = At::current()) = 0;

  // A claim that must hold: otherwise the lesson fails. A full sentence without a dot.
  virtual void check(const std::string& claim, bool holds, At at = At::current()) = 0;
  // The same with both numbers shown when they differ.
  virtual void equal(const std::string& claim, const Cell& found, const Cell& expected,
                     At at = At::current()) = 0;
  // error <= bound; a NaN fails.
  virtual void at_most(const std::string& claim, double error, double bound,
                       At at = At::current()) = 0;

  // Lists what stands in the project's file `path` between the lines "// [name" and "// name]".
  virtual void region(const std::string& path, const std::string& name, At at = At::current()) = 0;

  // Writes the recording for the viewer, with the story told beside it. Where a lesson has several,
  // `name` tells them apart.
  virtual void trace(Recording recording, std::vector<StoryStep> story,
                     const std::string& name = "", At at = At::current()) = 0;

  // The same of a ring, with every rank on a core of its own (core/run/own_cores.h), so that what is
  // told of it is to be seen on machines with fewer cores than ranks too.
  virtual void ring_trace(Recording recording, std::vector<StoryStep> story,
                          const std::string& name = "", At at = At::current()) = 0;

  // A PNG in the lesson's folder.
  virtual void picture(const std::string& file, const std::string& caption,
                       At at = At::current()) = 0;
};

}  // namespace ringscope::lessons
