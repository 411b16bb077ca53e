// The reader's side of a lesson that is told in a terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringscope::lessons {

class Console {
 public:
  virtual ~Console() = default;

  virtual void write(std::string_view text) = 0;
  // Columns to wrap prose at; whether colours are understood, and whether somebody is there to
  // press keys.
  virtual int width() const = 0;
  virtual int height() const = 0;
  virtual bool colour() const = 0;
  virtual bool somebody_reads() const = 0;

  // Waits for a key. False: the reader wants to stop, or is gone.
  virtual bool wait_for_key() = 0;
  // A line without its end; none: the reader is gone.
  virtual std::optional<std::string> read_line() = 0;
};

}  // namespace ringscope::lessons
