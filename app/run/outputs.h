// The files that a run writes: .npy tensors and the trace. Their places are checked before the long
// work; at its end all are written under temporary names and, when all of them are on the disk,
// renamed, so that a full disk leaves none of them.
#pragma once

#include <string>
#include <vector>

#include "app/command_line/options.h"
#include "core/run/run.h"

namespace ringscope {

// An output, and the flag that asks for it.
struct OutputPlace {
  const char* flag;
  std::string path;
};

// Throws InputError when an output's place can't be written to, is that of another output or one of
// the `inputs`, or is stdout where that is taken (`json`).
void check_output_places(const std::vector<OutputPlace>& places,
                         const std::vector<std::string>& inputs, bool json);
void check_output_places(const RunOptions& options, const std::vector<std::string>& inputs);

// Writes what `options` ask for; tensors as float64 when `f64`. Throws RunError, as when the disk
// is full.
void write_outputs(const RunOptions& options, const AttentionShape& shape, const RingRun& run,
                   bool f64);

// Writes the recording alone, if `options` ask for it. Throws as write_outputs.
void write_trace(const RunOptions& options, const Recording& recording);

}  // namespace ringscope
