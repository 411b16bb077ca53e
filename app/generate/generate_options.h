// What `ringscope generate` was asked: a checkpoint, how its text begins, and how it goes on.
#pragma once

#include <optional>
#include <string>

#include "app/run/backend.h"
#include "core/decode/generate.h"

namespace ringscope {

struct GenerateRequest {
  std::string checkpoint;                          // a file
  std::optional<std::string> prompt, prompt_file;  // at most one of them; none: a line's beginning
  GenerateOptions options;                         // its prompt is not set yet
  Backend backend = Backend::cpu;
  std::optional<int> world_size;  // 4; with a process a rank, as many as were started
  PartitionKind partition = PartitionKind::zigzag;
  double timeout_s = 60;
  bool json = false;
};

class CommandFlags;

void add_generate(CommandFlags& flags, GenerateRequest& request);
// Throws InputError for what makes no sense together.
void check_generate(const GenerateRequest& request);

// What there is to begin with, read from files.
struct GenerateInputs {
  Checkpoint checkpoint;
  GenerateOptions options;
};

// Opens the files and checks that `world_size` ranks can go on with what they hold, and that there
// is the memory for it: for all ranks, or for `one_rank`. Throws InputError that names the flag;
// RunError as require_memory_for.
GenerateInputs read_inputs(const GenerateRequest& request, int world_size,
                           std::optional<int> one_rank);
// Throws RunError when all ranks in this process, or `one_rank`, hold more than there is.
void require_memory_for(const GenerateInputs& inputs, PartitionKind partition, int world_size,
                        std::optional<int> one_rank);

}  // namespace ringscope
