// The work before and after the ranks' own, wherever the ranks are: the problem that the options
// describe, the checks before the run, and what is done with the result.
#pragma once

#include <memory>

#include "app/command_line/options.h"
#include "app/run/backend.h"
#include "app/run/inputs.h"
#include "core/run/run.h"

namespace ringscope {

Problem config_of(const RunOptions& options, const AttentionShape& shape, int world_size);

// Throw InputError for what can be refused without the values: mask, fault, places of outputs.
void check_problem(const RunOptions& options, const Problem& config, const InputPlan& plan);

// Return whether the values of the outputs are needed.
bool wants_outputs(const RunOptions& options);

// A finished run and its problem.
struct FinishedRun {
  const RunOptions& options;
  const Problem& config;
  const InputPlan& plan;
  const RingRun& run;
  bool finite_inputs;  // no loaded file has NaN, infinities or overflow
};

// Verify, write the files, print the report. Return the exit status, 0 or kWrongNumbers. --verify
// needs the `inputs` of the whole sequence and runs them on a single rank with `one_rank`. Throw
// InputError, RunError.
int conclude(const FinishedRun& finished, const AttentionInputs& inputs, const Runner& one_rank);

// Write the recording of a failed run if --trace asks for it. Return the failure; its message also
// says if the trace could not be written.
RunError with_trace_written(const RunOptions& options, const RunError& failure,
                            const Recording& recording);

}  // namespace ringscope
