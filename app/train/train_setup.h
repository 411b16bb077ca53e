// Reads and checks everything that flags and files say about a training run, before any long work
// begins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/train/train_options.h"
#include "core/decode/generate.h"
#include "core/train/loss_csv.h"
#include "core/train/training_run.h"

namespace ringscope {

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

// Read the files that `options` name, for `world_size` ranks. Throw InputError naming flag or file,
// the value and what is accepted.
void set_up(const TrainOptions& options, int world_size, TrainSetup& setup);

// Set up from what another process has read. `checkpoint` is to_bytes() of --resume's, or "".
// Earlier losses and the sample stay with that process. Throw as set_up does.
void set_up_from(const TrainOptions& options, int world_size, std::string text,
                 const std::string& checkpoint, TrainSetup& setup);

// Throw RunError naming both numbers when `ranks` of the plan's ranks in this process and what goes
// with them, or the sample after them, take more memory than there is.
void require_training_memory(const TrainSetup& setup, int ranks);

}  // namespace ringscope
