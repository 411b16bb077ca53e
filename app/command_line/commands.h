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
#include "core/problem/conventions.h"
#include "viz/window/view.h"

namespace ringscope {

struct CheckOptions {
  // Q, K, V, dO, their layout, mask, partition, scale and world_size; and the outputs to be
  // checked, of which the ones that are set are there.
  RunOptions run;
  std::optional<DType> dtype;  // not given: as the values of --out look
  std::optional<std::string> reference;
  std::optional<double> rope_base;
  std::optional<Index> rows;  // how many query rows of each head are looked at; default all
  std::uint64_t seed = 0;     // draws them
  std::optional<std::string> cu_seqlens;
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
  std::vector<std::string> attention;  // parts of kernels' names
  bool json = false;
};

struct LessonOptions {
  // A number, list (or nothing), glossary, zoo, challenge; perhaps a name.
  std::vector<std::string> words;
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
    std::variant<Help, CheckOptions, ExplainOptions, LessonOptions, PlanOptions, PositionsOptions,
                 RunOptions, DemoOptions, SimulateOptions, TrainOptions, GenerateRequest,
                 SiteOptions, viz::ViewOptions, InfoOptions>;

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
Finish declare_lesson(CommandFlags& flags);
Finish declare_plan(CommandFlags& flags);
Finish declare_positions(CommandFlags& flags);
Finish declare_run(CommandFlags& flags);
Finish declare_simulate(CommandFlags& flags);
Finish declare_site(CommandFlags& flags);
Finish declare_train(CommandFlags& flags);
Finish declare_view(CommandFlags& flags);

// ---
// Each function carries out a command, whose line in the table of commands.cpp says what that is,
// prints its output, and returns the program's exit status: 0, or 1 where numbers are wrong, those of
// the outputs that `check` is given, of a verification of `run` or `demo`, or of a check or an
// exercise of a lesson. A plan that can't be carried out is an answer, too. Throws InputError (also
// in a build that lacks a viewer, when one is asked for), RunError and std::bad_alloc.

int carry_out(const Help& help);  // prints the text
int carry_out(const CheckOptions& options);
int carry_out(const DemoOptions& options);
int carry_out(const ExplainOptions& options);
int carry_out(const GenerateRequest& request);  // a thread a rank, as the next ones
int carry_out(const TrainOptions& options);
int carry_out(const RunOptions& options);
int carry_out(const InfoOptions& options);
int carry_out(const PlanOptions& options);
int carry_out(const PositionsOptions& options);
int carry_out(const LessonOptions& options);
int carry_out(const SimulateOptions& options);
int carry_out(const SiteOptions& options);
int carry_out(const viz::ViewOptions& options);

// ---
// Pages made from the table that reads the command line: a man page, the site's page of it, and the
// scripts with which bash and zsh complete commands, flags and their values.

// Return a page: "man" (troff), "markdown", "bash", "zsh", or "" for the text of --help. Throw
// InputError.
std::string help_page(const std::string& page, const CommandLine& line);

}  // namespace ringscope
