// The program: reads the command line, runs one command, and turns errors into an exit status.
//
//   0  good
//   1  the numbers are wrong (--verify)
//   2  bad usage or bad input: one line on stderr names the flag or file, the value and what is
//      accepted
//   3  something failed while running: one line on stderr
//
// With one process per rank these are the job's: every rank ends with 2 or 3 where a single process
// would, and one of them says why.
#include <csignal>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "app/command_line/commands.h"
#include "app/command_line/ending.h"
#include "app/command_line/options.h"
#include "app/process/process_command.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "app/view/view_command.h"

namespace ringscope {
namespace {

int dispatch(const Command& command) {
  if (const auto* help = std::get_if<Help>(&command)) {
    print_out(help->text);
    return 0;
  }
  if (const auto* groups = std::get_if<GroupsOptions>(&command)) return groups_command(*groups);
  if (const auto* lesson = std::get_if<LessonOptions>(&command)) return lesson_command(*lesson);
  if (const auto* plan = std::get_if<PlanOptions>(&command)) return plan_command(*plan);
  if (const auto* simulate = std::get_if<SimulateOptions>(&command))
    return simulate_command(*simulate);
  if (const auto* run = std::get_if<RunOptions>(&command)) return run_command(*run);
  if (const auto* train = std::get_if<TrainOptions>(&command)) return train_command(*train);
  if (const auto* generate = std::get_if<GenerateRequest>(&command))
    return generate_command(*generate);
  if (const auto* demo = std::get_if<DemoOptions>(&command)) return demo_command(*demo);
  if (const auto* view = std::get_if<viz::ViewOptions>(&command)) return view_command(*view);
  return info_command();
}

int guarded_main(const std::vector<std::string>& arguments) {
  try {
    become_gpu_program(arguments);
    if (asks_for_processes(arguments)) return process_command(arguments);
    return dispatch(parse_command_line(arguments));
  } catch (const std::exception& error) {
    const Ending ending = ending_of(error);
    print_error(ending.line);
    return ending.status;
  }
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  // Make a write beyond the file size limit fail like any other instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return ringscope::guarded_main(std::vector<std::string>(argv + 1, argv + argc));
}
