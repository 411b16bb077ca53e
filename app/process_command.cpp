#include "app/process_command.h"

#include <cstdlib>
#include <utility>

#ifdef RINGSCOPE_HAS_MPI

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <variant>

#include "app/backend.h"
#include "app/ending.h"
#include "app/inputs.h"
#include "app/job_terms.h"
#include "app/memory.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/run_frame.h"
#include "app/terminal.h"
#include "core/mpi/mpi_session.h"
#include "core/mpi/run_on_mpi.h"
#include "core/process/supervisor.h"

namespace ringscope {
namespace {

constexpr double kSettleSeconds = 1;  // for rank 0 to decide which failure came first
constexpr double kSpeechSeconds = 5;  // for the speaker to write what was recorded

// The value of `flag` as far as it can be told before the command line is read; "" for none.
std::string value_of(const std::string& flag, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == flag && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
  }
  return "";
}

// What the ranks wait for each other before they have read their command lines. What is wrong with
// it is said later.
double timeout_of(const std::vector<std::string>& arguments) {
  const std::string text = value_of("--timeout", arguments);
  double seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && seconds > 0 && seconds < 1e9 ? seconds : RingConfig{}.timeout_s;
}

// One rank's part in a job, from its command line to the end of the run.
class RankOfJob {
 public:
  RankOfJob(MpiSession& session, const std::vector<std::string>& arguments)
      : session_(session), line_(session.lifeline()), arguments_(arguments) {}

  // Returns when no rank needs another one any more, with the exit status where that is known
  // already; without one it is for rank 0 to conclude(). Does not return from a run that failed.
  std::optional<int> take_part() {
    try {
      return run();
    } catch (const InputError& error) {
      return end_refused(kBadInput, error.what());
    } catch (const std::exception& error) {
      end_failed(error);
    }
  }

  // Rank 0, when the others have left. Throws InputError, RunError.
  int conclude() const {
    AttentionInputs generated;
    if (options().verify && !facts_.is_scattered)
      generated = whole_inputs(*generated_rows(options(), facts_.shape, facts_.text), facts_.shape);
    return ringscope::conclude({options(), config_, plan_, run_, loaded_.remarks.empty()},
                               facts_.is_scattered ? loaded_.tensors : generated,
                               one_rank_runner_of(options().backend, options().cuda));
  }

 private:
  const RunOptions& options() const { return std::get<RunOptions>(*command_); }
  bool is_first() const { return session_.rank() == 0; }

  std::optional<int> run() {
    const std::string bad_input = prepare();
    try {
      agree(line_, command_ ? terms_of(*command_) : Terms(), bad_input);
    } catch (const RunError& difference) {
      if (line_.failure()) throw;
      return end_refused(kFailed, difference.what());
    }
    if (const auto* help = std::get_if<Help>(&*command_)) {
      if (is_first()) print_out(help->text);
      session_.finish();
      return 0;
    }
    for (const std::string& remark : loaded_.remarks) print_error(remark);
    facts_ = job_facts_from(line_.broadcast(is_first() ? to_bytes(facts_) : ""));
    config_ = config_of(options(), facts_.shape, session_.world_size());
    if (!is_first()) require_process_memory(config_, memory_use());
    agree(line_, {});  // now everybody knows that all have the memory for it
    run_ = run_rank();
    session_.finish();
    if (is_first()) return std::nullopt;
    return 0;
  }

