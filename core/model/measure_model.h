// What a model's rows and weights cost on this machine, measured for the closed forms of
// core/cost/model_step.h on the code whose time they predict. Attention is not measured here.
#pragma once

#include "core/cost/model_step.h"

namespace ringscope {

struct ModelMeasurement {
  AttentionShape heads;  // numbers of heads, and head_dim
  ModelSizes model;
  Index tokens = 1;      // rows of one rank over all its sequences
  int threads = 1;       // that compute at once
  double seconds = 0.8;  // of one core, for each thread
};

// Return the figures of the slowest thread, from the fastest of many repetitions of each part in
// turn. Large sizes are cut down to fit into the time, because rates hardly depend on them any
// more. Throw std::bad_alloc, and std::system_error when a thread can't start.
ModelFigures measure_model(const ModelMeasurement& what);

}  // namespace ringscope
