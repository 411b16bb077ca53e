// The entry points of the commands: one function per command runs it, prints its output, and
// returns the program's exit status. This file does not read the command line, options.h does.
#pragma once

#include "app/command_line/options.h"
#include "app/generate/generate_options.h"
#include "app/groups/groups_options.h"
#include "app/plan/plan_options.h"
#include "app/simulate/simulate_options.h"

namespace ringscope {

// Run causal ring attention on a real text, on four ranks in all four partitions. Verify each run
// against one oracle, record it, and print one table of the differences. Then draw the traces as a
// picture, and open the viewer if somebody can see it. Return 0, or 1 when a verification failed.
// Throw InputError, RunError, std::bad_alloc.
int demo_command(const DemoOptions& options);

// ---
// `ringscope generate` continues a text with the model of a checkpoint.

// Run with one thread per rank. Return the exit status. Throw InputError, RunError.
int generate_command(const GenerateRequest& request);

// ---
// `ringscope groups` says which ranks work together when heads, rows, layers and batches are split
// at the same time, where these groups lie, and what they send.

// Return the exit status, 0.
int groups_command(const GroupsOptions& options);

// ---
// `ringscope info` says what this build and this machine can do, and why not the rest.

// Print it on stdout and return 0. Throw RunError when stdout can't be written to.
int info_command();

// ---
// `ringscope plan` computes by formula what a run will cost on a machine.

// Return 0 even if the plan can't be carried out, because that is the answer.
int plan_command(const PlanOptions& options);

// ---
// `ringscope run` runs one attention problem on a ring.

// Print the report on stdout. Return 0, or 1 when --verify found the numbers wrong. Throw
// InputError, RunError, std::bad_alloc.
int run_command(const RunOptions& options);

// ---
// `ringscope simulate` simulates a run on a machine that is not here.

// Return the exit status, 0. Throw InputError, RunError, std::bad_alloc.
int simulate_command(const SimulateOptions& options);

}  // namespace ringscope
