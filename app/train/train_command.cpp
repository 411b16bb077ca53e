// `ringscope train` trains a small language model on a text, with ring attention inside: its flags, what
// they and the files that they name say about the run, and the run itself.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/process/process_command.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/run.h"
#include "app/train/train.h"
#include "app/view/view_command.h"
#include "core/base/files.h"
#include "core/model/checkpoint.h"
#include "core/model/generate.h"
#include "core/run/generated_rows.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/recorder.h"

#ifdef RINGSCOPE_HAS_MPI
#include "core/model/training_run.h"
#include "core/process/agreement.h"
#endif

namespace ringscope {

namespace {

struct ShapeFlag {
  const char* name;
  Index ModelShape::*size;
  const char* help;
};

constexpr ShapeFlag kShapeFlags[] = {
    {"--layers", &ModelShape::layers, "of the model"},
    {"--width", &ModelShape::width, "values a row between the layers"},
    {"--heads", &ModelShape::num_heads, "query heads"},
    {"--heads-kv", &ModelShape::num_heads_kv, "key and value heads, a divisor of the heads"},
    {"--head-dim", &ModelShape::head_dim, "values a head, an even number"},
    {"--hidden", &ModelShape::hidden, "values a row inside the MLP"},
};

struct AdamWFlag {
  const char* name;
  double AdamWSettings::*setting;
  Accepted accepted;
  const char* help;
};

constexpr AdamWFlag kAdamWFlags[] = {
    {"--lr", &AdamWSettings::rate, kAbove0, "learning rate of AdamW"},
    {"--beta1", &AdamWSettings::beta1, kBelow1, "what its mean of gradients keeps"},
    {"--beta2", &AdamWSettings::beta2, kBelow1, "what its mean of squares keeps"},
    {"--epsilon", &AdamWSettings::epsilon, kAbove0, "added to the root of that"},
    {"--weight-decay", &AdamWSettings::decay, kFrom0, "of matrices, times the rate"},
    {"--max-grad-norm", &AdamWSettings::longest_gradient, kFrom0,
     "longer gradients are cut to this length; 0: never"},
};

void add_settings(CommandFlags& flags, GivenSettings& given) {
  const TrainingSettings defaults;
  constexpr Index kMost = std::numeric_limits<int>::max();
  for (const ShapeFlag& flag : kShapeFlags)
    flags.integer(flag.name, given.shape[flag.name],
                  flag.size == &ModelShape::num_heads_kv
                      ? fmt::format("{} (as many)", flag.help)
                      : fmt::format("{} ({})", flag.help, defaults.shape.*flag.size),
                  1, kMost);
  flags.integer("--batch", given.batch, fmt::format("sequences a step ({})", defaults.batch));
  flags.integer("--seqlen", given.seqlen, fmt::format("bytes of each ({})", defaults.seqlen));
  add_mask(flags, given.mask, defaults.mask);
  for (const AdamWFlag& flag : kAdamWFlags)
    flags.number(flag.name, given.adamw[flag.name], flag.accepted,
                 fmt::format("{} ({:g})", flag.help, defaults.adam.*flag.setting));
  flags.integer(
      "--warmup-steps", given.warmup_steps,
      fmt::format("over which the rate grows to its value ({})", defaults.adam.warmup_steps), 0,
      kMost);
  flags.integer("--seed", given.seed, "of the first weights and of the pieces of text (0)", 0);
}

void check(const TrainOptions& train) {
  check_ranks(train.ranks);
  require_beside("--checkpoint-every", train.checkpoint_every.has_value(), "--checkpoint FILE",
                 train.checkpoint.has_value());
  require_beside("--trace-step", train.trace_step.has_value(), "--trace FILE",
                 train.trace.has_value());
  if (train.live) {
    check_live(train.trace, train.ranks.backend);
    if (train.trace_step)
      contradiction("--trace-step", "given with --live", "one of them: --live shows every step");
  }
  require_beside("--theme", train.theme.has_value(), "--picture FILE", train.picture.has_value());
  for (const auto& [flag, given] : {std::pair{"--prompt", train.prompt.has_value()},
                                    {"--temperature", train.temperature.has_value()}})
    require_beside(flag, given, "--sample BYTES", train.sample_bytes.has_value());
  if (train.prompt && train.prompt->empty())
    contradiction("--prompt", "'' given", "a byte or more to go on from");
}

// Return the settings of a run that resumes from `start`, or begins if `start` is null. Throw
// InputError naming the flag, its value and what is accepted, also where a size differs from that
// of `start`, which came from the file `resume`.
TrainingSettings settings_of(const GivenSettings& given, const Checkpoint* start,
                             const std::string& resume) {
  TrainingSettings settings = start == nullptr ? TrainingSettings() : start->settings;
  for (const ShapeFlag& flag : kShapeFlags) {
    const std::optional<Index> wanted = given.shape.at(flag.name);
    if (!wanted) continue;
    Index& size = settings.shape.*flag.size;
    if (start != nullptr && *wanted != size)
      throw InputError(
          fmt::format("{}: {} given, the checkpoint '{}' has {}; accepted: {}, or no --resume",
                      flag.name, *wanted, resume, size, size));
    size = *wanted;
  }
  if (start == nullptr && !given.shape.at("--heads-kv"))
    settings.shape.num_heads_kv = settings.shape.num_heads;
  for (const AdamWFlag& flag : kAdamWFlags) {
    double& setting = settings.adam.*flag.setting;
    setting = given.adamw.at(flag.name).value_or(setting);
  }
  settings.adam.warmup_steps = given.warmup_steps.value_or(settings.adam.warmup_steps);
  settings.batch = given.batch.value_or(settings.batch);
  settings.seqlen = given.seqlen.value_or(settings.seqlen);
  if (given.mask) settings.mask = given.mask->name();
  settings.seed = given.seed.value_or(settings.seed);
  for_flag("--mask '" + settings.mask + "':", [&] {
    (given.mask ? *given.mask : MaskSpec::parse(settings.mask)).for_seqlen(settings.seqlen);
  });
  const ModelShape& shape = settings.shape;
  validate_for_flags(
      {settings.batch, shape.num_heads, shape.num_heads_kv, settings.seqlen, shape.head_dim},
      [&] { validate(settings); });
  return settings;
}

constexpr double kDefaultTemperature = 0.8;  // at 1 a small model's rare bytes spoil its words

// Fill in what follows from options and start.
void plan_training(const TrainOptions& options, int world_size, TrainSetup& setup) {
  const Checkpoint* const start = setup.start ? &*setup.start : nullptr;
  TrainingPlan& plan = setup.plan;
  plan.settings = settings_of(options.given, start, options.resume.value_or(""));
  plan.deal = {options.ranks.partition, world_size, options.memory};
  plan.checkpoint_every = options.checkpoint ? every(options) : 0;
  plan.start = start;
  const Index planned = start == nullptr ? 0 : start->planned_steps;
  plan.steps = options.steps.value_or(planned > 0 ? planned : kDefaultSteps);
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
  if (options.live)
    plan.live = [path = *options.trace](const Recording& so_far) {
      write_chrome_trace(path, so_far);
    };
  with_dashes([&] { validate(plan); });
}

void plan_sample(const TrainOptions& options, TrainSetup& setup) {
  const TrainingSettings& settings = setup.plan.settings;
  GenerateOptions& sample = setup.sample.emplace();
  sample.prompt = options.prompt.value_or(sample.prompt);
  sample.bytes = *options.sample_bytes;
  sample.sampling = {options.temperature.value_or(kDefaultTemperature), settings.seed};
  for_flag("--sample:", [&] { validate(Checkpoint{settings, 0, {}, {}}, {}, sample); });
}

void require_length(const TrainOptions& options, const TrainingSettings& settings, Index length) {
  if (length > settings.seqlen) return;
  throw InputError(
      fmt::format("--text '{}': {} byte{} there; accepted: {} or more, one above the seqlen",
                  options.text, length, length == 1 ? "" : "s", settings.seqlen + 1));
}

void check_places(const TrainOptions& options) {
  if (options.picture) require_pictures("--picture", *options.picture, "--loss-csv FILE");
  std::vector<OutputPlace> places{
      {"--loss-csv", options.loss_csv}, {"--picture", options.picture}, {"--trace", options.trace}};
  // A run may write its checkpoint to the file that it resumes from.
  if (options.resume) check_output_places(places, {*options.resume}, options.json);
  places.push_back({"--checkpoint", options.checkpoint});
  check_output_places(places, {options.text}, options.json);
}

// Return true for what can't be found out; opening it will show the error.
bool is_file_or_nothing_yet(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

// Return the losses of the steps before, which a resumed run keeps.
std::vector<StepLoss> losses_before(const TrainOptions& options, Index steps) {
  if (!options.resume || !std::filesystem::exists(*options.loss_csv)) return {};
  std::vector<StepLoss> losses =
      for_flag("--loss-csv", [&] { return read_loss_csv(*options.loss_csv); });
  std::erase_if(losses, [&](const StepLoss& row) { return row.step > steps; });
  return losses;
}

// Read the files that `options` name, for `world_size` ranks. Throw InputError naming flag or file,
// the value and what is accepted.
void set_up(const TrainOptions& options, int world_size, TrainSetup& setup) {
  if (options.resume)
    setup.start = for_flag("--resume", [&] { return load_checkpoint(*options.resume); });
  plan_training(options, world_size, setup);
  if (options.sample_bytes) plan_sample(options, setup);
  const Index length = for_flag("--text", [&] { return text_length(options.text); });
  require_length(options, setup.plan.settings, length);
  check_places(options);
  setup.losses_are_kept = options.loss_csv && is_file_or_nothing_yet(*options.loss_csv);
  if (setup.losses_are_kept) setup.losses = losses_before(options, setup.plan.steps_before());
  setup.text = for_flag("--text", [&] { return read_text(options.text, length); });
  for_flag("--text '" + options.text + "':",
           [&] { require_known_bytes(setup.text, setup.plan.settings.shape.vocab); });
  setup.text_mark = text_mark(setup.text);
  if (setup.start && setup.start->text_mark != 0 && setup.start->text_mark != setup.text_mark)
    print_error(fmt::format("warning: --text '{}' is not the text that '{}' was trained on",
                            options.text, *options.resume));
}

// Set up from what another process has read. `checkpoint` is to_bytes() of --resume's, or "".
// Earlier losses and the sample stay with that process. Throw as set_up does.
void set_up_from(const TrainOptions& options, int world_size, std::string text,
                 const std::string& checkpoint, TrainSetup& setup) {
  if (!checkpoint.empty()) setup.start = checkpoint_from(checkpoint);
  setup.text = std::move(text);
  plan_training(options, world_size, setup);
  require_length(options, setup.plan.settings, static_cast<Index>(setup.text.size()));
}

// Throw RunError naming both numbers when `ranks` of the plan's ranks in this process and what goes
// with them, or the sample after them, take more memory than there is.
void require_training_memory(const TrainSetup& setup, int ranks) {
  const TrainingPlan& plan = setup.plan;
  const double weights = static_cast<double>(ModelWeights(plan.settings.shape).layout.size());
  // Count the checkpoint that the run began with, and three copies while one is written.
  const double checkpoints =
      12 * weights * (plan.start == nullptr ? 3 : 4) +
      (plan.deal.memory.zero_stage > 0 && plan.checkpoint_every > 0 ? 8 * weights : 0);
  const double training = ranks * total_bytes(training_memory(plan.settings, plan.deal));
  double sampling = 0;  // by one rank, after the others have ended
  if (setup.sample) {
    const Partition prompt{plan.deal.partition, static_cast<Index>(setup.sample->prompt.size()), 1};
    sampling = generating_bytes(plan.settings.shape, prompt, setup.sample->bytes, 0);
  }
  require_bytes(std::max(training, sampling) + checkpoints +
                static_cast<double>(setup.text.size()));
}

// Write one curve without gaps: the last steps whose losses are all known.
void write_picture(const TrainSetup& setup, const TrainJournal& journal,
                   const TrainOptions& options) {
  const std::vector<StepLoss>& losses = journal.losses();
  LossCurve curve;
  curve.unigram_entropy = unigram_entropy(setup.text);
  curve.title = model_text(setup.plan);
  for (auto row = losses.rbegin(); row != losses.rend(); ++row) {
    if (!curve.losses.empty() && row->step + 1 != curve.first_step) break;
    curve.losses.push_back(row->loss);
    curve.first_step = row->step;
  }
  std::reverse(curve.losses.begin(), curve.losses.end());
  write_loss_picture(curve, *options.picture, options.theme);
}

Generated sample_of(const TrainSetup& setup, const Checkpoint& model) {
  ProgressBar bar("writing");
  Index done = 0;
  return generate_on_threads(
      model, {setup.plan.deal.partition, 1}, *setup.sample, [&](std::uint8_t) {
        if (const auto progress = bar.callback())
          progress(static_cast<double>(++done) / static_cast<double>(setup.sample->bytes));
      });
}

// Write the files, generate text from the model and print the report, wherever the ranks were.
// `seconds` lasts from the first step to the last. Try all of them, then throw RunError for the
// first that failed.
void conclude_training(const TrainOptions& options, const TrainSetup& setup, TrainJournal& journal,
                       FinishedTraining& finished, double seconds) {
  std::optional<RunError> first_failure;
  const auto attempt = [&](const auto& f) {
    try {
      f();
    } catch (const std::exception& error) {
      if (!first_failure) first_failure = as_run_error(error);
    }
  };
  attempt([&] { journal.close(finished.end); });
  if (options.trace)
    attempt([&] {
      for_flag("--trace", [&] { write_chrome_trace(*options.trace, *finished.recording); });
    });
  if (options.picture)
    attempt([&] { for_flag("--picture", [&] { write_picture(setup, journal, options); }); });
  TrainReport report = make_train_report(options, setup, journal.losses(), finished, seconds);
  // Print the report before a long sample is generated, so that it can be read meanwhile.
  const bool silent = options.loss_csv == "/dev/stdout";
  if (!options.json && !silent) attempt([&] { print_out(train_text(report)); });
  if (setup.sample)
    attempt([&] {
      for_flag("--sample:", [&] { report.sample = sample_of(setup, finished.end).text; });
    });
  if (!silent) attempt([&] { print_out(options.json ? train_json(report) : sample_text(report)); });
  if (first_failure) throw *first_failure;
}

// Return what training calls after each step.
auto on_step(const TrainSetup& setup, TrainJournal& journal, ProgressBar& bar) {
  return [&](const StepReport& report, const TrainingRank& rank_0) {
    journal.note(report, rank_0);
    if (const auto progress = bar.callback()) progress(share_done(setup.plan, report.step));
  };
}

}  // namespace

Finish declare_train(CommandFlags& flags) {
  const auto train = std::make_shared<TrainOptions>();
  flags.path("--text", train->text, "what to learn: each byte of a file is a token");
  flags.require("--text");
  flags.integer("--steps", train->steps,
                fmt::format("in all, those of --resume included ({}, or what the checkpoint's run "
                            "was to do)",
                            kDefaultSteps),
                0, std::numeric_limits<int>::max(), "K");
  add_ranks(flags, train->ranks, kDefaultTrainingRanks, "positions");
  add_settings(flags, train->given);
  add_model_memory(flags, train->memory);
  flags.flag("--shard-optimizer", train->shard_optimizer,
             "each rank keeps AdamW's states of its slice of the weights, as plan --zero 1");

  flags.path(
      "--loss-csv", train->loss_csv,
      "write the loss of every step, CSV: step,loss (a file: also every 100 steps; -: to stdout, "
      "instead of the text)");
  flags.path("--picture", train->picture, "draw it, PNG or SVG");
  add_theme(flags, train->theme);
  flags.path("--checkpoint", train->checkpoint, "write the model, and all that is needed to go on");
  flags.integer("--checkpoint-every", train->checkpoint_every, "steps; and at the end (100)");
  flags.path("--resume", train->resume,
             "go on from a checkpoint, with its settings but for those that are given");
  flags.path("--trace", train->trace, "write the recording of one step's attention");
  flags.integer("--trace-step", train->trace_step, "which (the last)");
  flags.flag("--live", train->live,
             "write the latest step's to --trace a few times a second, so that view can follow");
  flags.integer("--sample", train->sample_bytes, "print so much text of the model at the end", 1,
                kMostGeneratedBytes, "BYTES");
  flags.text("--prompt", "TEXT", train->prompt, "what that text goes on from (a new line)");
  flags.number("--temperature", train->temperature, kFrom0,
               "of its bytes; 0: always the likeliest (0.8)");
  add_timeout(flags, train->ranks);
  flags.flag("--json", train->json, "print the summary as one JSON object");
  return [train] {
    if (train->loss_csv == "-") train->loss_csv = "/dev/stdout";
    train->memory.zero_stage = train->shard_optimizer ? 1 : 0;
    check(*train);
    return *train;
  };
}

std::vector<std::pair<std::string, std::string>> texts_of(const GivenSettings& given) {
  std::vector<std::pair<std::string, std::string>> texts;
  const auto add = [&](const std::string& flag, const auto& value) {
    // fmt prints all digits, so equal texts are equal numbers.
    texts.emplace_back(flag, value ? fmt::format("{}", *value) : "not given");
  };
  add("--batch", given.batch);
  add("--seqlen", given.seqlen);
  add("--mask", given.mask ? std::optional(given.mask->name()) : std::nullopt);
  add("--warmup-steps", given.warmup_steps);
  add("--seed", given.seed);
  for (const ShapeFlag& flag : kShapeFlags) add(flag.name, given.shape.at(flag.name));
  for (const AdamWFlag& flag : kAdamWFlags) add(flag.name, given.adamw.at(flag.name));
  return texts;
}

int carry_out(const TrainOptions& options) {
  const int world_size = options.ranks.world_size.value_or(kDefaultTrainingRanks);
  TrainSetup setup;
  set_up(options, world_size, setup);
  require_training_memory(setup, world_size);
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);

