// What decides how a training run goes, whoever computes it: with the same settings, text and
// world_size every run ends with the same bits; with another world_size it differs by rounding.
#pragma once

#include <cstdint>
#include <string>

#include "core/layer/adamw.h"
#include "core/layer/model_shape.h"
#include "core/partition/partition.h"

namespace ringscope {

struct TrainingSettings {
  ModelShape shape;
  AdamWSettings adam;
  Index batch = 4;     // sequences a step
  Index seqlen = 256;  // of each
  std::string mask = "causal";
  std::uint64_t seed = 0;  // of the first weights and of the pieces of text

  bool operator==(const TrainingSettings&) const = default;
};

// Throws InputError that names the setting, its value, and what is accepted.
void validate(const TrainingSettings& settings);

// How the sequences are dealt out to the ranks.
struct Deal {
  PartitionKind partition = PartitionKind::zigzag;  // even work under a causal mask
  int world_size = 1;
};

}  // namespace ringscope
