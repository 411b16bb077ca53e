// What comes before and after the work of the ranks, wherever they are: the problem as options ask
// for it, what can be refused beforehand, and what becomes of the result.
#pragma once

#include <memory>

#include "app/command_line/options.h"
#include "app/run/backend.h"
#include "app/run/inputs.h"
#include "core/run/run.h"

namespace ringscope {

RingConfig config_of(const RunOptions& options, const AttentionShape& shape, int world_size);

// Everything about the problem that can be refused without having read the values: mask, fault,
// places of outputs. Throws InputError.
void check_problem(const RunOptions& options, const RingConfig& config, const InputPlan& plan);

// Whether somebody looks at the outputs' values.
bool wants_outputs(const RunOptions& options);

// What a finished run was about.
struct FinishedRun {
  const RunOptions& options;
  const RingConfig& config;
  const InputPlan& plan;
  const RingRun& run;
  bool finite_inputs;  // as far as they were looked at
};

// Verifies, writes the files, prints the report; returns the exit status, 0 or kWrongNumbers. For
// --verify: `inputs` are those of the whole sequence, and `one_rank` runs them on a single rank.
// Throws InputError, RunError.
int conclude(const FinishedRun& finished, const AttentionInputs& inputs, const Runner& one_rank);

// Writes the recording of a run that failed, if --trace asks for it, and returns the failure; when
// the trace could not be written, its message says so.
RunError with_trace_written(const RunOptions& options, const RunError& failure,
                            const Recording& recording);

}  // namespace ringscope
