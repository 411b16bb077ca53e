// The options of predicted: a grid of problems, and how often to measure each.
#pragma once

#include <string>
#include <vector>

#include "core/ring/problem.h"

namespace ringscope {

struct PredictedOptions {
  std::vector<std::string> backends = {"cpu", "mpi"};
  std::vector<int> world_sizes = {2, 3, 4, 5, 6, 7, 8};
  std::vector<Index> seqlens = {2048, 4096, 8192, 16384, 32768};
  std::vector<PartitionKind> partitions = {std::begin(kAllPartitions), std::end(kAllPartitions)};
  std::string mask = "causal";
  Index head_dim = 64;
  Index heads = 0;  // 0: more for shorter sequences, so that every run takes a while
  bool backward = false;
  int repeats = 5;
  double measure_s = 0.3;  // for each pass, before each run
  std::string csv;
};

// Throw InputError for bad arguments.
PredictedOptions options_of(int argc, char** argv);

// Return the number of heads that the options give for a sequence of `seqlen`.
Index heads_of(const PredictedOptions& options, Index seqlen);

}  // namespace ringscope
