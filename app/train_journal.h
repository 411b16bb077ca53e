// What a training run leaves behind while it goes on: now and then the losses of its steps so far,
// and a checkpoint. One that can't be written does not keep the other from being.
#pragma once

#include <vector>

#include "app/train_options.h"
#include "app/train_setup.h"
#include "core/base/error.h"

namespace ringscope {

class TrainJournal {
 public:
  // Both must outlive it.
  TrainJournal(const TrainOptions& options, const TrainSetup& setup);

  // As training calls it after each step. Throws RunError when a file can't be written.
  void note(const StepReport& report, const TrainingRank& rank_0);
  // Writes what the last step left to be written. Throws RunError.
  void close(const Checkpoint& end);
  // Instead of it, when the run failed: the losses so far. Returns the failure, which also says if
  // they could not be written.
  RunError close_failed(const RunError& failure) const;

  // Of this run and, where it goes on, of the steps before it.
  const std::vector<StepLoss>& losses() const { return losses_; }

 private:
  void write_losses() const;
  // `checkpoint` may be null: none. Throws RunError.
  void write(bool losses, const Checkpoint* checkpoint);

  const TrainOptions& options_;
  const TrainSetup& setup_;
  std::vector<StepLoss> losses_;
  Index saved_step_ = -1;
};

}  // namespace ringscope
