// What decides how a training run goes, whoever computes it: with the same settings, text and
// world_size every run ends with the same bits; with another world_size it differs by rounding.
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

// ---
// What a rank of a training run holds at most, by formula: asked before anything is allocated.
//
//   weights, gradients, AdamW's two moments       4 values a weight; f32
//   a chunk of the gradients that comes in        1/N
//   ring                                          RankMemory and the backend's tile scratch
//   what the layers keep for the backward pass    by the rank's rows
//   what all layers share                         likewise, once

// In bytes, of rank 0; no other has more rows, but for one. Settings are valid. In floating point,
// which does not overflow.
double training_rank_bytes(const TrainingSettings& settings, const Deal& deal);

}  // namespace ringscope
