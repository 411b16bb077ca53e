// Writes a lesson to a terminal, with wrapped prose and distinct code and headings. If somebody
// reads, it waits for a key before each new part, and for a number at each question.
#pragma once

#include <string>

#include "lessons/book/writer.h"

namespace ringscope::lessons {

// Thrown when the reader stops before the end.
struct ReaderStopped {};

class TerminalWriter : public Writer {
 public:
  explicit TerminalWriter(Console& console) : console_(console) {}

  void begin(const Lesson& lesson) override;
  void prose(const std::string& markdown) override;
  void listing(const std::string& origin, const std::string& code) override;
  std::optional<double> ask(const Question& question) override;
  void answer(const Question& question, const Cell& actual, const std::string& verdict) override;
  void value(const std::string& name, const Cell& value, const std::string& unit) override;
  void table(const Table& table) override;
  void text(const std::string& text) override;
  void check(const std::string& claim, bool holds, const std::string& details) override;
  void recording(const std::string& file, const std::vector<StoryStep>& story) override;
  void picture(const std::string& file, const std::string& caption) override;
  void end(const Lesson& lesson, int checks, int failed) override;

 private:
  enum class Last { nothing, block, item, output };

  // Write whole lines, after an empty one unless they continue a list or output.
  void put(const std::string& text, Last kind);
  // Let the reader catch up before more comes.
  void pause();
  // Wrap `markdown`. The first line begins with `first`, and the others with `indent`.
  std::string wrapped(const std::string& markdown, const std::string& first,
                      const std::string& indent) const;
  std::string styled(const char* code, const std::string& text) const;
  int width() const;

  Console& console_;
  Last last_ = Last::nothing;
  int lines_ = 0;        // since the last pause
  bool output_ = false;  // since the last pause
};

// Return the number of columns that `text` takes, without escape sequences.
int columns_of(std::string_view text);

// Wrap prose for a terminal outside of a lesson, such as a glossary entry.
std::string wrapped_text(const Console& console, const std::string& markdown,
                         const std::string& indent);

}  // namespace ringscope::lessons
