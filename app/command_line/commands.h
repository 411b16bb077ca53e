// `ringscope demo`: the main job on a real text. Causal ring attention on four ranks in all four
// partitions, each verified against one oracle and recorded, and one table of what differs between
// them; then the traces as a picture, and the viewer where somebody can see it.
#pragma once

#include "app/command_line/options.h"
#include "app/generate/generate_options.h"
#include "app/groups/groups_options.h"
#include "app/plan/plan_options.h"
#include "app/simulate/simulate_options.h"

namespace ringscope {

// Returns the exit status: 0, or 1 when a verification failed. Throws InputError, RunError,
// std::bad_alloc.
int demo_command(const DemoOptions& options);

// ---
// `ringscope generate`: text from a checkpoint.

// With a thread a rank. Returns the exit status; throws InputError, RunError.
int generate_command(const GenerateRequest& request);

// ---
// `ringscope groups`: who works together when heads, rows, layers and batches are dealt out at the
// same time, where these groups lie, and what they send.

// Returns the exit status, 0.
int groups_command(const GroupsOptions& options);

// ---
// `ringscope info`: what this build and this machine can do, and why not the rest.

// Prints it on stdout; returns 0. Throws RunError when stdout can't be written to.
int info_command();

// ---
// `ringscope plan`: what a run will cost on a machine, by formula.

// Returns the exit status: 0, whether the plan can be carried out or not, since that is the answer.
int plan_command(const PlanOptions& options);

// ---
// `ringscope run`: one attention problem, on a ring.

// Prints the report on stdout and returns the exit status: 0, or 1 when --verify found the numbers
// wrong. Throws InputError, RunError, std::bad_alloc.
int run_command(const RunOptions& options);

// ---
// `ringscope simulate`: a run on a machine that is not here.

// Returns the exit status, 0. Throws InputError, RunError, std::bad_alloc.
int simulate_command(const SimulateOptions& options);

}  // namespace ringscope
