// A text of any bytes, shown on a terminal as it comes: what is UTF-8 and printable as it is, with
// line ends and tabs, everything else as \x and two digits. So a model that has not learned what
// makes a character can do no harm, and a character of several bytes appears when it is whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/generate/generate_options.h"
#include "app/report/terminal.h"

namespace ringscope {

class ShownText {
 public:
  // What can be shown now, after `byte`: often nothing, while a character is not whole.
  std::string add(std::uint8_t byte);
  // What is left, at the end of the text.
  std::string finish();

 private:
  std::string held_;  // the beginning of a character
};

// A whole text likewise.
std::string shown(std::string_view text);

// Every byte as two digits, from which the text can be had again: shown() is for eyes.
std::string hex(std::string_view bytes);

// ---
// What `ringscope generate` says: the text as it comes, or with --json everything at the end.

class GenerateOutput {
 public:
  // Both must outlive it.
  GenerateOutput(const GenerateRequest& request, const GenerateInputs& inputs);

  // What the run is told to call. Not to be called after end().
  OnPrefill on_prefill();
  OnByte on_byte();

  // `generated` holds all ranks' shares. Throws RunError when stdout can't be written to.
  void end(const Generated& generated);

 private:
  void say(std::uint8_t byte);
  void print(const std::string& text);

  const GenerateRequest& request_;
  const GenerateInputs& inputs_;
  bool is_read_as_it_comes_;  // by someone before a terminal: then the text is its own progress
  std::optional<ProgressBar> bar_;
  std::function<void(double)> draw_;  // of the second bar
  ShownText shown_;
  Index said_ = 0;
  bool is_at_line_begin_ = true;
};

// The object of --json, with a line end.
std::string generate_json(const GenerateRequest& request, const GenerateInputs& inputs,
                          const Generated& generated);

}  // namespace ringscope
