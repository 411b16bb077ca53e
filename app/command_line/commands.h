// The commands: what each can be asked for, how it declares its flags, and what carries it out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/command_line/flags.h"
#include "app/generate/generate.h"
#include "app/plan/plan.h"
#include "app/run/run.h"
#include "app/simulate/simulate.h"
#include "app/train/train.h"
#include "core/base/dtype.h"
#include "core/model/rank_groups.h"
#include "core/problem/conventions.h"
#include "viz/window/view.h"

namespace ringscope {

struct CheckOptions {
  // Q, K, V, dO, their layout, mask, partition, scale and world_size; and the outputs to be
  // checked, of which the ones that are set are there.
  RunOptions run;
  std::optional<DType> dtype;  // not given: as the values of --out look
  std::optional<std::string> reference;
  std::optional<std::string> q_unrotated, k_unrotated;
  std::optional<double> rope_base;
  std::optional<std::string> picture;
  bool json = false;
};

struct DemoOptions {
  std::string text;  // "": the text that lies beside the program
  std::string out = "runs/demo";
  Index seqlen = 8192;
  bool no_view = false;  // do not open a window, even on a display
};

struct ExplainOptions {
  std::vector<std::string> traces;
  bool json = false;
};

struct GroupsOptions {
  int world_size = 0;  // 0: not given, which is the product of the job's sizes
  int ranks_a_node = 8;
  std::optional<int> rank;  // whose groups are listed member by member
  GroupJob job;             // how the world is split, and what it computes
  DType dtype = DType::bf16;
  bool json = false;
};

struct LessonOptions {
  std::vector<std::string>
      words;  // a number, list (or nothing), glossary, zoo, challenge; perhaps a name

  bool no_pause = false;
  bool check = false;                // the learner's exercise instead of the lesson
  std::optional<int> hint;           // 1 to 3: for a step of the learner's ring
  std::optional<std::string> take;   // "ours" or "stub": begin that step from there
  std::optional<std::string> page;   // write Markdown there instead; "-": to stdout
  std::string out = "runs/lessons";  // folder for recordings
};

struct InfoOptions {
  bool json = false;
};

struct PositionsOptions {
  Problem job;  // its shape has a seqlen alone
  std::optional<int> rank;
  Convention convention = Convention::ringscope;
  std::optional<std::string> out;
  bool json = false;
};

struct SiteOptions {
  std::string folder;
};

// The text of --help or `ringscope help`, which is to be printed.
struct Help {
  std::string text;
};

using Command =
    std::variant<Help, CheckOptions, ExplainOptions, GroupsOptions, LessonOptions, PlanOptions,
                 PositionsOptions, RunOptions, DemoOptions, SimulateOptions, TrainOptions,
                 GenerateRequest, SiteOptions, viz::ViewOptions, InfoOptions>;

// Read `arguments` (without the program's name), and the files of a mask and a partition. Throw
// InputError naming the flag, the value and what would be accepted, also for flags that contradict
// each other.
Command parse_command_line(const std::vector<std::string>& arguments);

// ---
// Each function adds the flags of a command. It returns what turns them, once they are read, into
// the command's options, and throws as parse_command_line() does.

using Finish = std::function<Command()>;

Finish declare_check(CommandFlags& flags);
Finish declare_demo(CommandFlags& flags);
Finish declare_explain(CommandFlags& flags);
Finish declare_generate(CommandFlags& flags);
Finish declare_groups(CommandFlags& flags);
Finish declare_lesson(CommandFlags& flags);
Finish declare_plan(CommandFlags& flags);
Finish declare_positions(CommandFlags& flags);
Finish declare_run(CommandFlags& flags);
Finish declare_simulate(CommandFlags& flags);
Finish declare_site(CommandFlags& flags);
Finish declare_train(CommandFlags& flags);
Finish declare_view(CommandFlags& flags);

// ---
// Each function runs a command, prints its output, and returns the program's exit status. It throws
// InputError, RunError and std::bad_alloc.

// Print the text. Return 0.
int carry_out(const Help& help);

// Say whether a user's attention outputs are right, and which mistake they look like. Return 0, or
// 1 when they are wrong.
int carry_out(const CheckOptions& options);

// Run causal ring attention on a real text, on four ranks in all four partitions. Verify each run
// against one oracle, record it, and print one table of the differences. Then draw the traces as a
// picture, and open the viewer if somebody can see it. Return 0, or 1 when a verification failed.
int carry_out(const DemoOptions& options);

// Say why recorded runs took as long as they did. Return 0.
int carry_out(const ExplainOptions& options);

// Continue a text with the model of a checkpoint, with one thread per rank.
int carry_out(const GenerateRequest& request);

// Say which ranks work together when heads, rows, layers and batches are split at the same time,
// where these groups lie, and what they send. Return 0.
int carry_out(const GroupsOptions& options);

// Say what this build and this machine can do, and why not the rest. Return 0.
int carry_out(const InfoOptions& options);

// Compute by formula what a run will cost on a machine. Return 0 even if the plan can't be carried
// out, because that is the answer.
int carry_out(const PlanOptions& options);

// Say which positions each rank holds, and what goes with them. Return 0.
int carry_out(const PositionsOptions& options);

// Tell a lesson, list the lessons, show the glossary, or test the learner's version of an exercise.
// Return 0, or 1 when one of the lesson's checks fails or the exercise is not solved.
int carry_out(const LessonOptions& options);

// Train a small language model on a text, with ring attention inside, and one thread per rank.
int carry_out(const TrainOptions& options);

// Run one attention problem on a ring and print the report. Return 0, or 1 when --verify found the
// numbers wrong.
int carry_out(const RunOptions& options);

// Simulate a run on a machine that is not here. Return 0.
int carry_out(const SimulateOptions& options);

// Write the lessons, the viewer and the reference as pages for a browser. Return 0.
int carry_out(const SiteOptions& options);

// Open the viewer or write a picture. Return 0 when that is done. Throw InputError also in a build
// without a viewer.
int carry_out(const viz::ViewOptions& options);

// ---
// Pages made from the table that reads the command line: a man page, the site's page of it, and the
// scripts with which bash and zsh complete commands, flags and their values.

// Return a page: "man" (troff), "markdown", "bash", "zsh", or "" for the text of --help. Throw
// InputError.
std::string help_page(const std::string& page, const CommandLine& line);

}  // namespace ringscope
