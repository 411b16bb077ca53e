// What `ringscope train` is asked for (a text, a model and how it learns, and what to write), what it
// reads and checks before any long work begins, and its results and costs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line/option_groups.h"
#include "core/base/error.h"
#include "core/model/generate.h"
#include "core/model/loss_csv.h"
#include "core/model/training_run.h"

namespace ringscope {

// The settings that were given, by their flags. The others come from the checkpoint that a run
// resumes, or else from TrainingSettings.
struct GivenSettings {
  std::map<std::string, std::optional<Index>> shape;   // "--layers", ...
  std::map<std::string, std::optional<double>> adamw;  // "--lr", ...
  std::optional<Index> warmup_steps, batch, seqlen;
  std::optional<MaskSpec> mask;
  std::optional<std::uint64_t> seed;
};

struct TrainOptions {
  std::string text;
  GivenSettings given;
  std::optional<Index> steps;  // those of the checkpoint included; see kDefaultSteps

  RankOptions ranks;

  std::optional<std::string> loss_csv, picture, theme, checkpoint, resume, trace;
  std::optional<Index> checkpoint_every, trace_step;
  ModelMemory memory;
  bool json = false, shard_optimizer = false, live = false;

  std::optional<Index> sample_bytes;
  std::optional<std::string> prompt;
  std::optional<double> temperature;
};

// Return after how many steps a checkpoint is written, if any.
inline Index every(const TrainOptions& options) { return options.checkpoint_every.value_or(100); }

inline constexpr int kDefaultTrainingRanks = 2;
inline constexpr Index kDefaultSteps = 400;  // of a run that does not resume

// Return all settings by flag, for comparing those of two ranks; "not given" stands for the rest.
std::vector<std::pair<std::string, std::string>> texts_of(const GivenSettings& given);

struct TrainSetup {
  TrainingPlan plan;                // refers to start
  std::optional<Checkpoint> start;  // of --resume
  std::string text;
  std::uint64_t text_mark = 0;  // of the text
  // Whether --loss-csv is a file or will be one, so that each writing replaces the last. A pipe or
  // a terminal gets everything once, at the end.
  bool losses_are_kept = false;
  std::vector<StepLoss> losses;  // of the steps before, as far as --loss-csv has them
  std::optional<GenerateOptions> sample;

  TrainSetup() = default;
  TrainSetup(const TrainSetup&) = delete;
  TrainSetup& operator=(const TrainSetup&) = delete;
};

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
