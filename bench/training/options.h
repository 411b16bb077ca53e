// The options of the training benchmark: shapes, ranks and repeats, or a comparison of losses.
#pragma once

#include <string>
#include <vector>

#include "core/train/training_settings.h"

namespace ringscope {

// The shape of one step.
struct StepShape {
  Index seqlen = 0;
  Index batch = 0;
};

struct TrainingBenchOptions {
  std::vector<StepShape> shapes = {{4096, 1}, {256, 16}};
  std::vector<int> world_sizes = {2};  // each beside one rank
  std::vector<PartitionKind> partitions = {PartitionKind::zigzag};
  int repeats = 7;
  int steps = 3;     // timed, in each turn
  std::string text;  // a file; "": the project's own sources
  bool equality = false;
  Index equality_steps = 200;
};

// Throw InputError for bad arguments.
TrainingBenchOptions options_of(int argc, char** argv);

// Return the file's text, or that of the project's sources.
std::string text_of(const TrainingBenchOptions& options);

}  // namespace ringscope
