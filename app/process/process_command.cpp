#include "app/process/process_command.h"

#include <cstdlib>
#include <utility>

#ifdef RINGSCOPE_HAS_MPI

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <variant>

#include "app/command_line/flags.h"
#include "app/report/terminal.h"
#include "core/base/text.h"
#include "core/process/agreement.h"
#include "core/process/supervisor.h"

namespace ringscope {
namespace {

constexpr double kSettleSeconds = 1;  // for rank 0 to decide which failure came first
constexpr double kSpeechSeconds = 5;  // for the speaker to write what was recorded

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

// Return null for a command that needs no ranks.
std::unique_ptr<JobPart> part_of(MpiSession& session, const Command& command) {
  if (const auto* run = std::get_if<RunOptions>(&command)) return make_run_part(session, *run);
  if (const auto* train = std::get_if<TrainOptions>(&command))
    return make_train_part(session, *train);
  if (const auto* generate = std::get_if<GenerateRequest>(&command))
    return make_generate_part(session, *generate);
  return nullptr;
}

// Return the value's text, all digits of a number included, so that equal texts are equal values.
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "not given";
}
std::string text_of(bool given) { return given ? "given" : "not given"; }

// Append the terms of `options` to `terms`.
void add_terms(Terms& terms, const Help& help) { terms.emplace_back("--help", help.text); }

void add_terms(Terms& terms, const TrainOptions& train) {
  const Terms settings = texts_of(train.given);
  terms.insert(terms.end(), settings.begin(), settings.end());
  terms.insert(terms.end(), {{"--partition", std::string(name_of(train.ranks.partition))},
                             {"--steps", train.steps ? std::to_string(*train.steps) : "not given"},
                             {"--resume", text_of(train.resume.has_value())},
                             {"--trace", text_of(train.trace.has_value())},
                             {"--trace-step", text_of(train.trace_step)},
                             {"--chunks", std::to_string(train.chunks)},
                             {"--checkpoint", text_of(train.checkpoint.has_value())},
                             {"--checkpoint-every", std::to_string(every(train))},
                             {"--timeout", fmt::format("{}", train.ranks.timeout_s)}});
}

void add_terms(Terms& terms, const GenerateRequest& request) {
  const GenerateOptions& options = request.options;
  terms.insert(terms.end(), {{"command", "generate"},
                             {"--bytes", std::to_string(options.bytes)},
                             {"--temperature", fmt::format("{}", options.sampling.temperature)},
                             {"--seed", std::to_string(options.sampling.seed)},
                             {"--partition", std::string(name_of(request.ranks.partition))},
                             {"--merge", std::string(name_of(options.merge))},
                             {"--timeout", fmt::format("{}", request.ranks.timeout_s)}});
}

void add_terms(Terms& terms, const RunOptions& run) {
  const Problem& job = run.job;
  terms.insert(terms.end(),
               {{"--backend", std::string(name_of(run.backend))},
                {"input", run.q      ? ".npy files"
                          : run.text ? "--text"
                                     : "--random"},
                {"--seed", std::to_string(run.seed)},
                {"--batch", text_of(run.batch)},
                {"--heads", text_of(run.heads)},
                {"--heads-kv", text_of(run.heads_kv)},
                {"--seqlen", text_of(run.seqlen)},
                {"--head-dim", text_of(run.head_dim)},
                {"--partition", job.partition.identity()},
                {"--speeds", fmt::format("{}", fmt::join(job.speeds, ","))},
                {"--scheme", job.scheme_name()},
                {"--kv-buffers", std::to_string(job.kv_buffers)},
                {"--mask", job.mask.identity()},
                {"--dtype", std::string(name_of(job.dtype))},
                {"--scale", text_of(job.softmax_scale)},
                {"--backward", text_of(job.backward)},
                {"--kernel", std::to_string(run.cuda.forward_kernel)},
                {"--backward-kernel", std::to_string(run.cuda.backward_kernel)},
                {"--timeout", fmt::format("{}", job.timeout_s)},
                {"--inject", job.injection ? to_string(*job.injection) : "not given"}});
}

// No ranks work together on other commands.
template <class Options>
void add_terms(Terms&, const Options&) {}

// Return everything that decides the result or who sends what when, by flag. It must be equal on all
// ranks before they begin. What concerns rank 0 alone is left out: files.
Terms terms_of(const Command& command) {
  Terms terms{{"version", version_text()}};
  std::visit([&](const auto& options) { add_terms(terms, options); }, command);
  return terms;
}

// One rank of a job, from its command line to its end.
class RankOfJob {
 public:
  RankOfJob(MpiSession& session, const std::vector<std::string>& arguments)
      : session_(session), line_(session.lifeline()), arguments_(arguments) {}

