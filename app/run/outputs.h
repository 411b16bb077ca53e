// The files that a run writes: .npy tensors and the trace. Their places are checked before the long
// work. In the end all are written under temporary names and renamed only when all of them are on
// the disk, so that a full disk leaves none of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/run/run_options.h"
#include "core/run/run.h"

namespace ringscope {

// An output, and the flag that asks for it; without a path it was not asked for.
struct OutputPlace {
  const char* flag;
  std::optional<std::string> path;
  bool is_folder = false;
};

// Throw InputError for a place that can't be written to, that is also another output or one of the
// `inputs`, or that is stdout while --json uses it (`json`).
void check_output_places(const std::vector<OutputPlace>& places,
                         const std::vector<std::string>& inputs, bool json);

// Return the outputs of `run`.
std::vector<OutputPlace> output_places(const RunOptions& options);

// Write what `options` ask for, with tensors as float64 if `f64`. Throw RunError, for example when
// the disk is full.
void write_outputs(const RunOptions& options, const Problem& config, const RingRun& run, bool f64);

// Write the recording alone, if `options` ask for it. Throw as write_outputs does.
void write_trace(const RunOptions& options, const Recording& recording);

}  // namespace ringscope
