// Declares the two sides of a lesson that is told: the reader's terminal, and the writer of a
// terminal or a page.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/event.h"
#include "lessons/book/cell.h"
#include "lessons/book/lesson.h"

namespace ringscope::lessons {

// ---
// The reader's side of a lesson told in a terminal.

class Console {
 public:
  virtual ~Console() = default;

  virtual void write(std::string_view text) = 0;
  // width() is the columns to wrap prose at. colour() tells whether the console understands
  // colours, and somebody_reads() whether anybody is there to press keys.
  virtual int width() const = 0;
  virtual int height() const = 0;
  virtual bool colour() const = 0;
  virtual bool somebody_reads() const = 0;

  // Wait for a key. Return false if the reader wants to stop or is gone.
  virtual bool wait_for_key() = 0;
  // Return a line without its end, or none if the reader is gone.
  virtual std::optional<std::string> read_line() = 0;
};

// ---
// The output of a lesson: a terminal, or a page of Markdown. The book calls these functions in the
// order in which a reader meets their contents.

struct Question {
  std::string text;
  std::string unit;
};

class Writer {
 public:
  virtual ~Writer() = default;

  virtual void begin(const Lesson& lesson) = 0;
  virtual void prose(const std::string& markdown) = 0;
  // Show C++ code. `origin` is "path, line N", or empty for the lesson's own code.
  virtual void listing(const std::string& origin, const std::string& code) = 0;
  // Return the reader's number, if there is a reader who gave one.
  virtual std::optional<double> ask(const Question& question) = 0;
  // Show the answer. `verdict` compares it with the reader's number, and is empty if there is none.
  virtual void answer(const Question& question, const Cell& actual, const std::string& verdict) = 0;
  virtual void value(const std::string& name, const Cell& value, const std::string& unit) = 0;
  virtual void table(const Table& table) = 0;
  virtual void text(const std::string& text) = 0;
  // Show a claim. `details` gives both sides if it does not hold.
  virtual void check(const std::string& claim, bool holds, const std::string& details) = 0;
  // Show a recording with its story. `file` is its name for the reader.
  virtual void recording(const std::string& file, const std::vector<StoryStep>& story) = 0;
  // Show a picture. `file` is relative to the root of the tree.
  virtual void picture(const std::string& file, const std::string& caption) = 0;
  virtual void end(const Lesson& lesson, int checks, int failed) = 0;
};

}  // namespace ringscope::lessons
