// `ringscope train` trains a small language model on a text, with ring attention inside: its flags, what
// they and the files that they name say about the run, the run itself, its results, and the files that
// it writes while it goes on.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/threads/generated_rows.h"
#include "core/trace/chrome_trace.h"
#include "core/training/training.h"

namespace ringscope {

inline constexpr Range kModelSizes = {1, 0x7fffffff};

// The sizes of a model, which a checkpoint keeps, and what else people set of its training.
template <class S, class F>
requires kIs<S, ModelShape>
void describe(S& shape, F&& row) {
  row(MemberRow("layers", "N", "of the model ({})").in(kModelSizes), shape.layers);
  row(MemberRow("width", "N", "values a row between the layers ({})").in(kModelSizes), shape.width);
  row(MemberRow("heads", "N", "query heads ({})").in(kModelSizes), shape.num_heads);
  row(MemberRow("heads-kv", "N", "key and value heads, a divisor of the heads (as many)")
          .in(kModelSizes),
      shape.num_heads_kv);
  row(MemberRow("head-dim", "N", "values per head, an even number ({})").in(kModelSizes),
      shape.head_dim);
  row(MemberRow("hidden", "N", "values a row inside the MLP ({})").in(kModelSizes), shape.hidden);
}
template <class S, class F>
requires kIs<S, TrainingSettings>
void describe(S& settings, F&& row) {
  describe(settings.shape, row);
  row(MemberRow("batch", "N", "sequences a step ({})").in(kModelSizes), settings.batch);
  row(MemberRow("seqlen", "N", "bytes of each ({})").in(kModelSizes), settings.seqlen);
  row(MemberRow("mask", "MASK", kMaskHelp), settings.mask);
  row(MemberRow("lr", "X", "learning rate of AdamW ({})").in(kAbove0), settings.adam.rate);
  row(MemberRow("seed", "N", "of the first weights and of the pieces of text ({})").in({0}),
      settings.seed);
}

struct TrainOptions {
  std::string text;
  // The settings that were given, by row. The others come from the checkpoint that a run resumes,
  // or else from TrainingSettings.
  std::map<std::string, std::string> given;
  Index steps = 400;                // those of the checkpoint included
  Deal deal{.hops = Hops::needed};  // without partition and world_size
  RankOptions ranks;
  std::optional<std::string> loss_csv, checkpoint, resume, trace;
  std::optional<Index> checkpoint_every, trace_step;
  bool json = false;
};

namespace {

constexpr DType kTrainingDTypes[] = {DType::f32, DType::bf16};
constexpr int kDefaultTrainingRanks = 2;

struct TrainSetup {
  TrainingPlan plan;                // refers to start
  std::optional<Checkpoint> start;  // of --resume
  std::string text;

