// The commands: how each declares its flags, and what a command line becomes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line/flags.h"
#include "app/job/job.h"
#include "app/run/run.h"
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

struct SiteOptions {
  std::string recordings;  // folder
};

int carry_out(const viz::ViewOptions& options);

// A command that was read. It carries itself out, prints its output, and returns the program's exit status:
// 0, or 1 where numbers are wrong (of `check`, a verification, or a lesson's check or exercise). A plan that
// can't be carried out is an answer, too. It throws InputError (also where a viewer is asked for and
// lacking), RunError and std::bad_alloc.
struct Command {
  // `options` have a function carry_out() or, where ranks work on them, job_of().
  template <class Options>
  Command(const Options& options) {  // NOLINT: options are a command
    if constexpr (requires(MpiSession * session) { job_of(session, options); }) {
      job = [options](MpiSession* session) { return job_of(session, options); };
      run = [options] { return carry_out_here(*job_of(nullptr, options)); };
    } else {
      run = [options] { return carry_out(options); };
    }
  }

  std::function<int()> run;
  // What one rank does where each rank is a process; it refers to the command. Empty where there are none.
  std::function<std::unique_ptr<Job>(MpiSession*)> job;
};

// Read `arguments` (without the program's name), and the files of a mask and a partition. Throw
// InputError naming the flag, the value and what would be accepted, also for flags that contradict
// each other.
Command parse_command_line(const std::vector<std::string>& arguments);

// Each function adds the flags of a command. It returns what turns them, once they are read, into
// the command's options, and throws as parse_command_line() does.
using Finish = std::function<Command()>;

Finish declare_check(CommandFlags& flags);
Finish declare_demo(CommandFlags& flags);
Finish declare_explain(CommandFlags& flags);
Finish declare_generate(CommandFlags& flags);
Finish declare_info(CommandFlags& flags);
Finish declare_lesson(CommandFlags& flags);
Finish declare_plan(CommandFlags& flags);
Finish declare_positions(CommandFlags& flags);
Finish declare_run(CommandFlags& flags);
Finish declare_simulate(CommandFlags& flags);
Finish declare_site(CommandFlags& flags);
Finish declare_train(CommandFlags& flags);
Finish declare_view(CommandFlags& flags);

// Return a page made from the table that reads the command line: "man" (troff), "markdown" for the site,
// "bash" or "zsh", which complete commands, flags and values, or "" for the text of --help. Throw InputError.
std::string help_page(const std::string& page);

}  // namespace ringscope
