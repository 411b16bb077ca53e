// `ringscope lesson` lists the lessons, shows one, shows the glossary, or tests the learner's
// solution of an exercise.
#pragma once

#include "app/lesson/lesson_options.h"
#include "lessons/book/writer.h"

namespace ringscope {

// Return the exit status: 0, or 1 when one of the lesson's checks fails or the exercise is not
// solved. Throw InputError, RunError.
int lesson_command(const LessonOptions& options);

// ---
// The terminal that the program was started in, through the interface that lessons use.

class TerminalConsole : public lessons::Console {
 public:
  // If `pauses`, wait for keys and answers, but only if both stdin and stdout are a terminal.
  explicit TerminalConsole(bool pauses);

  void write(std::string_view text) override;  // throws RunError
  int width() const override;
  int height() const override;
  bool colour() const override { return colour_; }
  bool somebody_reads() const override { return somebody_reads_; }
  bool wait_for_key() override;
  std::optional<std::string> read_line() override;

 private:
  bool colour_;
  bool somebody_reads_;
};

}  // namespace ringscope
