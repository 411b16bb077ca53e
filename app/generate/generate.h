// The options of `ringscope generate`, a checkpoint, a prompt, and how the text continues; and its
// output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/command_line/option_groups.h"
#include "app/report/terminal.h"
#include "core/decode/generate.h"

namespace ringscope {

struct GenerateRequest {
  std::string checkpoint;                          // a file
  std::optional<std::string> prompt, prompt_file;  // at most one; none: a line's beginning
  GenerateOptions options;                         // without the prompt
  RankOptions ranks;
  bool json = false;
};

// The inputs, read from files.
struct GenerateInputs {
  Checkpoint checkpoint;
  GenerateOptions options;
};

// Read the files. Check that `world_size` ranks can continue with what they hold, and that the
// memory suffices for all ranks, or for `one_rank`. Throw InputError that names the flag; throw
// RunError as require_memory_for does.
GenerateInputs read_inputs(const GenerateRequest& request, int world_size,
                           std::optional<int> one_rank);
// Throw RunError when all ranks in this process, or `one_rank`, need more memory than there is.
void require_memory_for(const GenerateInputs& inputs, PartitionKind partition, int world_size,
                        std::optional<int> one_rank);

// ShownText makes a text of any bytes safe for a terminal: it
// keeps printable UTF-8, tabs and line ends and writes everything else as \x and two digits. So a
// badly trained model can do no harm, and a character of several bytes appears when it is whole.
class ShownText {
 public:
  // Return what can be shown after `byte`: often nothing, because a character is not yet whole.
  std::string add(std::uint8_t byte);
  // Return the rest at the end of the text.
  std::string finish();

 private:
  std::string held_;  // the beginning of a character
};

// Return a whole text in the same form.
std::string shown(std::string_view text);

// Return every byte as two digits, from which, unlike from shown(), the text can be recovered.
std::string hex(std::string_view bytes);

// ---
// The output of a run: the text as it is generated, or with --json everything at the end.

class GenerateOutput {
 public:
  // Both arguments must outlive this object.
  GenerateOutput(const GenerateRequest& request, const GenerateInputs& inputs);

  // Return the callbacks of the run. They must not be called after end().
  OnPrefill on_prefill();
  OnByte on_byte();

  // `generated` holds the shares of all ranks. Throw RunError when stdout can't be written to.
  void end(const Generated& generated);

 private:
  void say(std::uint8_t byte);
  void print(const std::string& text);

  const GenerateRequest& request_;
  const GenerateInputs& inputs_;
  bool is_read_as_it_comes_;  // on a terminal, where the text shows the progress
  std::optional<ProgressBar> bar_;
  std::function<void(double)> draw_;  // of the second bar
  ShownText shown_;
  Index said_ = 0;
  bool is_at_line_begin_ = true;
};

// Return the object of --json, with a line end.
std::string generate_json(const GenerateRequest& request, const GenerateInputs& inputs,
                          const Generated& generated);

}  // namespace ringscope
