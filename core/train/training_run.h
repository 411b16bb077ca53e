// A whole training run, and what it cost: the same loop for every rank, whoever moves the blocks
// between them. What a step costs is measured where it arises: time inside the step and inside its
// attention, bytes as they are handed to the communicator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ring/wire_counter.h"
#include "core/train/recorded_step.h"

namespace ringscope {

struct TrainingPlan {
  TrainingSettings settings;
  Deal deal;
  const Checkpoint* start = nullptr;  // null: from the beginning
  Index steps = 0;                    // in all, those of `start` included
  Index recorded_step = 0;            // counted from 1; 0: none

  Index steps_before() const { return start == nullptr ? 0 : start->step; }
};

// Throws InputError that names the setting, its value, and what is accepted.
void validate(const TrainingPlan& plan);

// One rank's, summed over the steps of this run. What rank 0 does between its steps (after_step,
// which may write a checkpoint) is not in its own; the others wait for it in the ring of their next
// step, so it is in theirs.
struct RankCosts {
  Index steps = 0;
  double seconds = 0;
  AttentionSeconds attention;  // of them
  // Sent, by what for. The reduction's are by formula; the other two are counted, the backward one
  // as what is left.
  Index forward_bytes = 0, backward_bytes = 0, reduction_bytes = 0;
  Index peak_bytes = 0;  // held at most

  Index sent_bytes() const { return forward_bytes + backward_bytes + reduction_bytes; }
};

// One rank of a training run that is being measured.
class MeasuredRank {
 public:
  // As TrainingRank, for a plan that is valid. All of them must outlive its run.
  MeasuredRank(const TrainingPlan& plan, const TextBatches& batches, Communicator& comm,
               WorkPulse* pulse = nullptr);

  // From where plan.start leaves off to the last step. `after_step`, if any, is called on rank 0.
  // Throws RunError when a peer fails, and what after_step throws.
  void run(const AfterStep& after_step);

  const TrainingRank& training() const { return training_; }
  // After the run, when the communicator may be no more.
  const RankCosts& costs() const { return costs_; }
  // What was recorded, where that step was among them; by this process's monotonic clock.
  std::optional<RankEvents>& recorded() { return recorded_; }

 private:
  StepReport step(Index step);

  const TrainingPlan& plan_;
  int world_size_;
  WireCounter comm_;
  TrainingRank training_;
  RankCosts costs_;
  std::optional<RankEvents> recorded_;
};

// Of the plan's recorded step, from what all ranks recorded, by rank.
Recording recording_of(const TrainingPlan& plan, std::vector<RankEvents> ranks);

struct FinishedTraining {
  Checkpoint end;
  std::vector<RankCosts> ranks;
  std::optional<Recording> recording;  // of the plan's recorded step
};

// Runs a valid plan on threads of this process. Throws as train_on_threads.
FinishedTraining run_training_on_threads(const TrainingPlan& plan, const std::string& text,
                                         const AfterStep& after_step = {});

}  // namespace ringscope
