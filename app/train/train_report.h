// The results and the costs of a training run.
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
  double unigram_entropy = 0;  // of the text, in nats per byte
  double seconds = 0;          // from before the first step to after the last, files included
  double step_s = 0;           // mean of rank 0; 0 without steps
  std::optional<std::string> sample;  // without the prompt; none where it failed

  // Mean of the last losses, enough to smooth out which pieces of text were drawn.
  double last_losses() const;
  double step_tokens() const;
};

TrainReport make_train_report(const TrainOptions& options, const TrainSetup& setup,
                              const std::vector<StepLoss>& losses, const FinishedTraining& finished,
                              double seconds);

std::string train_text(const TrainReport& report);   // without the sample
std::string sample_text(const TrainReport& report);  // "" where there is none
std::string train_json(const TrainReport& report);

// Return "4 layers of 128, 4 heads of 32, ...", in a line.
std::string model_text(const TrainingPlan& plan);
// Return the share of steps done after `step`, in [0, 1].
double share_done(const TrainingPlan& plan, Index step);

// ---
// The files that a training run writes while it goes on: from time to time the losses so far and a
// checkpoint. Failing to write one does not keep the other from being written.

class TrainJournal {
 public:
  // Both arguments must outlive this object.
  TrainJournal(const TrainOptions& options, const TrainSetup& setup);

  // Record a step; training calls this after each. Throw RunError when a file can't be written.
  void note(const StepReport& report, const TrainingRank& rank_0);
  // Write what the last step left to be written. Throw RunError.
  void close(Checkpoint& end);
  // Write the losses so far when the run has failed; call this instead of close(). Return the
  // failure, whose message also says if they could not be written.
  RunError close_failed(const RunError& failure) const;

  // The losses of this run and, if it resumed, of the steps before it.
  const std::vector<StepLoss>& losses() const { return losses_; }

 private:
  void write_losses() const;
  // Complete `checkpoint` by what the run was to do and its text. It may be null, for none. Throw
  // RunError.
  void write(bool losses, Checkpoint* checkpoint);

  const TrainOptions& options_;
  const TrainSetup& setup_;
  std::vector<StepLoss> losses_;
  Index saved_step_ = -1;
};

}  // namespace ringscope
