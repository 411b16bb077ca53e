// What a training run found out, and what it cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/train_options.h"
#include "app/train_setup.h"

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

}  // namespace ringscope
