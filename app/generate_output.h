// What `ringscope generate` says: the text as it comes, or with --json everything at the end.
#pragma once

#include <optional>

#include "app/generate_options.h"
#include "app/generate_text.h"
#include "app/progress.h"

namespace ringscope {

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
