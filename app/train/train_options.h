// The options of `ringscope train`: a text, a model and how it learns, and what to write.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line/option_groups.h"
#include "core/train/training_run.h"

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
  bool json = false, shard_optimizer = false;

  std::optional<Index> sample_bytes;
  std::optional<std::string> prompt;
  std::optional<double> temperature;
};

// Return after how many steps a checkpoint is written, if any.
inline Index every(const TrainOptions& options) { return options.checkpoint_every.value_or(100); }

inline constexpr int kDefaultTrainingRanks = 2;
inline constexpr Index kDefaultSteps = 400;  // of a run that does not resume

// Return the settings of a run that resumes from `start`, or begins if `start` is null. Throw
// InputError naming the flag, its value and what is accepted, also where a size differs from that
// of `start`, which came from the file `resume`.
TrainingSettings settings_of(const GivenSettings& given, const Checkpoint* start,
                             const std::string& resume);

// Return all settings by flag, for comparing those of two ranks; "not given" stands for the rest.
std::vector<std::pair<std::string, std::string>> texts_of(const GivenSettings& given);

}  // namespace ringscope
