// The program: reads the command line, runs one command, and turns what went wrong into an exit
// status.
//
//   0  good
//   1  the numbers are wrong (--verify)
//   2  bad usage or bad input: one line on stderr names the flag or file, the value and what is
//      accepted
//   3  something failed while running: one line on stderr
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "app/demo_command.h"
#include "app/info_command.h"
#include "app/options.h"
#include "app/plan_command.h"
#include "app/run_command.h"
#include "app/terminal.h"
#include "app/view_command.h"
#include "core/base/error.h"

namespace ringscope {
namespace {

int dispatch(const Command& command) {
  if (const auto* help = std::get_if<Help>(&command)) {
    print_out(help->text);
    return 0;
  }
  if (const auto* plan = std::get_if<PlanOptions>(&command)) return plan_command(*plan);
  if (const auto* run = std::get_if<RunOptions>(&command)) return run_command(*run);
  if (const auto* demo = std::get_if<DemoOptions>(&command)) return demo_command(*demo);
  if (const auto* view = std::get_if<viz::ViewOptions>(&command)) return view_command(*view);
  return info_command();
}

// "rank 2, step 1: ", as far as known.
std::string where(const RunError& error) {
  if (error.rank() < 0) return "";
  const std::string rank = "rank " + std::to_string(error.rank());
  return error.step() < 0 ? rank + ": " : rank + ", step " + std::to_string(error.step()) + ": ";
}

int guarded_main(const std::vector<std::string>& arguments) {
  try {
    return dispatch(parse_command_line(arguments));
  } catch (const InputError& error) {
    print_error(error.what());
    return 2;
  } catch (const RunError& error) {
    print_error(where(error) + error.what());
    return 3;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; give smaller sizes");
    return 3;
  } catch (const std::exception& error) {
    print_error(error.what());
    return 3;
  }
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  // A write beyond the file size limit fails like any other, instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return ringscope::guarded_main(std::vector<std::string>(argv + 1, argv + argc));
}