  TrainSetup() = default;
  TrainSetup(const TrainSetup&) = delete;
  TrainSetup& operator=(const TrainSetup&) = delete;
};

struct TrainReport {
  const TrainOptions& options;
  const TrainSetup& setup;
  const FinishedTraining& finished;
  const std::vector<double>& losses;  // of this run's steps
  double seconds = 0;  // from before the first step to after the last, files included
};

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Return a step's share of a sum over steps.
template <class T>
T a_step(T sum, const RankCosts& costs) {
  return costs.steps == 0 ? T(0) : sum / static_cast<T>(costs.steps);
}

std::vector<Fields> rank_fields(const TrainReport& report) {
  std::vector<Fields> ranks;
  for (const RankCosts& costs : report.finished.ranks) {
    const double attention = costs.attention.forward + costs.attention.backward;
    ranks.push_back(
        {{"rank", ranks.size(), "rank", 5},
         {"step_s", a_step(costs.seconds, costs), "step", 12, seconds_text},
         {"attention_forward_s", a_step(costs.attention.forward, costs), "attention forward", 20,
          seconds_text},
         {"attention_backward_s", a_step(costs.attention.backward, costs), "attention backward", 20,
          seconds_text},
         {"attention_share", costs.steps == 0 ? 0 : attention / costs.seconds, "share", 8,
          percent_text},
         {"bytes_sent", a_step(costs.sent_bytes(), costs), "sent a step", 14, bytes_text},
         {"attention_forward_bytes", a_step(costs.forward_bytes, costs)},
         {"attention_backward_bytes", a_step(costs.backward_bytes, costs)},
         {"reduction_bytes", a_step(costs.reduction_bytes, costs)},
         {"tensor_bytes", a_step(costs.tensor_bytes, costs)},
         {"peak_bytes", costs.peak_bytes, "peak", 12, bytes_text}});
  }
  return ranks;
}

double step_seconds(const TrainReport& report) {
  const RankCosts& rank_0 = report.finished.ranks[0];
  return report.losses.empty() ? kNone : a_step(rank_0.seconds, rank_0);
}

double tokens_per_s(const TrainReport& report) {
  const TrainingSettings& settings = report.setup.plan.settings;
  return static_cast<double>(settings.batch * settings.seqlen) / step_seconds(report);
}

// Return the mean of the last losses, enough to smooth out which pieces of text were drawn.
double last_losses(const std::vector<double>& losses) {
  const Index count = min_of(10, std::ssize(losses));
  if (count == 0) return kNone;
  return std::accumulate(losses.end() - count, losses.end(), 0.0) / static_cast<double>(count);
}

Index weights_of(const TrainingPlan& plan) {
  return ModelWeights(plan.settings.shape).layout.size();
}

std::string groups_text(const Deal& deal) {
  if (deal.tensor * deal.data == 1) return "";
  return fmt::format(" ({} tensor x {} context x {} data)", deal.tensor, deal.world_size,
                     deal.data);
}

std::string train_text(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  const ModelShape& s = plan.settings.shape;
  std::string text = fmt::format(
      "{} of {}, {} ({} kv) of {}, MLP of {}: {:.2f} million weights\n"
      "{} on {}{}, {}; {} sequences of {} bytes a step, mask {}{}\n\n"
      "unigram entropy  {:.3f} nats a byte, of {} bytes\n",
      count_text(s.layers, "layer"), s.width, count_text(s.num_heads, "head"), s.num_heads_kv,
      s.head_dim, s.hidden, static_cast<double>(weights_of(plan)) * 1e-6,
      reported(name_of(report.options.ranks.backend)), count_text(plan.deal.ranks(), "rank"),
      groups_text(plan.deal), name_of(plan.deal.partition), plan.settings.batch,
      plan.settings.seqlen, plan.settings.mask,
      plan.deal.dtype == DType::f32 ? "" : fmt::format("; {}", name_of(plan.deal.dtype)),
      unigram_entropy(report.setup.text), report.setup.text.size());
  if (report.losses.empty())
    return text + fmt::format("loss             no step: {} are done\n", plan.steps);
  text += fmt::format(
      "loss             {:.3f} in step {}, {:.3f} in step {}; mean of the last ones: {:.3f}\n"
      "time             {} in all; {} a step, {:.0f} bytes/s\n\n",
      report.losses.front(), plan.steps_before() + 1, report.losses.back(), plan.steps,
      last_losses(report.losses), seconds_text(report.seconds), seconds_text(step_seconds(report)),
      tokens_per_s(report));
  text += table_text(rank_fields(report));
  if (report.options.ranks.backend == Backend::cpu)
    text += shared_cores_text(static_cast<int>(plan.deal.ranks()), "times include");
  return text;
}

std::string train_json(const TrainReport& report) {
  const TrainingPlan& plan = report.setup.plan;
  const std::vector<double>& losses = report.losses;
  Index sent = 0;
  for (const RankCosts& costs : report.finished.ranks) sent += a_step(costs.sent_bytes(), costs);
  return json_line(
      {{"backend", name_of(report.options.ranks.backend)},
       {"world_size", plan.deal.world_size},
       {"tensor", plan.deal.tensor},
       {"data", plan.deal.data},
       {"dtype", name_of(plan.deal.dtype)},
       {"hops", name_of(plan.deal.hops)},
       {"partition", name_of(plan.deal.partition)},
       {"steps", plan.steps},
       {"steps_before", plan.steps_before()},
       {"settings", fields_of(plan.settings) + Fields{{"weights", weights_of(plan)}}},
       {"chunks", plan.deal.chunks},
       {"bill_bytes", static_cast<Index>(total_bytes(training_memory(plan.settings, plan.deal)))},
       {"text_bytes", report.setup.text.size()},
       {"unigram_entropy", unigram_entropy(report.setup.text)},
       {"loss_first", losses.empty() ? kNone : losses.front()},
       {"loss_last", losses.empty() ? kNone : losses.back()},
       {"loss_last_mean", last_losses(losses)},
       {"wall_s", report.seconds},
       {"step_s", step_seconds(report)},
       {"tokens_per_s", tokens_per_s(report)},
       {"bytes_sent", sent},
       {"ranks", rank_fields(report)}});
}

// ---

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
  const MaskSpec mask = for_flag("--mask:", [&] { return MaskSpec::parse(settings.mask); });
  settings.mask = mask.name();
  for_flag("--mask '" + settings.mask + "':", [&] { mask.for_seqlen(settings.seqlen); });
  const ModelShape& shape = settings.shape;
  validate_for_flags(
      {settings.batch, shape.num_heads, shape.num_heads_kv, settings.seqlen, shape.head_dim},
      [&] { validate(settings); });
  return settings;
}

// Fill in what follows from options and start. Ranks that share a sequence are `world_size`.
void plan_training(const TrainOptions& options, int world_size, TrainSetup& setup) {
  const Checkpoint* const start = setup.start ? &*setup.start : nullptr;
  TrainingPlan& plan = setup.plan;
  plan.settings = settings_of(options, start);
  plan.deal = options.deal;
  plan.deal.partition = options.ranks.partition;
  plan.deal.world_size = world_size;
  if (options.checkpoint) plan.checkpoint_every = options.checkpoint_every.value_or(100);
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
  if (const Index seqlen = setup.plan.settings.seqlen; length <= seqlen)
    throw InputError(
        fmt::format("--text '{}': {} byte{} there; accepted: {} or more, one above the seqlen",
                    options.text, length, length == 1 ? "" : "s", seqlen + 1));
  check_places(options);
  setup.text = for_flag("--text", [&] { return read_text(options.text, length); });
  for_flag("--text '" + options.text + "':",
           [&] { require_known_bytes(setup.text, setup.plan.settings.shape.vocab); });
}

// Throw RunError naming both numbers when `ranks` of the plan's ranks in this process and what goes
// with them take more memory than there is.
void require_training_memory(const TrainSetup& setup, Index ranks) {
  const TrainingPlan& plan = setup.plan;
  const double weights = static_cast<double>(ModelWeights(plan.settings.shape).layout.size());
  // Count the checkpoint that the run began with, three copies while one is written, and those of the
  // tensor ranks that put it together.
  const int copies = (plan.start == nullptr ? 3 : 4) + plan.deal.tensor - 1;
  const double checkpoints = 12 * weights * copies;
  require_bytes(static_cast<double>(ranks) *
                    total_bytes(training_memory(plan.settings, plan.deal)) +
                checkpoints + static_cast<double>(setup.text.size()));
}

// Rank 0 reads text and checkpoint and broadcasts them.
class TrainJob : public Job {
 public:
  TrainJob(MpiSession* session, const TrainOptions& options) : Job(session), options_(options) {}

