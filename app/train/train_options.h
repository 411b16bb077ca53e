// The options of `ringscope train`: a text, a model and how it learns, and what to write.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/run/backend.h"
#include "core/train/training_run.h"

namespace ringscope {

// The settings that were given, by their flags. The others come from the checkpoint that a run
// resumes, or else from TrainingSettings.
struct GivenSettings {
  std::map<std::string, Index> shape;   // "--layers", ...
  std::map<std::string, double> adamw;  // "--lr", ...
  std::optional<Index> warmup_steps, batch, seqlen;
  std::optional<MaskSpec> mask;
  std::optional<std::uint64_t> seed;
};

struct TrainOptions {
  std::string text;
  GivenSettings given;
  Index steps = 400;  // those of the checkpoint included

  Backend backend = Backend::cpu;
  std::optional<int> world_size;  // default 2, or the number of processes started
  PartitionKind partition = PartitionKind::zigzag;
  double timeout_s = 60;

  std::optional<std::string> loss_csv, picture, checkpoint, resume, trace;
  std::optional<Index> checkpoint_every, trace_step;
  bool json = false;

  std::optional<Index> sample_bytes;
  std::optional<std::string> prompt;
  std::optional<double> temperature;
};

class CommandFlags;

void add_train(CommandFlags& flags, TrainOptions& train);

// Throw InputError for options that contradict each other.
void check_train(const TrainOptions& train);

// Return the settings of a run that resumes from `start`, or begins if `start` is null. Throw
// InputError naming the flag, its value and what is accepted, also where a size differs from that
// of `start`, which came from the file `resume`.
TrainingSettings settings_of(const GivenSettings& given, const Checkpoint* start,
                             const std::string& resume);

// For comparing the settings of two ranks: return the given settings by flag; return all flags of
// settings, in a fixed order.
std::map<std::string, std::string> texts_of(const GivenSettings& given);
std::vector<std::string> setting_flags();

}  // namespace ringscope