  // Everything that a rank can do before it has heard of the others. Returns what is wrong with its
  // input, or "". Throws RunError.
  std::string prepare() {
    try {
      command_ = parse_command_line(arguments_);
      if (!std::holds_alternative<RunOptions>(*command_)) return "";
      check_world_size();
      if (is_first()) prepare_inputs();
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  void check_world_size() const {
    const int here = session_.world_size(), wanted = options().world_size.value_or(here);
    if (wanted == here) return;
    throw InputError(fmt::format(
        "--world-size: {} given to {}; accepted: {}, or mpirun -np {}", wanted,
        here == 1 ? "one process alone" : fmt::format("{} processes", here), here, wanted));
  }

  void prepare_inputs() {
    plan_ = plan_inputs(options());
    facts_ = {.shape = plan_.shape,
              .is_scattered = !can_be_generated(options()),
              .gathers_outputs = wants_outputs(options()),
              .text = ""};
    config_ = config_of(options(), plan_.shape, session_.world_size());
    check_problem(options(), config_, plan_);
    require_process_memory(config_, memory_use());
    if (facts_.is_scattered) {
      loaded_ = load_inputs(options(), plan_);
    } else {
      facts_.text = text_of(options(), plan_);
    }
  }

  ProcessMemoryUse memory_use() const {
    return {.rank = session_.rank(),
            .reads_inputs = is_first() && facts_.is_scattered,
            .makes_text = options().text.has_value() && !facts_.is_scattered,
            .gathers_outputs = is_first() && facts_.gathers_outputs,
            .verify = is_first() && options().verify,
            .dout_given = options().dout.has_value(),
            .ranks_elsewhere = is_on_gpus(options().backend)};
  }

  RingRun run_rank() {
    ProcessInputs inputs{.is_scattered = facts_.is_scattered};
    std::unique_ptr<RowSource> rows;
    if (!facts_.is_scattered) {
      rows = generated_rows(options(), facts_.shape, facts_.text);
      inputs.generated = rows.get();
    } else if (is_first()) {
      rows = std::make_unique<WholeInputs>(facts_.shape, loaded_.tensors);
      inputs.at_rank_0 = rows.get();
    }
    std::optional<ProgressBar> bar;
    if (is_first()) bar.emplace("attention");
    return process_runner_of(options().backend, options().cuda)(
        session_, config_, inputs, facts_.gathers_outputs, bar ? bar->callback() : Progress());
  }

  // Nothing has begun, and everybody knows why not, so that they part in good order.
  int end_refused(int status, const std::string& why) {
    try {
      if (is_first()) print_error(why);
      line_.broadcast("");  // it has been said: now a launcher may end the others
      session_.finish();
      return status;
    } catch (const std::exception& error) {
      end_failed(error);
    }
  }

  // One rank says what happened and writes what was recorded; the others stay until that is done,
  // because a launcher ends all when one ends like this. MPI is not called any more.
  [[noreturn]] void end_failed(const std::exception& exception) {
    const RunError mine = as_run_error(exception);
    line_.fail(mine);  // the others may know already
    RunError failure = line_.wait_for_failure(kSettleSeconds).value_or(mine);
    if (line_.is_speaker()) {
      const auto* recorded = dynamic_cast<const RunFailure*>(&exception);
      if (recorded != nullptr)
        failure = with_trace_written(options(), failure, recorded->recording());
      print_error(ending_of(failure).line);
    }
    line_.leave_after_failure(kSpeechSeconds);
    std::fflush(nullptr);
    ::_exit(kFailed);
  }

  MpiSession& session_;
  Lifeline& line_;
  const std::vector<std::string>& arguments_;
  std::optional<Command> command_;
  JobFacts facts_;
  RingConfig config_;
  RingRun run_;
  // Rank 0's alone.
  InputPlan plan_;
  LoadedInputs loaded_;
};

int work(const std::vector<std::string>& arguments, SharedFlag& others_watch) {
  try {
    MpiSession session(timeout_of(arguments));
    others_watch = true;
    RankOfJob rank(session, arguments);
    const std::optional<int> status = rank.take_part();
    return status ? *status : rank.conclude();
  } catch (const std::exception& error) {
    const Ending ending = ending_of(error);
    print_error(ending.line);
    return ending.status;
  }
}

}  // namespace

bool asks_for_processes(const std::vector<std::string>& arguments) {
  const auto given = [&](const char* flag) {
    return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
  };
  if (given("--help") || given("-h")) return launched_by_mpi();
  if (arguments.empty() || arguments.front() != "run") return false;
  const std::string backend = value_of("--backend", arguments);
  return backend == name_of(Backend::mpi) ||
         (backend == name_of(Backend::nccl) && launched_by_mpi());
}

int process_command(const std::vector<std::string>& arguments) {
  return supervised(
      [&](SharedFlag& others_watch) { return work(arguments, others_watch); },
      [](int signal) {
        const RunError lost(
            fmt::format("its process ended by signal {} before the ranks had met", signal),
            launched_rank());
        print_error(ending_of(lost).line);
      });
}

}  // namespace ringscope

#else

#include "core/base/error.h"

namespace ringscope {

bool asks_for_processes(const std::vector<std::string>&) { return false; }

int process_command(const std::vector<std::string>&) {
  throw RunError("this build has no MPI");  // nobody asks
}

}  // namespace ringscope

#endif

namespace ringscope {

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

}  // namespace ringscope
