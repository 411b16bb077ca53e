// Tells a lesson at a terminal, with wrapped prose and distinct code and headings. If somebody
// reads, it waits for a key before each new part, and for a number at each question.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lessons/book/book.h"

namespace ringscope::lessons {

// The reader's side.
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

// Thrown when the reader stops before the end.
struct ReaderStopped {};

// Tell `lesson` at a console. Throw ReaderStopped, and what tell() throws.
Told tell_at(Console& console, const Lesson& lesson, const std::string& trace_folder);

// Return what the reader types, a number or letters_in(), or none if nobody reads, or if they skip
// the question or miss three times. Throw ReaderStopped.
std::optional<std::string> read_answer(Console& console, const Question& question);

// Return the number of columns that `text` takes, without escape sequences.
int columns_of(std::string_view text);

// Wrap prose for a terminal outside of a lesson, such as a glossary entry.
std::string wrapped_text(const Console& console, const std::string& markdown,
                         const std::string& indent);

}  // namespace ringscope::lessons
