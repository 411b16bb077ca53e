// The options of `ringscope generate`: a checkpoint, a prompt, and how the text continues.
#pragma once

#include <optional>
#include <string>

#include "app/command_line/option_groups.h"
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

}  // namespace ringscope
