#include "app/job/job.h"

#include <cstdlib>
#include <utility>

#include "app/command_line/commands.h"
#include "app/report/terminal.h"

#ifdef RINGSCOPE_HAS_MPI

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/text.h"
#include "core/processes/mpi/mpi_session.h"
#include "core/processes/supervision/supervisor.h"

namespace ringscope {
namespace {

bool works_in_processes(std::string_view command) {
  return command == "run" || command == "train" || command == "generate";
}

// Return how long ranks wait for each other before they have read their command lines. A bad
// --timeout is reported later.
double timeout_of(const std::vector<std::string>& arguments) {
  const double seconds =
      parse_number<double>(value_before_reading("--timeout", arguments)).value_or(0);
  return seconds > 0 && seconds < 1e9 ? seconds : Problem{}.timeout_s;
}

// Return what `words` have from the word `at` on that says something by itself: a flag with its value.
std::string shown_from(const std::vector<std::string>& words, std::size_t at) {
  if (at > 0 && words[at - 1].starts_with("--")) --at;
  if (at + 1 >= words.size()) return at < words.size() ? words[at] : "nothing";
  return words[at].starts_with("--") ? words[at] + " " + words[at + 1] : words[at];
}

// Throw RunError unless this rank was started as rank 0 was.
void require_same_start(MpiSession& session, const std::vector<std::string>& arguments) {
  std::vector<std::string> mine = {version_text()};
  mine.insert(mine.end(), arguments.begin(), arguments.end());
  constexpr char kEnd = '\0';  // no argument holds one
  std::string joined;
  for (const std::string& word : mine) joined += word + kEnd;
  const std::string of_0 = session.broadcast(joined);
  if (of_0 == joined) return;
  std::vector<std::string> theirs;
  for_each_part(of_0, kEnd, [&](std::string_view word) { theirs.emplace_back(word); });
  const auto differs = std::mismatch(mine.begin(), mine.end(), theirs.begin(), theirs.end());
  const auto at = static_cast<std::size_t>(differs.first - mine.begin());
  throw RunError(fmt::format("rank {} has {}, rank 0 has {}", session.rank(), shown_from(mine, at),
                             shown_from(theirs, at)));
}

// Take one rank through its job, from its command line to its end, and return its exit status. What
// goes wrong ends all ranks. `job`, while it is there, is what the lifeline's thread may ask for what
// to leave behind.
int take_part(MpiSession& session, const std::vector<std::string>& arguments,
              std::atomic<Job*>& job_for_others) {
  std::unique_ptr<Job> job;  // refers to the command
  std::optional<Command> command;
  try {
    session.lifeline().doing("at its start");
    command = parse_command_line(arguments);
    require_same_start(session, arguments);
    if (command->job) job = command->job(&session);
    job_for_others = job.get();
    RankPulse& pulse = session.lifeline().pulse();
    if (job != nullptr) {
      const ShownOutsideWork reads(pulse);  // from a disk, which may be slow
      job->prepare();
    }
    if (job != nullptr) job->run();
    session.finalize();
    int status = 0;
    if (session.rank() == 0) {
      session.lifeline().doing("verifying and writing");
      const ShownOutsideWork concludes(pulse);
      status = job != nullptr ? job->conclude() : command->run();
    }
    session.finish();
    return status;
  } catch (const std::exception& error) {
    session.lifeline().fail(error);
  }
}

int work(const std::vector<std::string>& arguments, SharedStage& stage) {
  std::atomic<Job*> job = nullptr;
  const auto on_failure = [&](const RunError& error, int status, bool speaks) {
    if (!speaks) return;
    if (status == kBadInput) return print_error(error.what());
    report_error(job != nullptr ? job.load()->leave_behind(error) : error);
  };
  try {
    MpiSession session(timeout_of(arguments), on_failure, &stage);
    return take_part(session, arguments, job);
  } catch (const std::exception& error) {
    return report_error(error);
  }
}

}  // namespace

std::optional<int> Job::rank() const {
  return session_ != nullptr ? std::optional(session_->rank()) : std::nullopt;
}

std::string Job::broadcast(const std::string& of_first) const {
  return session_ != nullptr ? session_->broadcast(of_first) : of_first;
}

int Job::world_size(std::optional<int> wanted, int otherwise) const {
  if (session_ == nullptr) return wanted.value_or(otherwise);
  const int here = session_->world_size();
  if (wanted.value_or(here) == here) return here;
  throw InputError(fmt::format(
      "--world-size: {} given to {}; accepted: {}, or mpirun -np {}", *wanted,
      here == 1 ? "one process alone" : fmt::format("{} processes", here), here, *wanted));
}

bool asks_for_processes(const std::vector<std::string>& arguments) {
  const auto given = [&](const char* flag) {
    return std::ranges::find(arguments, flag) != arguments.end();
  };
  if (given("--help") || given("-h")) return launched_by_mpi();
  if (arguments.empty() || !works_in_processes(arguments.front())) return false;
  const std::string backend = value_before_reading("--backend", arguments);
  return backend == name_of(Backend::mpi) ||
         (backend == name_of(Backend::nccl) && launched_by_mpi());
}

int process_command(const std::vector<std::string>& arguments) {
  const int rank = launched_rank();
  if (launched_by_mpi()) keep_streams_apart();
  return supervised(
      timeout_of(arguments), std::clamp(rank, 0, 10),
      [&](SharedStage& stage) { return work(arguments, stage); },
      [&](const std::string& what) { report_error(RunError(what, rank)); });
}

}  // namespace ringscope

#else

#include "core/base/error.h"

namespace ringscope {

bool asks_for_processes(const std::vector<std::string>&) { return false; }

int process_command(const std::vector<std::string>&) {
  throw RunError("this build has no MPI");  // unreachable, because asks_for_processes() is false
}

std::optional<int> Job::rank() const { return std::nullopt; }
std::string Job::broadcast(const std::string& of_first) const { return of_first; }
int Job::world_size(std::optional<int> wanted, int otherwise) const {
  return wanted.value_or(otherwise);
}

}  // namespace ringscope

#endif

namespace ringscope {
namespace {

// Return a remark for a job whose ranks are all in this process although a launcher has started several
// processes. Only the first process returns it; otherwise return "".
std::string remark_on_processes() {
  for (const auto& [size, rank] : {std::pair{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   {"PMI_SIZE", "PMI_RANK"},
                                   {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const char* const processes = std::getenv(size);
    const char* const mine = std::getenv(rank);
    if (processes == nullptr || mine == nullptr) continue;
    if (std::atoi(processes) < 2 || std::atoi(mine) != 0) return "";
    return std::string("each of ") + processes +
           " processes runs the whole ring by itself; --backend mpi makes a rank of each";
  }
  return "";
}

}  // namespace

int carry_out_here(Job& job) {
  job.prepare();
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);
  job.run();
  return job.conclude();
}

}  // namespace ringscope
