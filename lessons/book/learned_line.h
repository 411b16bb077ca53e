// A small model that knows one line by heart, so that what it writes is known too.
#pragma once

#include <string>

#include "core/train/training.h"

namespace ringscope::lessons {

// Trained on `line`, over and over, and nothing else, on one rank.
inline Checkpoint learned_by_heart(const std::string& line, Index steps) {
  TrainingSettings settings;
  settings.shape = {.layers = 2,
                    .width = 32,
                    .num_heads = 4,
                    .num_heads_kv = 2,
                    .head_dim = 8,
                    .hidden = 64,
                    .vocab = 128};
  settings.adam.rate = 5e-3;
  settings.batch = 4;
  settings.seqlen = 2 * static_cast<Index>(line.size());
  std::string text;
  for (int i = 0; i < 4; ++i) text += line;
  return train_on_threads(settings, {PartitionKind::contiguous, 1}, text, nullptr, steps);
}

}  // namespace ringscope::lessons