  TrainJournal journal(options, setup);
  const std::int64_t begin_ns = monotonic_ns();
  std::optional<ProgressBar> bar("training");
  FinishedTraining finished = [&] {
    try {
      return run_training_on_threads(setup.plan, setup.text, on_step(setup, journal, *bar));
    } catch (const std::exception& error) {
      throw journal.close_failed(as_run_error(error));
    }
  }();
  const double seconds = seconds_since(begin_ns);
  bar.reset();
  conclude_training(options, setup, journal, finished, seconds);
  return 0;
}

// ---
// Training as one rank of a job: rank 0 reads text and checkpoint and broadcasts them.

#ifdef RINGSCOPE_HAS_MPI

namespace {

class TrainPart : public JobPart {
 public:
  TrainPart(MpiSession& session, const TrainOptions& options)
      : JobPart(session), options_(options) {}

  void prepare() override {
    require_world_size(session_, options_.ranks.world_size);
    if (!is_first()) return;
    set_up(options_, session_.world_size(), setup_);
    require_training_memory(setup_, 1);
    journal_.emplace(options_, setup_);
  }

  void run() override {
    const std::string text = line_.broadcast(is_first() ? setup_.text : "");
    const std::string checkpoint =
        line_.broadcast(is_first() && setup_.start ? to_bytes(*setup_.start) : "");
    if (!is_first()) {
      // This can't throw InputError, because rank 0 has accepted the same.
      set_up_from(options_, session_.world_size(), text, checkpoint, setup_);
      require_training_memory(setup_, 1);
    }
    agree(line_, {});  // now every rank knows that all have the memory for it
    const std::int64_t begin_ns = monotonic_ns();
    std::optional<ProgressBar> bar;
    if (is_first()) bar.emplace("training");
    finished_ =
        run_training_on_mpi(session_, setup_.plan, setup_.text,
                            is_first() ? AfterStep(on_step(setup_, *journal_, *bar)) : AfterStep());
    seconds_ = seconds_since(begin_ns);
  }

  int conclude() override {
    conclude_training(options_, setup_, *journal_, finished_, seconds_);
    return 0;
  }

  RunError leave_behind(const RunError& failure, const std::exception& thrown) override {
    const auto* const in_step = dynamic_cast<const TrainingFailure*>(&thrown);
    const RunError named =
        in_step == nullptr || in_step->train_step == 0
            ? failure
            : RunError(fmt::format("{}; in training step {}", failure.what(), in_step->train_step),
                       failure.rank(), failure.step());
    return journal_ ? journal_->close_failed(named) : named;
  }

 private:
  const TrainOptions& options_;
  TrainSetup setup_;
  FinishedTraining finished_;
  double seconds_ = 0;
  std::optional<TrainJournal> journal_;  // only on rank 0
};

}  // namespace

std::unique_ptr<JobPart> make_train_part(MpiSession& session, const TrainOptions& options) {
  return std::make_unique<TrainPart>(session, options);
}

#endif  // RINGSCOPE_HAS_MPI

}  // namespace ringscope
