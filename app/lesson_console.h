// The terminal that the program was started in, as a lesson sees it.
#pragma once

#include "lessons/book/console.h"

namespace ringscope {

class TerminalConsole : public lessons::Console {
 public:
  // `pauses`: wait for keys and answers, where both stdin and stdout are a terminal.
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
