// Training of a small language model on a text, byte by byte, with its sequences split across a
// ring of ranks. Every rank runs the same loop over its own replica. Ranks agree on nothing between
// two steps, because all of them end a step with the same weights.
#pragma once

#include <functional>
#include <string>

#include "core/model/replica.h"
#include "core/train/checkpoint.h"
#include "core/train/text_batches.h"

namespace ringscope {

// Throw InputError when the checkpoint's model has another shape.
void require_same_shape(const Checkpoint& checkpoint, const TrainingSettings& settings);

struct StepReport {
  Index step = 0;   // counted from 1, over all runs that led to it through checkpoints
  double loss = 0;  // mean over the bytes of the batch, before the step's update, in nats
  double gradient_length = 0;  // of the gradients before any scaling down
};

// One rank of a training run, over any communicator.
class TrainingRank {
 public:
  // The settings are valid; `batches` and `comm` must outlive it. `pulse` may be null.
  TrainingRank(const TrainingSettings& settings, const Deal& deal, const TextBatches& batches,
               Communicator& comm, WorkPulse* pulse = nullptr);

  // Go on as if this rank had done the checkpoint's steps. Throw InputError when the checkpoint's
  // model has another shape.
  void start_from(const Checkpoint& checkpoint);
  // Train one step. Throw RunError when a peer fails, and when the loss, the gradients or the new
  // weights are NaN or infinite; then the weights are of no use.
  StepReport step();
  // Bring the moments of all ranks to rank 0, for checkpoint(), if the optimizer is sharded. All
  // ranks call it between two steps. Throw RunError when a peer fails.
  void gather_moments();
  void forget_moments() { gathered_ = std::vector<float>(), gathered_step_ = -1; }
  // With a sharded optimizer only rank 0 may call it for `moments`, and only between
  // gather_moments() and what follows, the next step or forget_moments(); otherwise it throws
  // std::logic_error. Without `moments` they are empty then.
  Checkpoint checkpoint(bool moments = true) const;

  Replica& replica() { return replica_; }
  int rank() const { return replica_.rank(); }

 private:
  TrainingSettings settings_;
  ModelWeights weights_;
  const TextBatches& batches_;
  Replica replica_;
  AdamW adam_;
  std::vector<float> gathered_;  // on rank 0, of a sharded optimizer; in no bill
  Index gathered_step_ = -1;
};

// Called after every step on rank 0's thread, while the other ranks go on to the next step. It may
// take a checkpoint; with a sharded optimizer at the steps that the plan names. Anything it throws
// ends the run.
using AfterStep = std::function<void(const StepReport&, const TrainingRank& rank_0)>;

// Train on threads of this process until `steps` steps are done, those before `start` included
// (null: from the beginning), and return where training ended. Throw InputError for impossible
// settings, a text that is too short or has bytes that the model does not know, and a checkpoint of
// another shape. Throw RunError naming the rank that failed.
Checkpoint train_on_threads(const TrainingSettings& settings, const Deal& deal,
                            const std::string& text, const Checkpoint* start, Index steps,
                            const AfterStep& after_step = {});

}  // namespace ringscope
