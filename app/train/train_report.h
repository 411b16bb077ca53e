// What a training run found out, and what it cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/train/train_options.h"
#include "app/train/train_setup.h"
#include "core/base/error.h"

namespace ringscope {

struct TrainReport {
  const TrainOptions& options;
  const TrainSetup& setup;
  const FinishedTraining& finished;

  std::vector<double> losses;  // of this run's steps
  double unigram_entropy = 0;  // of the text, in nats a byte
  double seconds = 0;          // from before the first step to after the last, files included
  double step_s = 0;           // mean, rank 0's; 0 where there was no step
  std::optional<std::string> sample;  // without the prompt; none where it failed

  // Mean of the last losses, as many as smooth out which pieces of text were drawn.
  double last_losses() const;
  double step_tokens() const;
};

TrainReport make_train_report(const TrainOptions& options, const TrainSetup& setup,
                              const std::vector<StepLoss>& losses, const FinishedTraining& finished,
                              double seconds);

std::string train_text(const TrainReport& report);   // but for the sample
std::string sample_text(const TrainReport& report);  // "" where there is none
std::string train_json(const TrainReport& report);

// "4 layers of 128, 4 heads of 32, ...", in a line.
std::string model_text(const TrainingPlan& plan);
// In [0, 1], after `step`.
double share_done(const TrainingPlan& plan, Index step);

// ---
// What a training run leaves behind while it goes on: now and then the losses of its steps so far,
// and a checkpoint. One that can't be written does not keep the other from being.

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
