// The settings that determine a training run, whichever ranks compute it. With the same settings,
// text and world_size every run ends with the same bits; another world_size differs by rounding.
#pragma once

#include <cstdint>
#include <string>

#include "core/model/model_shape.h"
#include "core/model/parameters.h"
#include "core/problem/partition.h"

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

// How the sequences are split across the ranks.
struct Deal {
  PartitionKind partition = PartitionKind::zigzag;  // balances work under a causal mask
  int world_size = 1;
};

// ---
// The most memory that a rank of a training run holds, by formula, before it is allocated:
//
//   weights, gradients, AdamW's two moments       4 values per weight; f32
//   an incoming chunk of the gradients            1/N
//   ring                                          RankMemory and the backend's tile scratch
//   what the layers keep for the backward pass    by the rank's rows
//   what all layers share                         likewise, once

// Return the bytes of rank 0; no other rank has more than one row more. Settings are valid. The
// result is in floating point, which does not overflow.
double training_rank_bytes(const TrainingSettings& settings, const Deal& deal);

}  // namespace ringscope
