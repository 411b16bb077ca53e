// What `ringscope train` is asked for (a text, a model and how it learns, and what to write), its
// results, and the files that it writes while it goes on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line/option_groups.h"
#include "core/base/error.h"
#include "core/model/training.h"

namespace ringscope {

// The settings that were given, by their flags. The others come from the checkpoint that a run
// resumes, or else from TrainingSettings.
struct GivenSettings {
  std::map<std::string, std::optional<Index>> sizes;     // "--layers", ...
  std::map<std::string, std::optional<double>> numbers;  // "--lr", ...
  std::optional<MaskSpec> mask;
  std::optional<std::uint64_t> seed;
};

struct TrainOptions {
  std::string text;
  GivenSettings given;
  std::optional<Index> steps;  // those of the checkpoint included; see kDefaultSteps
  Index chunks = 1;
  RankOptions ranks;
  std::optional<std::string> loss_csv, checkpoint, resume, trace;
  std::optional<Index> checkpoint_every, trace_step;
  bool json = false;
};

// Return after how many steps a checkpoint is written, if any.
inline Index every(const TrainOptions& options) { return options.checkpoint_every.value_or(100); }

inline constexpr int kDefaultTrainingRanks = 2;
inline constexpr Index kDefaultSteps = 400;  // of a run that does not resume

struct TrainSetup {
  TrainingPlan plan;                // refers to start
  std::optional<Checkpoint> start;  // of --resume
  std::string text;
  std::uint64_t text_mark = 0;  // of the text
  // Whether --loss-csv is a file or will be one, so that each writing replaces the last. A pipe or
  // a terminal gets everything once, at the end.
  bool losses_are_kept = false;
  std::string rows_before;  // of the steps before, as far as --loss-csv has them

  TrainSetup() = default;
  TrainSetup(const TrainSetup&) = delete;
  TrainSetup& operator=(const TrainSetup&) = delete;
};

struct TrainReport {
  const TrainOptions& options;
  const TrainSetup& setup;
  const FinishedTraining& finished;
  const std::vector<double>& losses;  // of this run's steps
  double seconds = 0;  // from before the first step to after the last, files included
};

std::string train_text(const TrainReport& report);
std::string train_json(const TrainReport& report);

// ---
// The files that a training run writes while it goes on: from time to time the losses so far and a
// checkpoint. Failing to write one does not keep the other from being written.
//
// The losses are a table for other programs, one row per step, with nine digits, which tell all f32
// apart. Further columns say where the rows come from; they are filled in the first row of every
// run that went on with the table, so that a resumed run keeps what the one before it said.

// Return the rows of the table up to `steps`, each with its line end. Throw InputError that names the
// path, and the line that doesn't belong in such a table.
std::string loss_rows_before(const std::string& path, Index steps);

class TrainJournal {
 public:
  // Both arguments must outlive this object.
  TrainJournal(const TrainOptions& options, const TrainSetup& setup)
      : options_(options), setup_(setup), rows_(setup.rows_before) {}

  // Record a step; training calls this after each. Throw RunError when a file can't be written.
  void note(const StepReport& report, const TrainingRank& rank_0);
  // Write what the last step left to be written. Throw RunError.
  void close(Checkpoint& end);
  // Write the losses so far when the run has failed; call this instead of close(). Return the
  // failure, whose message also says if they could not be written.
  RunError close_failed(const RunError& failure) const;

  const std::vector<double>& losses() const { return losses_; }  // of this run

 private:
  void write_losses() const;
  // Complete `checkpoint` by what the run was to do and its text. It may be null, for none. Throw
  // RunError.
  void write(bool losses, Checkpoint* checkpoint);

  const TrainOptions& options_;
  const TrainSetup& setup_;
  std::string rows_;
  std::vector<double> losses_;
  Index saved_step_ = -1;
};

}  // namespace ringscope
