// What is to be measured of training: shapes of a step, ranks, how often; or how far losses come
// apart.
#pragma once

#include <string>
#include <vector>

#include "core/train/training_settings.h"

namespace ringscope {

// Of one step.
struct StepShape {
  Index seqlen = 0;
  Index batch = 0;
};

struct TrainingBenchOptions {
  std::vector<StepShape> shapes = {{4096, 1}, {256, 16}};
  std::vector<int> world_sizes = {2};  // each beside one rank
  std::vector<PartitionKind> partitions = {PartitionKind::zigzag};
  int repeats = 7;
  int steps = 3;     // timed, of each turn
  std::string text;  // a file; "": the project's own sources
  bool equality = false;
  Index equality_steps = 200;
};

// Throws InputError.
TrainingBenchOptions options_of(int argc, char** argv);

// The file's text, or that of the project's sources.
std::string text_of(const TrainingBenchOptions& options);

}  // namespace ringscope
