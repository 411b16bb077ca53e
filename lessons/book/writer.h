// Where a lesson goes: a terminal, or a page of Markdown. What the book calls, in the order in
// which a reader meets it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "lessons/book/cell.h"
#include "lessons/book/lesson.h"

namespace ringscope::lessons {

struct Question {
  std::string text;
  std::string unit;
};

class Writer {
 public:
  virtual ~Writer() = default;

  virtual void begin(const Lesson& lesson) = 0;
  virtual void prose(const std::string& markdown) = 0;
  // C++. `origin` is "path, line N", or empty for the lesson's own code.
  virtual void listing(const std::string& origin, const std::string& code) = 0;
  // The reader's number, when there is a reader and they gave one.
  virtual std::optional<double> ask(const Question& question) = 0;
  // `verdict` compares with the reader's number; empty when there is none.
  virtual void answer(const Question& question, const Cell& actual, const std::string& verdict) = 0;
  virtual void value(const std::string& name, const Cell& value, const std::string& unit) = 0;
  virtual void table(const Table& table) = 0;
  virtual void text(const std::string& text) = 0;
  // `details`: both sides of what does not hold.
  virtual void check(const std::string& claim, bool holds, const std::string& details) = 0;
  // A recording with its story, at `file` as the reader would name it.
  virtual void recording(const std::string& file, const std::vector<StoryStep>& story) = 0;
  // `file` from the root of the tree.
  virtual void picture(const std::string& file, const std::string& caption) = 0;
  virtual void end(const Lesson& lesson, int checks, int failed) = 0;
};

}  // namespace ringscope::lessons
