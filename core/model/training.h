// Training of a small language model on a text, byte by byte, with its sequences split across a
// ring of ranks. Every rank runs the same loop over its own replica. Ranks agree on nothing between
// two steps, because all of them end a step with the same weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/math.h"
#include "core/model/checkpoint.h"
#include "core/model/replica.h"

namespace ringscope {

// ---
// A text as training data. Step s trains on pieces whose places are drawn from the seed and s
// alone, so every rank knows every batch without communication, and a run that is taken up again
// goes on with the pieces that would have followed.

class TextBatches {
 public:
  // Pieces are seqlen + 1 bytes, because each byte but the first is predicted from those before it.
  // Throw InputError when the text is shorter, and as require_known_bytes() does.
  TextBatches(std::string text, Index batch, Index seqlen, std::uint64_t seed, Index vocab = 256);

  // Return the pieces of a step,
  // [batch, seqlen + 1] bytes.
  std::vector<std::uint8_t> windows(Index step) const;

 private:
  std::string text_;
  Index batch_, seqlen_;
  std::uint64_t seed_;
};

// Throw InputError that names the first byte of `text` that a model of `vocab` tokens doesn't know.
// Only bytes below `vocab` have a place in its embedding.
void require_known_bytes(const std::string& text, Index vocab);

// Return the loss per byte, in nats, of a model that knows only how often each byte occurs, which
// training has to beat; 0 for an empty text.
double unigram_entropy(const std::string& text);

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
