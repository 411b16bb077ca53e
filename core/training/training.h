// Training of a small language model on a text, byte by byte, with its sequences split across a
// ring of ranks, and also its heads (model.h) and its batches. Every rank runs the same
// loop over its own replica or part, whichever communicator it uses, and all end a step with the
// same weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/threads/recording.h"
#include "core/trace/rank_events.h"
#include "core/training/checkpoint.h"
#include "core/training/rank_groups.h"
#include "core/training/rank_threads.h"
#include "core/training/replica.h"

namespace ringscope {

// ---
// The recording of a training step. The ring of the last layer, whose passes are closest together,
// is recorded slice by slice like any run's. Everything else that the rank does, other layers'
// rings included, is a lane of spans beside it.

// Records one rank while it lives. The model announces where the parts of a step begin
// (ContextRing::begins), and decorators around the two seams record the last layer's ring. No bit of
// the step changes.
class StepRecorder {
 public:
  StepRecorder(Replica& replica, Index layers);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  // Return what happened, at the end of the step. Times are on the monotonic clock, which ranks of one
  // process share.
  RankEvents take();

 private:
  void begins(ModelPart part, Pass pass, Index layer);
  // End the part under way. What was sent meanwhile for sums is the part's, and it contains its ring,
  // which is a span of its own.
  void end_part(std::int64_t now);

  Replica& replica_;
  ContextRing& ring_;
  Index recorded_layer_;
  RingSchedule schedule_;
  Recorder recorder_;
  RecordingCommunicator comm_;
  RecordingBackend backend_;
  std::vector<ModelSpan> spans_;
  Index sent_;  // before the part under way
};

// Return the events `ns` later.
RankEvents moved_by(RankEvents events, std::int64_t ns);

// ---

// ---
// A text as training data. Step s trains on pieces whose places are drawn from the seed and s
// alone, so every rank knows every batch without communication, and a run that is taken up again
// goes on with the pieces that would have followed.

class TextBatches {
 public:
  // Pieces are seqlen + 1 bytes, because each byte but the first is predicted from those before it.
  // Throw InputError when the text is shorter, and as require_known_bytes() does.
  TextBatches(std::string text, Index batch, Index seqlen, std::uint64_t seed, Index vocab = 256);

  // Return the pieces of a step, [batch, seqlen + 1] bytes.
  std::vector<std::uint8_t> windows(Index step) const;

 private:
  std::string text_;
  Index batch_, seqlen_;
  std::uint64_t seed_;
};

// Throw InputError that names the first byte of `text` that a model of `vocab` tokens doesn't know.
void require_known_bytes(const std::string& text, Index vocab);

// Return the loss per byte, in nats, of a model that knows only how often each byte occurs, which
// training has to beat; 0 for an empty text.
double unigram_entropy(const std::string& text);

// ---
// A run, and one rank of it.

struct TrainingPlan {
  TrainingSettings settings;
  Deal deal = {};
  const Checkpoint* start = nullptr;  // null: from the beginning
  Index steps = 0;                    // in all, including those of `start`
  Index recorded_step = 0;            // counted from 1, of the first ring; 0: none
  Index checkpoint_every = 0;         // after so many steps AfterStep may take one; 0: none

  Index steps_before() const { return start == nullptr ? 0 : start->step; }
};

// Throw InputError that names the setting, its value, and what is accepted.
inline constexpr int kMostParts = 1 << 14;  // of heads, and of a batch
void validate(const TrainingPlan& plan);

struct StepReport {
  Index step = 0;   // counted from 1, over all runs that led to it through checkpoints
  double loss = 0;  // mean over the bytes of the batch, before the step's update, in nats
  double gradient_length = 0;  // of the gradients before any scaling down
};

// The costs of one rank, summed over the steps of this run. They exclude what rank 0 does between its steps
// (AfterStep), for which the others wait in the ring of their next step, so their costs include it.
struct RankCosts {
  Index steps = 0;
  double seconds = 0;
  AttentionSeconds attention;  // part of `seconds`
  // Bytes sent by the ring, to add up gradients, and over the tensor group.
  Index forward_bytes = 0, backward_bytes = 0, reduction_bytes = 0, tensor_bytes = 0;
  Index peak_bytes = 0;  // most bytes held at once

  Index sent_bytes() const {
    return forward_bytes + backward_bytes + reduction_bytes + tensor_bytes;
  }
};

class TrainingRank;

// Called after every step on rank 0's thread, while the other ranks go on to the next step. It may
// take a checkpoint after every TrainingPlan::checkpoint_every. Anything it throws ends the run.
using AfterStep = std::function<void(const StepReport&, const TrainingRank& rank_0)>;

class TrainingRank {
 public:
  // The plan is valid and `comm` has its ranks. All must outlive the run; `pulse` may be null.
  TrainingRank(const TrainingPlan& plan, const TextBatches& batches, Communicator& comm,
               WorkPulse* pulse = nullptr);

  // Train one step. Throw RunError when a peer fails, and when the loss, the gradients or the new
  // weights are NaN or infinite; then the weights are of no use.
  StepReport step();
  // Train from where plan.start ends to the last step. `after_step`, if any, is called on rank 0.
  // Throw RunError when a peer fails, and what after_step throws.
  void run(const AfterStep& after_step);

  // Return the whole model, on rank 0 where there are tensor groups.
  Checkpoint checkpoint() const;
  const RankCosts& costs() const { return costs_; }
  // Return what was recorded of the plan's recorded step, if this rank trained it.
  std::optional<RankEvents>& recorded() { return recorded_; }
  Replica& replica() { return replica_; }
  int rank() const { return rank_; }

 private:
  template <class Whole, class F>
  void for_own_parts(Whole& whole, const F& f);
  void gather_whole();

  const TrainingPlan& plan_;
  const TextBatches& batches_;
  int rank_;
  GroupCommunicator tensor_group_, context_group_, gradient_group_;
  WireCounter ring_comm_;  // of the context group
  ModelWeights weights_;
  Replica replica_;
  AdamW adam_;
  RankCosts costs_;
  std::optional<RankEvents> recorded_;
  std::optional<Checkpoint> whole_;  // in the first of several tensor groups
};

struct FinishedTraining {
  Checkpoint end;
  std::vector<RankCosts> ranks;
  std::optional<Recording> recording;  // of the plan's recorded step
};

// Return the recording of the plan's recorded step from what all ranks recorded, by rank, on one monotonic
// clock. Times are moved so that the earliest is 0.
Recording recording_of(const TrainingPlan& plan, std::vector<RankEvents> ranks);

// Train on threads of this process. Throw InputError for an impossible plan, a text that is too short
// or has bytes that the model does not know, and a checkpoint of another shape. Throw RunError naming
// the rank that failed, also that of `watch`.
FinishedTraining train_on_threads(const TrainingPlan& plan, const std::string& text,
                                  const AfterStep& after_step = {}, const RankWatch& watch = {});

class MpiSession;

// Run rank session.rank() of `plan`, which is valid, the same on all ranks, and of the session's
// world_size, as a process, where there is MPI. Return the result of train_on_threads() on rank 0,
// and an empty one elsewhere. Throw InputError for a text as train_on_threads() does, on all ranks
// alike. When any rank fails or is silent for the session's timeout, all processes end.
FinishedTraining train_on_mpi(MpiSession& session, const TrainingPlan& plan,
                              const std::string& text, const AfterStep& after_step = {});

}  // namespace ringscope
