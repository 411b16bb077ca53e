// A training run that takes a moment, and a text for it.
#pragma once

#include <string>

#include "core/training/training.h"

namespace ringscope {

inline TrainingSettings small_settings() {
  return {.shape = {.layers = 1,
                    .width = 16,
                    .num_heads = 2,
                    .num_heads_kv = 1,
                    .head_dim = 8,
                    .hidden = 24},
          .adam = {.rate = 2e-2, .warmup_steps = 3},
          .batch = 2,
          .seqlen = 31,
          .mask = "causal+window:20",
          .seed = 7};
}

inline std::string small_text() {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "round and round the ring they go, " + std::to_string(i % 10);
  return text;
}

}  // namespace ringscope