  void prepare() override {
    ranks_ = context_ranks();
    if (!is_first()) return;
    set_up(options_, ranks_, setup_);
    require_training_memory(setup_, ranks_here());
  }

  void run() override {
    std::string text = broadcast(is_first() ? setup_.text : "");
    const std::string checkpoint =
        broadcast(rank() && is_first() && setup_.start ? to_bytes(*setup_.start) : "");
    if (!is_first()) {
      // This can't throw InputError, because rank 0 has accepted the same.
      if (!checkpoint.empty()) setup_.start = checkpoint_from(checkpoint);
      setup_.text = std::move(text);
      plan_training(options_, ranks_, setup_);
      require_training_memory(setup_, ranks_here());
    }
    const std::int64_t begin_ns = monotonic_ns();
    std::optional<ProgressBar> bar;
    AfterStep after_step;
    if (is_first()) {
      bar.emplace("training");
      step_under_way_ = setup_.plan.steps_before() + 1;
      after_step = [&](const StepReport& report, const TrainingRank& rank_0) {
        const std::lock_guard lock(losses_mutex_);
        note(report, rank_0);
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

  // Write the files and print the report. Try all of them, then throw RunError for the first that
  // failed.
  int conclude() override {
    std::optional<RunError> first_failure;
    const auto attempt = [&](const auto& f) {
      try {
        f();
      } catch (const std::exception& error) {
        if (!first_failure) first_failure = as_run_error(error);
      }
    };
    attempt([&] { write_losses(); });
    attempt([&] { write_end(finished_.end); });
    if (options_.trace)
      attempt([&] {
        for_flag("--trace", [&] { write_chrome_trace(*options_.trace, *finished_.recording); });
      });
    const TrainReport report{options_, setup_, finished_, losses_, seconds_};
    if (options_.loss_csv != "/dev/stdout")
      attempt([&] { print_out(options_.json ? train_json(report) : train_text(report)); });
    if (first_failure) throw *first_failure;
    return 0;
  }

  RunError leave_behind(const RunError& failure) override {
    const Index step = step_under_way_;
    if (step == 0) return failure;
    const RunError named(fmt::format("{}; in training step {}", failure.what(), step),
                         failure.rank(), failure.step());
    // Losses that are written to a disk that hangs must not hold up the end.
    const std::unique_lock lock(losses_mutex_, std::chrono::seconds(1));
    return lock ? close_failed(named) : named;
  }

 private:
  Index ranks_here() const { return rank() ? 1 : setup_.plan.deal.ranks(); }

  // Return how many ranks share a sequence. Of processes, these are as many as the other groups leave.
  int context_ranks() const {
    const std::optional<int> wanted = options_.ranks.world_size;
    const auto [tensor, data] = std::pair(options_.deal.tensor, options_.deal.data);
    const int others = tensor * data;
    if (!rank() || others == 1) return world_size(wanted, kDefaultTrainingRanks);
    const int here = world_size(std::nullopt, 0);
    if (here % others != 0 || wanted.value_or(here / others) != here / others)
      contradiction("--tensor, --data",
                    fmt::format("{} and {} given to {} processes", tensor, data, here),
                    "as many processes as --world-size x --tensor x --data");
    return here / others;
  }

  // Keep the loss of a step, and write a checkpoint if one is due. Throw RunError, as do the next two.
  void note(const StepReport& report, const TrainingRank& rank_0) {
    losses_.push_back(report.loss);
    const Index every = setup_.plan.checkpoint_every;
    if (every == 0 || report.step % every != 0) return;
    write_end(rank_0.checkpoint());
    saved_step_ = report.step;
  }

  // Write a table for other programs, a row per step, with nine digits, which tell all f32 apart.
  // The first row says where they come from, too.
  void write_losses() const {
    if (!options_.loss_csv) return;
    std::string text = "step,loss,version,commit,command,seed,machine,time\n", origin;
    for (const auto& [name, value] : provenance()) origin += "," + csv_field(value);
    Index step = setup_.plan.steps_before();
    for (const double loss : losses_) {
      text += fmt::format("{},{:.9g}{}\n", ++step, loss, origin);
      origin = ",,,,,,";
    }
    for_flag("--loss-csv", [&] { write_file(*options_.loss_csv, text); });
  }

  void write_end(const Checkpoint& end) const {
    if (options_.checkpoint && end.step != saved_step_)
      for_flag("--checkpoint", [&] { save_checkpoint(*options_.checkpoint, end); });
  }

  // Write the losses when the run has failed. Return the failure, whose message also says if they
  // could not be written.
  RunError close_failed(const RunError& failure) const {
    if (losses_.empty()) return failure;  // nothing to lose
    try {
      write_losses();
      return failure;
    } catch (const std::exception& error) {
      return RunError(fmt::format("{}; and its losses are lost: {}", failure.what(), error.what()),
                      failure.rank(), failure.step());
    }
  }

  FinishedTraining train(const AfterStep& after_step) {
#ifdef RINGSCOPE_HAS_MPI
    if (rank()) return train_on_mpi(*session_, setup_.plan, setup_.text, after_step);
#endif
    RankWatch watch;  // a learner's own step may never return
    if (!my_ring_call().empty())
      watch = {options_.ranks.timeout_s,
               [this](const RunError& error) { std::_Exit(report_error(leave_behind(error))); }};
    try {
      return train_on_threads(setup_.plan, setup_.text, after_step, watch);
    } catch (const std::exception& error) {
      throw close_failed(as_run_error(error));
    }
  }

  const TrainOptions& options_;
  int ranks_ = 0;  // of a context group
  TrainSetup setup_;
  FinishedTraining finished_;
  double seconds_ = 0;
  std::vector<double> losses_;             // of this run; only on rank 0, as the next two
  Index saved_step_ = -1;                  // of the last checkpoint
  std::atomic<Index> step_under_way_ = 0;  // while it trains
  std::timed_mutex losses_mutex_;
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
  flags.integer("--tensor", train->deal.tensor,
                "groups of such ranks, each with a part of the heads and of the MLP (1)", 1,
                kMostParts, "T");
  flags.integer("--data", train->deal.data,
                "as many groups again, each with a part of a batch's sequences (1)", 1, kMostParts,
                "D");
  flags.name("--dtype", train->deal.dtype, "f32|bf16",
             "what operands of products and of attention are rounded to; sums, weights and what "
             "AdamW keeps stay f32 (f32)",
             [](const std::string& text) { return parse_name(text, kTrainingDTypes); });
  flags.name("--hops", train->deal.hops, "all|needed",
             "what the ring sends: all rows, or those that a rank further on still needs (needed)",
             [](const std::string& text) { return parse_name(text, kAllHops); });
  flags.count(
      "--chunks", train->deal.chunks,
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
  add_timeout(flags, train->ranks, "mpi or my_ring");
  flags.flag("--json", train->json, "print the summary as one JSON object");
  return [train, settings, &flags] {
    describe(*settings, [&](const MemberRow& row, const auto& member) {
      const std::string name(row.name);
      if (flags.given("--" + name)) train->given[name] = text_of(member);
    });
    if (train->loss_csv == "-") train->loss_csv = "/dev/stdout";
    return *train;
  };
}

}  // namespace ringscope
