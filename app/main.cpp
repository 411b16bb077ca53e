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
#include <vector>

#include "app/command_line/commands.h"
#include "app/job/job.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"

namespace ringscope {
namespace {

int guarded_main(std::vector<std::string> arguments) {
  try {
    require_stack();
    become_other_program(arguments);
    if (asks_for_processes(arguments)) return process_command(arguments);
    return parse_command_line(arguments).run();
  } catch (const std::exception& error) {
    return report_error(error);
  }
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  // Make a write beyond the file size limit fail like any other instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return ringscope::guarded_main(std::vector<std::string>(argv + 1, argv + argc));
}
