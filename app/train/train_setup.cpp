#include "app/train/train_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/command_line/flags.h"
#include "app/report/terminal.h"
#include "app/run/memory.h"
#include "app/run/outputs.h"
#include "app/view/view_command.h"
#include "core/decode/generate.h"
#include "core/run/generated_rows.h"
#include "core/train/training_settings.h"

namespace ringscope {
namespace {

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

}  // namespace

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

void set_up_from(const TrainOptions& options, int world_size, std::string text,
                 const std::string& checkpoint, TrainSetup& setup) {
  if (!checkpoint.empty()) setup.start = checkpoint_from(checkpoint);
  setup.text = std::move(text);
  plan_training(options, world_size, setup);
  require_length(options, setup.plan.settings, static_cast<Index>(setup.text.size()));
}

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

}  // namespace ringscope
