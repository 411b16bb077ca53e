// A whole training run and what it costs, with the same loop for every rank, whichever communicator
// it uses. Costs are measured where they arise: time inside the step and its attention, and bytes
// as they are handed to the communicator.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/training.h"
#include "core/ring/wire_counter.h"
#include "core/trace/rank_events.h"

namespace ringscope {

// ---
// The recording of a training step. The ring of one layer is recorded slice by slice like any
// run's, so it has the steps, waits and messages that all readers of recordings know. Everything
// else that the rank does, other layers' rings included, is a lane of spans beside it. So the whole
// step is visible: who computes what when, and how much of it is attention.
//
// Decorators around the two seams of one layer's ring record it. The model itself announces where
// the parts of a step begin (ContextRing::begins).

// Return the layer whose ring is recorded by default. It is the last one, because its forward and
// backward passes are closest together.
constexpr Index default_recorded_layer(const ModelShape& shape) { return shape.layers - 1; }

// One rank's recorded step. Times are on the monotonic clock, which ranks of one process share.
struct RecordedRankStep {
  StepReport report;
  RankEvents events;  // core/trace/rank_events.h packs them for another process
};

// Train `rank` one step, with the same bits as TrainingRank::step(), and record it. All ranks
// record the same step and the same layer, which is in [0, layers). Throw as step() does.
RecordedRankStep record_step(TrainingRank& rank, Index layer);

// Return the recording of `train_step`, counted from 1, from what all ranks recorded, by rank.
// Times are moved so that the earliest is 0. `layer` is that of record_step(). Events of another
// process must have been moved to this one's monotonic clock first (moved_by).
Recording recording_of_step(const TrainingSettings& settings, const Deal& deal, Index train_step,
                            Index layer, std::vector<RankEvents> ranks);

// Return the events `ns` later.
RankEvents moved_by(RankEvents events, std::int64_t ns);

struct TrainingPlan {
  TrainingSettings settings;
  Deal deal;
  const Checkpoint* start = nullptr;  // null: from the beginning
  Index steps = 0;                    // in all, including those of `start`
  Index recorded_step = 0;            // counted from 1; 0: none
  // After each so many steps, and at the end, there may be a checkpoint even if the optimizer is
  // sharded; 0: never.
  Index checkpoint_every = 0;
  // Called on a rank's thread a few times a second with the recording of the latest whole step; null:
  // no step but recorded_step is recorded. Ranks that are processes don't call it.
  std::function<void(const Recording&)> live = nullptr;

  Index steps_before() const { return start == nullptr ? 0 : start->step; }
};

// Throw InputError that names the setting, its value, and what is accepted.
void validate(const TrainingPlan& plan);

// The costs of one rank, summed over the steps of this run. They exclude what rank 0 does between
// its steps (after_step, which may write a checkpoint), and what brings a sharded optimizer's moments
// together for one. The others wait for it in the ring of their next step, so their costs include
// it.
struct RankCosts {
  Index steps = 0;
  double seconds = 0;
  AttentionSeconds attention;  // part of `seconds`
  // Bytes sent, by purpose: the ring's (forward also where it is computed again), and those to add
  // up gradients and to share what a sharded optimizer updates.
  Index forward_bytes = 0, backward_bytes = 0, reduction_bytes = 0;
  Index peak_bytes = 0;  // most bytes held at once

  Index sent_bytes() const { return forward_bytes + backward_bytes + reduction_bytes; }
};

// Collects what all ranks record of one step, a few times a second, for TrainingPlan::live.
class LiveSteps {
 public:
  explicit LiveSteps(const TrainingPlan& plan) : plan_(plan) {}  // which must outlive it

  // Take what a rank recorded of a step. Ranks call it for every step, each on its own thread.
  void add(int rank, Index step, const RankEvents& recorded);

 private:
  const TrainingPlan& plan_;
  std::mutex mutex_;
  Index newest_ = 0;               // that a rank has ended
  Index step_ = 0;                 // that is being collected; 0: none
  std::vector<RankEvents> ranks_;  // what has come of it, by rank
  int missing_ = 0;
  std::int64_t next_ns_ = 0;  // when to begin the next
};

// One rank of a training run whose costs are measured.
class MeasuredRank {
 public:
  // The parameters are those of TrainingRank, with a valid plan. All of them must outlive the run.
  MeasuredRank(const TrainingPlan& plan, const TextBatches& batches, Communicator& comm,
               WorkPulse* pulse = nullptr, LiveSteps* live = nullptr);

  // Train from where plan.start ends to the last step. `after_step`, if any, is called on rank 0.
  // Throw RunError when a peer fails, and what after_step throws.
  void run(const AfterStep& after_step);

  // Return where rank 0's training ended, once, after the run. With a sharded optimizer it has
  // moments only if the plan has checkpoints.
  Checkpoint take_end();
  Index step_under_way() const { return step_under_way_; }  // counted from 1; 0: none yet
  // Return the costs. Valid after the run, even when the communicator no longer exists.
  const RankCosts& costs() const { return costs_; }
  // Return the recording of that step, if this run had it, on the process's monotonic clock.
  std::optional<RankEvents>& recorded() { return recorded_; }

 private:
  StepReport step(Index step);
  void gather_moments_after(Index step);

  const TrainingPlan& plan_;
  LiveSteps* const live_;
  WireCounter comm_;
  TrainingRank training_;
  RankCosts costs_;
  Index gathered_bytes_ = 0;  // sent for checkpoints
  Index step_under_way_ = 0;
  std::optional<RankEvents> recorded_;
};

// Return the recording of the plan's recorded step from what all ranks recorded, by rank.
Recording recording_of(const TrainingPlan& plan, std::vector<RankEvents> ranks);

struct FinishedTraining {
  Checkpoint end;  // as take_end() returns it
  std::vector<RankCosts> ranks;
  std::optional<Recording> recording;  // of the plan's recorded step
};

// Run a valid plan on threads of this process. Throw as train_on_threads() does.
FinishedTraining run_training_on_threads(const TrainingPlan& plan, const std::string& text,
                                         const AfterStep& after_step = {});

class MpiSession;

// A failure of a run as processes, and the training step that the rank that throws it was in.
struct TrainingFailure : RunError {
  Index train_step;
  TrainingFailure(const RunError& error, Index step) : RunError(error), train_step(step) {}
};

// Run rank session.rank() of `plan`, which is valid, the same on all ranks, and of the session's
// world_size, as a process, where there is MPI. Blocks move by MPI, and the lifeline watches the
// rank's pulse. Return the result of run_training_on_threads() on rank 0, and an empty one
// elsewhere. Throw InputError for a text as train_on_threads() does, on all ranks alike. Throw
// TrainingFailure naming the rank, the same on every rank, when any rank fails or is silent for the
// session's timeout; then no MPI function may be called any more.
FinishedTraining run_training_on_mpi(MpiSession& session, const TrainingPlan& plan,
                                     const std::string& text, const AfterStep& after_step = {});

}  // namespace ringscope
