// The functions that a lesson calls. A lesson is one function in lessons/NN_name/lesson.cpp, and
// its comments are the text. Every call knows its own line, so the book first shows the prose and
// code above that line that it has not shown yet, in the file's order, and then what the call
// reports. The calls themselves are not listed.
//
// Each call must be a statement of its own in the lesson's function, never in a loop or a lambda.
// Otherwise it throws std::logic_error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace/event.h"
#include "lessons/book/cell.h"

namespace ringscope::lessons {

// A question that was asked.
struct Guess {
  int number = 0;  // index among the lesson's questions
};

// Whether a number is the same on every machine.
enum class Source { computed, measured };

// The place of a call. It is the part of std::source_location that is needed, because clang 14 does
// not support that.
struct At {
  const char* file;
  int line;

  static At current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Return a step of a story: a figure to look at, or a ring step, a rank and a lane in the timeline; -1
// stands for all.
inline StoryStep scene(std::string text, Figure figure, int step = -1) {
  return {.text = std::move(text), .step = step, .figure = figure};
}
inline StoryStep scene(std::string text, int step, int rank = -1, std::optional<Lane> lane = {},
                       std::optional<Pass> pass = {}) {
  return {std::move(text), pass, step, rank, lane, {}};
}

class Page {
 public:
  virtual ~Page() = default;

  // Ask for a number. `unit` follows it ("GiB"; "" for a plain count). Call answer() after the code
  // that computes the number.
  virtual Guess predict(const std::string& question, const std::string& unit,
                        At at = At::current()) = 0;
  // Tell it, and the prediction's error. An error within `tolerance` (relative) counts as right.
  virtual void answer(const Guess& guess, double actual, double tolerance = 0.05,
                      Source source = Source::computed, At at = At::current()) = 0;
  // Ask and answer at once if no code stands between.
  virtual void predict(const std::string& question, const std::string& unit, double actual,
                       double tolerance = 0.05, At at = At::current()) = 0;

  // Ask for one of the options, or for all of them in order, and answer at once: letters from a on.
  virtual void choose(const std::string& question, const std::vector<std::string>& options,
                      const std::string& letters, At at = At::current()) = 0;

  // Ask for a drawing, and answer at once: `cells` has # for a marked one and . for another, and / ends
  // a row.
  virtual void draw(const std::string& question, const std::string& cells,
                    At at = At::current()) = 0;

  // Show "name: value unit".
  virtual void value(const std::string& name, const Cell& value, const std::string& unit = "",
                     At at = At::current()) = 0;
  virtual void table(const Table& table, At at = At::current()) = 0;
  // Show text unchanged, such as that of matrix().
  virtual void print(const std::string& text, At at = At::current()) = 0;

  // State a claim, as a full sentence without a dot. The lesson fails if it does not hold.
  virtual void check(const std::string& claim, bool holds, At at = At::current()) = 0;
  // Claim that two values are equal, and show both if they differ.
  virtual void equal(const std::string& claim, const Cell& found, const Cell& expected,
                     At at = At::current()) = 0;
  // Claim that error <= bound. A NaN fails.
  virtual void at_most(const std::string& claim, double error, double bound,
                       At at = At::current()) = 0;

  // List what the project's file `path` has between the lines "// [name" and "// name]".
  virtual void region(const std::string& path, const std::string& name, At at = At::current()) = 0;

  // Write the recording for the viewer, with its story. `name` distinguishes several recordings of
  // one lesson.
  virtual void trace(Recording recording, std::vector<StoryStep> story,
                     const std::string& name = "", At at = At::current()) = 0;

  // Write a ring's recording with the times of its counted work (core/sim/ideal_timeline.h), so that it
  // matches its story and its pictures on every machine.
  virtual void ring_trace(Recording recording, std::vector<StoryStep> story,
                          const std::string& name = "", At at = At::current()) = 0;

  // Show a PNG or SVG from the lesson's folder.
  virtual void picture(const std::string& file, const std::string& caption,
                       At at = At::current()) = 0;
};

}  // namespace ringscope::lessons
