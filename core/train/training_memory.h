// What a rank of a training run holds at most, by formula: asked before anything is allocated.
//
//   weights, gradients, AdamW's two moments       4 values a weight; f32
//   a chunk of the gradients that comes in        1/N
//   ring                                          RankMemory and the backend's tile scratch
//   what the layers keep for the backward pass    by the rank's rows
//   what all layers share                         likewise, once
#pragma once

#include "core/train/training_settings.h"

namespace ringscope {

// In bytes, of rank 0; no other has more rows, but for one. Settings are valid. In floating point,
// which does not overflow.
double training_rank_bytes(const TrainingSettings& settings, const Deal& deal);

}  // namespace ringscope
