// `ringscope train` trains a small language model on a text, with ring attention inside: its flags, what
// they and the files that they name say about the run, and the run itself.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/command_line/output_places.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/train/train.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/run/generated_rows.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {

namespace {

// Return the settings of a run that resumes from `start`, or begins if `start` is null. Throw
// InputError naming the flag, its value and what is accepted, also where a size differs from that
// of `start`, which came from the file `resume`.
TrainingSettings settings_of(const TrainOptions& options, const Checkpoint* start) {
  TrainingSettings settings = start == nullptr ? TrainingSettings() : start->settings;
  for (const auto& [name, text] : options.given) {
    const auto kept = start == nullptr ? "" : text_of_member(settings.shape, name);
    read_member(settings, name, text, "--" + name);
    if (!kept.empty() && text_of_member(settings.shape, name) != kept)
      throw InputError(
          fmt::format("--{}: {} given, the checkpoint '{}' has {}; accepted: {}, or no --resume",
                      name, text, *options.resume, kept, kept));
  }
  if (start == nullptr && !options.given.contains("heads-kv"))
    settings.shape.num_heads_kv = settings.shape.num_heads;
  for_flag("--mask '" + settings.mask + "':",
           [&] { MaskSpec::parse(settings.mask).for_seqlen(settings.seqlen); });
  const ModelShape& shape = settings.shape;
  validate_for_flags(
      {settings.batch, shape.num_heads, shape.num_heads_kv, settings.seqlen, shape.head_dim},
      [&] { validate(settings); });
  return settings;
}

// Fill in what follows from options and start.
void plan_training(const TrainOptions& options, int world_size, TrainSetup& setup) {
  const Checkpoint* const start = setup.start ? &*setup.start : nullptr;
  TrainingPlan& plan = setup.plan;
  plan.settings = settings_of(options, start);
  plan.deal = {options.ranks.partition, world_size, options.chunks};
  plan.start = start;
  plan.steps = options.steps;
  if (plan.steps < plan.steps_before())
    throw InputError(fmt::format(
        "--steps: {} given, the checkpoint '{}' has done {}; accepted: {} or more, in all",
        plan.steps, *options.resume, plan.steps_before(), plan.steps_before()));
  if (options.trace) {
    if (plan.steps == plan.steps_before())
      throw InputError(
          fmt::format("--trace '{}': no step is left to record; accepted: --steps above {}",
                      *options.trace, plan.steps_before()));
    plan.recorded_step = options.trace_step.value_or(plan.steps);
  }
  with_dashes([&] { validate(plan); });
}

void require_length(const TrainOptions& options, const TrainingSettings& settings, Index length) {
  if (length > settings.seqlen) return;
  throw InputError(
      fmt::format("--text '{}': {} byte{} there; accepted: {} or more, one above the seqlen",
                  options.text, length, length == 1 ? "" : "s", settings.seqlen + 1));
}

void check_places(const TrainOptions& options) {
  std::vector<OutputPlace> places{{"--loss-csv", options.loss_csv}, {"--trace", options.trace}};
  // A run may write its checkpoint to the file that it resumes from.
  if (options.resume) check_output_places(places, {*options.resume}, options.json);
  places.push_back({"--checkpoint", options.checkpoint});
  check_output_places(places, {options.text}, options.json);
}

// Read the files that `options` name, for `world_size` ranks. Throw InputError naming flag or file,
// the value and what is accepted.
void set_up(const TrainOptions& options, int world_size, TrainSetup& setup) {
  if (options.resume)
    setup.start = for_flag("--resume", [&] { return load_checkpoint(*options.resume); });
  plan_training(options, world_size, setup);
  const Index length = for_flag("--text", [&] { return text_length(options.text); });
  require_length(options, setup.plan.settings, length);
  check_places(options);
  setup.text = for_flag("--text", [&] { return read_text(options.text, length); });
  for_flag("--text '" + options.text + "':",
           [&] { require_known_bytes(setup.text, setup.plan.settings.shape.vocab); });
}

// Set up from what another process has read. `checkpoint` is to_bytes() of --resume's, or "". Throw
// as set_up does.
void set_up_from(const TrainOptions& options, int world_size, std::string text,
                 const std::string& checkpoint, TrainSetup& setup) {
  if (!checkpoint.empty()) setup.start = checkpoint_from(checkpoint);
  setup.text = std::move(text);
  plan_training(options, world_size, setup);
  require_length(options, setup.plan.settings, static_cast<Index>(setup.text.size()));
}

// Throw RunError naming both numbers when `ranks` of the plan's ranks in this process and what goes
// with them take more memory than there is.
void require_training_memory(const TrainSetup& setup, int ranks) {
  const TrainingPlan& plan = setup.plan;
  const double weights = static_cast<double>(ModelWeights(plan.settings.shape).layout.size());
  // Count the checkpoint that the run began with, and three copies while one is written.
  const double checkpoints = 12 * weights * (plan.start == nullptr ? 3 : 4);
  require_bytes(ranks * total_bytes(training_memory(plan.settings, plan.deal)) + checkpoints +
                static_cast<double>(setup.text.size()));
}

// Write the files and print the report, wherever the ranks were. `seconds` lasts from the first step
// to the last. Try all of them, then throw RunError for the first that failed.
void conclude_training(const TrainOptions& options, const TrainSetup& setup,
                       const TrainJournal& journal, const FinishedTraining& finished,
                       double seconds) {
  std::optional<RunError> first_failure;
  const auto attempt = [&](const auto& f) {
    try {
      f();
    } catch (const std::exception& error) {
      if (!first_failure) first_failure = as_run_error(error);
    }
  };
  attempt([&] { journal.write_losses(); });
  attempt([&] { journal.write_end(finished.end); });
  if (options.trace)
    attempt([&] {
      for_flag("--trace", [&] { write_chrome_trace(*options.trace, *finished.recording); });
    });
  const TrainReport report{options, setup, finished, journal.losses(), seconds};
  if (options.loss_csv != "/dev/stdout")
    attempt([&] { print_out(options.json ? train_json(report) : train_text(report)); });
  if (first_failure) throw *first_failure;
}

// Rank 0 reads text and checkpoint and broadcasts them.
class TrainJob : public Job {
 public:
  TrainJob(MpiSession* session, const TrainOptions& options) : Job(session), options_(options) {}

