// The reader's side of a lesson told in a terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringscope::lessons {

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

}  // namespace ringscope::lessons
