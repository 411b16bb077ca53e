// What a model's rows and weights take on this machine besides attention: figures for the closed
// forms of core/cost/model_step.h, from the code whose time they are to predict.
#pragma once

#include "core/cost/model_step.h"

namespace ringscope {

struct ModelMeasurement {
  AttentionShape heads;  // their numbers and head_dim
  ModelSizes model;
  Index tokens = 1;      // rows of a rank, of all its sequences
  int threads = 1;       // that compute at once
  double seconds = 0.8;  // of a core, for each thread
};

// Of one thread, the slowest; the fastest of many repetitions counts, in turn. Large sizes are cut
// down to what can be repeated in that time: rates hardly depend on them any more. Throws
// std::bad_alloc, and std::system_error when a thread can't be started.
ModelFigures measure_model(const ModelMeasurement& what);

}  // namespace ringscope
