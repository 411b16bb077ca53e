// The entry points of the commands: one function per command runs it, prints its output, and
// returns the program's exit status. This file does not read the command line, options.h does.
// Each function throws InputError, RunError and std::bad_alloc.
#pragma once

#include "app/command_line/options.h"
#include "app/generate/generate_options.h"
#include "app/groups/groups_options.h"
#include "app/lesson/lesson_options.h"
#include "app/plan/plan_options.h"
#include "app/simulate/simulate_options.h"
#include "app/train/train_options.h"

namespace ringscope {

// Run causal ring attention on a real text, on four ranks in all four partitions. Verify each run
// against one oracle, record it, and print one table of the differences. Then draw the traces as a
// picture, and open the viewer if somebody can see it. Return 0, or 1 when a verification failed.
int demo_command(const DemoOptions& options);

// Continue a text with the model of a checkpoint, with one thread per rank.
int generate_command(const GenerateRequest& request);

// Say which ranks work together when heads, rows, layers and batches are split at the same time,
// where these groups lie, and what they send. Return 0.
int groups_command(const GroupsOptions& options);

// Say what this build and this machine can do, and why not the rest. Return 0.
int info_command();

// Compute by formula what a run will cost on a machine. Return 0 even if the plan can't be carried
// out, because that is the answer.
int plan_command(const PlanOptions& options);

// Tell a lesson, list the lessons, show the glossary, or test the learner's version of an exercise.
// Return 0, or 1 when one of the lesson's checks fails or the exercise is not solved.
int lesson_command(const LessonOptions& options);

// Train a small language model on a text, with ring attention inside, and one thread per rank.
int train_command(const TrainOptions& options);

// Run one attention problem on a ring and print the report. Return 0, or 1 when --verify found the
// numbers wrong.
int run_command(const RunOptions& options);

// Simulate a run on a machine that is not here. Return 0.
int simulate_command(const SimulateOptions& options);

}  // namespace ringscope