  void prepare() override {
    ranks_ = world_size(options_.ranks.world_size, kDefaultTrainingRanks);
    if (!is_first()) return;
    set_up(options_, ranks_, setup_);
    require_training_memory(setup_, ranks_here());
    journal_.emplace(options_, setup_);
  }

  void run() override {
    std::string text = broadcast(is_first() ? setup_.text : "");
    const std::string checkpoint =
        broadcast(rank() && is_first() && setup_.start ? to_bytes(*setup_.start) : "");
    if (!is_first()) {
      // This can't throw InputError, because rank 0 has accepted the same.
      set_up_from(options_, ranks_, std::move(text), checkpoint, setup_);
      require_training_memory(setup_, ranks_here());
    }
    const std::int64_t begin_ns = monotonic_ns();
    std::optional<ProgressBar> bar;
    AfterStep after_step;
    if (is_first()) {
      bar.emplace("training");
      step_under_way_ = setup_.plan.steps_before() + 1;
      after_step = [&](const StepReport& report, const TrainingRank& rank_0) {
        const std::lock_guard lock(journal_mutex_);
        journal_->note(report, rank_0);
        const auto done = static_cast<double>(report.step - setup_.plan.steps_before());
        const Index all = setup_.plan.steps - setup_.plan.steps_before();
        bar->update(done / static_cast<double>(all));
        step_under_way_ = report.step + 1;
      };
    }
    finished_ = train(after_step);
    step_under_way_ = 0;
    seconds_ = seconds_since(begin_ns);
  }

  int conclude() override {
    conclude_training(options_, setup_, *journal_, finished_, seconds_);
    return 0;
  }

  RunError leave_behind(const RunError& failure) override {
    const Index step = step_under_way_;
    if (step == 0) return failure;
    const RunError named(fmt::format("{}; in training step {}", failure.what(), step),
                         failure.rank(), failure.step());
    // A journal that is written to a disk that hangs must not hold up the end.
    const std::unique_lock lock(journal_mutex_, std::chrono::seconds(1));
    return lock ? journal_->close_failed(named) : named;
  }

 private:
  int ranks_here() const { return rank() ? 1 : ranks_; }

  FinishedTraining train(const AfterStep& after_step) {
#ifdef RINGSCOPE_HAS_MPI
    if (rank()) return train_on_mpi(*session_, setup_.plan, setup_.text, after_step);
#endif
    try {
      return train_on_threads(setup_.plan, setup_.text, after_step);
    } catch (const std::exception& error) {
      throw journal_->close_failed(as_run_error(error));
    }
  }

  const TrainOptions& options_;
  int ranks_ = 0;
  TrainSetup setup_;
  FinishedTraining finished_;
  double seconds_ = 0;
  std::optional<TrainJournal> journal_;    // only on rank 0
  std::atomic<Index> step_under_way_ = 0;  // likewise, while it trains
  std::timed_mutex journal_mutex_;
};

}  // namespace

std::unique_ptr<Job> job_of(MpiSession* session, const TrainOptions& options) {
  return std::make_unique<TrainJob>(session, options);
}

Finish declare_train(CommandFlags& flags) {
  const auto train = std::make_shared<TrainOptions>();
  flags.path("--text", train->text, "what to learn: each byte of a file is a token");
  flags.require("--text");
  flags.integer("--steps", train->steps,
                fmt::format("in all, those of --resume included ({})", train->steps), 0,
                std::numeric_limits<int>::max(), "K");
  add_ranks(flags, train->ranks, kDefaultTrainingRanks, "positions");
  const auto settings = std::make_shared<TrainingSettings>();  // read to be checked
  flags.rows(*settings);
  flags.count(
      "--chunks", train->chunks,
      "pieces of a rank's rows in which the MLP and the logits are computed, one by one (1)");

  flags.path("--loss-csv", train->loss_csv,
             "write the loss of every step, CSV: step,loss (-: to stdout, instead of the text)");
  flags.path("--checkpoint", train->checkpoint, "write the model, and all that is needed to go on");
  flags.integer("--checkpoint-every", train->checkpoint_every, "steps; and at the end (100)")
      .needs("--checkpoint FILE");
  flags.path("--resume", train->resume,
             "go on from a checkpoint, with its settings but for those that are given");
  flags.path("--trace", train->trace, "write the recording of one step's attention");
  flags.integer("--trace-step", train->trace_step, "which (the last)").needs("--trace FILE");
  add_timeout(flags, train->ranks);
  flags.flag("--json", train->json, "print the summary as one JSON object");
  return [train, settings, &flags] {
    describe(*settings, [&](const MemberRow& row, const auto& member) {
      const std::string name(row.name);
      if (flags.given("--" + name)) train->given[name] = text_of(member);
    });
    if (train->loss_csv == "-") train->loss_csv = "/dev/stdout";
    check_ranks(train->ranks);
    return *train;
  };
}

}  // namespace ringscope
