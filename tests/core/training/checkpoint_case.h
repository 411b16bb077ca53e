// A checkpoint of a model that has learned nothing: its weights are those that a run begins with.
// What it says is as good as any for comparing who says it.
#pragma once

#include "core/training/checkpoint.h"
#include "core/training/weights.h"

namespace ringscope {

// Odd sizes, on purpose.
inline Checkpoint small_checkpoint(Index vocab = 17, const std::string& mask = "causal") {
  Checkpoint checkpoint;
  checkpoint.settings.shape = {.layers = 2,
                               .width = 12,
                               .num_heads = 4,
                               .num_heads_kv = 2,
                               .head_dim = 4,
                               .hidden = 10,
                               .vocab = vocab};
  checkpoint.settings.mask = mask;
  checkpoint.step = 7;
  const ParameterStore store(ModelWeights(checkpoint.settings.shape).layout, 3, nullptr);
  checkpoint.values.assign(store.values(), store.values() + store.size());
  checkpoint.moments.resize(2 * checkpoint.values.size());
  return checkpoint;
}

}  // namespace ringscope
