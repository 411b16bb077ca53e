// Tells a lesson: runs its code, and weaves its text around what the code reports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "lessons/book/cell.h"
#include "lessons/book/lesson.h"

namespace ringscope::lessons {

// ---
// The output of a lesson: a terminal, or a page of Markdown. The book calls these functions in the
// order in which a reader meets their contents.

struct Question {
  std::string text;
  std::string unit;
  std::vector<std::string> options = {};  // to choose from, or to order; else it asks a number
  std::size_t letters = 1;                // wanted: one, or as many as there are options
  std::string cells = {};                 // to draw, as Page::draw() takes them
};

class Writer {
 public:
  virtual ~Writer() = default;

  virtual void begin(const Lesson& lesson) = 0;
  virtual void prose(const std::string& markdown) = 0;
  // Show C++ code. `origin` is "path, line N", or empty for the lesson's own code.
  virtual void listing(const std::string& origin, const std::string& code) = 0;
  // Return what the reader typed, a number, letters_in() or cells_in(), if there is a reader who did.
  virtual std::optional<std::string> ask(const Question& question) = 0;
  // Show the answer. `verdict` compares it with the reader's number, and is empty if there is none.
  virtual void answer(const Question& question, const Cell& actual, const std::string& verdict) = 0;
  virtual void value(const std::string& name, const Cell& value, const std::string& unit) = 0;
  virtual void table(const Table& table) = 0;
  virtual void text(const std::string& text) = 0;
  // Show a claim. `details` gives both sides if it does not hold.
  virtual void check(const std::string& claim, bool holds, const std::string& details) = 0;
  // Show a recording with its story. `file` is its name for the reader.
  virtual void recording(const std::string& file, const Recording& recording) = 0;
  // Show a picture. `file` is relative to the root of the tree.
  virtual void picture(const std::string& file, const std::string& caption) = 0;
  virtual void end(const Lesson& lesson, int checks, int failed) = 0;
};

// ---
// The book.

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

// Return the letters of `text` without what separates them, "cab" for "c, a, b". Return "" unless
// they are `wanted` different ones of the first `options`.
std::string letters_in(const std::string& text, std::size_t options, std::size_t wanted);
// Return the options that letters stand for, "rank 2; rank 0; rank 1" for "cab".
std::string spelled_out(const std::string& letters, const std::vector<std::string>& options);
// Return the cells of `text` without blanks, with x taken for #. Return "" unless they are as many,
// row by row, as in `like`.
std::string cells_in(const std::string& text, const std::string& like);
// Return the rows of a drawing as lines that begin with `indent`.
std::string drawn_rows(const std::string& cells, const std::string& indent);

}  // namespace ringscope::lessons
