// Shows Markdown at a terminal, with wrapped prose and distinct code and headings. If somebody reads, it
// waits for Enter after each screenful, and for an answer to each question.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/markdown.h"

namespace ringscope::lessons {

// The reader's side.
struct Console {
  std::function<void(std::string_view)> write;
  // Return a line without its end, or none if the reader is gone. Empty if nobody is there to type.
  std::function<std::optional<std::string>()> read_line = nullptr;
  int width = 80, height = 24;
  bool colour = false;
};

// Thrown when the reader stops before the end.
struct ReaderStopped {};

class Terminal {
 public:
  explicit Terminal(Console console) : console_(std::move(console)) {}

  // Throw ReaderStopped.
  void show(std::string_view markdown);
  // Return what the reader types, or "" if nobody reads, or if they skip. Throw ReaderStopped.
  std::string ask(const std::string& what);
  bool somebody_reads() const { return console_.read_line != nullptr; }

 private:
  void show(const std::vector<TextBlock>& blocks, const std::string& margin);
  void put(const std::string& text, bool is_item = false);
  std::string wrapped(const std::string& markdown, const std::string& first,
                      const std::string& indent) const;
  std::string table(const std::string& text, const std::string& margin) const;
  std::string styled(const char* style, const std::string& text) const;

  Console console_;
  bool is_first_ = true, in_list_ = false;
  int lines_ = 0;  // since the last pause
};

}  // namespace ringscope::lessons
