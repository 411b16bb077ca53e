// The settings that determine a training run, whichever ranks compute it. With the same settings,
// text and world_size every run ends with the same bits; another world_size differs by rounding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace ringscope {

struct TrainingSettings {
  ModelShape shape;
  AdamWSettings adam;
  Index batch = 4;     // sequences per step
  Index seqlen = 256;  // of each sequence
  std::string mask = "causal";
  std::uint64_t seed = 0;  // of the first weights and of the pieces of text

  bool operator==(const TrainingSettings&) const = default;
};

// Throw InputError that names the setting, its value, and what is accepted.
void validate(const TrainingSettings& settings);

// How the sequences are split across the ranks, and what a rank keeps of its share. Its recompute,
// chunks and zero_stage (0 or 1) count; a checkpoint does not depend on them.
struct Deal {
  PartitionKind partition = PartitionKind::zigzag;  // balances work under a causal mask
  int world_size = 1;
  ModelMemory memory = {};
};

// Return the attention of every layer. Throw InputError for a mask that nobody could mean.
Problem attention_problem(const TrainingSettings& settings, const Deal& deal);

// Return the bill of the memory that `rank` of a training run holds (-1: the one with the most rows),
// which is that of `plan` for its rows. Settings are valid.
std::vector<MemoryPart> training_memory(const TrainingSettings& settings, const Deal& deal,
                                        int rank = -1);

}  // namespace ringscope