  // Return when no rank needs another one any more: with the exit status if it is known, or without
  // one if rank 0 must still conclude(). Does not return from work that failed.
  std::optional<int> take_part() {
    try {
      return run();
    } catch (const InputError& error) {
      return end_refused(kBadInput, error.what());
    } catch (const std::exception& error) {
      end_failed(error);
    }
  }

  // Conclude on rank 0 after the others have left. Throw InputError, RunError.
  int conclude() const { return part_->conclude(); }

 private:
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
    part_->run();
    session_.finish();
    if (is_first()) return std::nullopt;
    return 0;
  }

  // Do everything that a rank can do before it knows of the others. Return what is wrong with its
  // input, or "". Throw RunError.
  std::string prepare() {
    try {
      command_ = parse_command_line(arguments_);
      part_ = part_of(session_, *command_);
      if (part_ != nullptr) part_->prepare();
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  // End in good order, because nothing has begun and every rank knows why.
  int end_refused(int status, const std::string& why) {
    try {
      if (is_first()) print_error(why);
      line_.broadcast("");  // the error is printed, so a launcher may end the others now
      session_.finish();
      return status;
    } catch (const std::exception& error) {
      end_failed(error);
    }
  }

  // Let one rank print the error and write what there is. The others stay until that is done,
  // because a launcher ends all ranks when one ends like this. MPI is not called any more.
  [[noreturn]] void end_failed(const std::exception& exception) {
    const RunError mine = as_run_error(exception);
    line_.fail(mine);  // the others may know already
    RunError failure = line_.wait_for_failure(kSettleSeconds).value_or(mine);
    if (line_.is_speaker()) {
      if (part_ != nullptr) failure = part_->leave_behind(failure, exception);
      report_error(failure);
    }
    line_.leave_after_failure(kSpeechSeconds);
    std::fflush(nullptr);
    ::_exit(kFailed);
  }

  MpiSession& session_;
  Lifeline& line_;
  const std::vector<std::string>& arguments_;
  std::optional<Command> command_;
  std::unique_ptr<JobPart> part_;  // of the command; refers to it
};

int work(const std::vector<std::string>& arguments, SharedFlag& others_watch) {
  try {
    MpiSession session(timeout_of(arguments));
    others_watch = true;
    RankOfJob rank(session, arguments);
    const std::optional<int> status = rank.take_part();
    return status ? *status : rank.conclude();
  } catch (const std::exception& error) {
    // If rank 0 is dead, its parent says so, and the launcher ends the others meanwhile. Otherwise
    // the first that speaks is the only one.
    const int rank = launched_rank();
    if (rank > 0 && dynamic_cast<const InputError*>(&error) == nullptr)
      std::this_thread::sleep_for(std::chrono::milliseconds(4000 + 200 * std::min(rank, 100)));
    return report_error(error);
  }
}

// In native byte order, because all ranks run the same program.
struct FixedFacts {
  AttentionShape shape;
  Index is_scattered, gathers_outputs;
};

}  // namespace

std::string to_bytes(const JobFacts& facts) {
  const FixedFacts fixed{facts.shape, facts.is_scattered, facts.gathers_outputs};
  std::string bytes(sizeof fixed, '\0');
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  return bytes + facts.text;
}

JobFacts job_facts_from(const std::string& bytes) {
  FixedFacts fixed{};
  if (bytes.size() < sizeof fixed)
    throw RunError("rank 0 said something else than its inputs' sizes", 0);
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  return {fixed.shape, fixed.is_scattered != 0, fixed.gathers_outputs != 0,
          bytes.substr(sizeof fixed)};
}

void require_world_size(const MpiSession& session, std::optional<int> wanted) {
  const int here = session.world_size();
  if (wanted.value_or(here) == here) return;
  throw InputError(fmt::format(
      "--world-size: {} given to {}; accepted: {}, or mpirun -np {}", *wanted,
      here == 1 ? "one process alone" : fmt::format("{} processes", here), here, *wanted));
}

bool asks_for_processes(const std::vector<std::string>& arguments) {
  const auto given = [&](const char* flag) {
    return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
  };
  if (given("--help") || given("-h")) return launched_by_mpi();
  if (arguments.empty() || !works_in_processes(arguments.front())) return false;
  const std::string backend = value_before_reading("--backend", arguments);
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
        report_error(lost);
      });
}

}  // namespace ringscope

#else

#include "core/base/error.h"

namespace ringscope {

bool asks_for_processes(const std::vector<std::string>&) { return false; }

int process_command(const std::vector<std::string>&) {
  throw RunError("this build has no MPI");  // unreachable, because asks_for_processes() is false
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
