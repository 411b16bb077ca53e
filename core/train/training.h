// A small language model that learns a text, byte by byte, its sequences dealt out to a ring of
// ranks. Every rank runs the same loop over its own replica; between two steps nothing has to be
// agreed on, because all of them end a step with the same weights.
#pragma once

#include <functional>
#include <string>

#include "core/model/replica.h"
#include "core/problem/mask.h"
#include "core/train/checkpoint.h"
#include "core/train/text_batches.h"

namespace ringscope {

// Throws InputError when the checkpoint is of another shape of model.
void require_same_shape(const Checkpoint& checkpoint, const TrainingSettings& settings);

struct StepReport {
  Index step = 0;   // counted from 1, over all runs that a checkpoint has been through
  double loss = 0;  // mean over the bytes of the batch, before the step's update, in nats
  double gradient_length = 0;  // likewise
};

// One rank of a training run, over whatever communicator it is given.
class TrainingRank {
 public:
  // The settings are valid; `batches` and `comm` must outlive it. `pulse` may be null.
  TrainingRank(const TrainingSettings& settings, const Deal& deal, const TextBatches& batches,
               Communicator& comm, WorkPulse* pulse = nullptr);

  // From here on as if it had done the checkpoint's steps. Throws InputError when that is of
  // another shape of model.
  void start_from(const Checkpoint& checkpoint);
  // Throws RunError when a peer fails, and when loss, gradients or new weights are NaN or infinite;
  // then the weights are of no use.
  StepReport step();
  Checkpoint checkpoint() const;

  Replica& replica() { return replica_; }
  int rank() const { return replica_.rank(); }

 private:
  TrainingSettings settings_;
  ModelWeights weights_;
  MaskSpec mask_;
  const TextBatches& batches_;
  Replica replica_;
  AdamW adam_;
};

// Called after every step on rank 0's thread, while the others go on to the next step; may take a
// checkpoint. What it throws ends the run.
using AfterStep = std::function<void(const StepReport&, const TrainingRank& rank_0)>;

// Trains on threads of this process until `steps` steps are done, those before `start` included
// (null: from the beginning); returns where it ended. Throws InputError for impossible settings, a
// text that is too short or has bytes that the model does not know, a checkpoint of another shape;
// RunError naming the rank that failed.
Checkpoint train_on_threads(const TrainingSettings& settings, const Deal& deal,
                            const std::string& text, const Checkpoint* start, Index steps,
                            const AfterStep& after_step = {});

}  // namespace ringscope
