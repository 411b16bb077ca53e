#include "app/train/train_options.h"

#include <fmt/format.h>

#include <limits>

#include "app/command_line/commands.h"
#include "app/view/view_command.h"
#include "core/decode/generate.h"

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
  if (train.checkpoint_every && !train.checkpoint)
    contradiction("--checkpoint-every", "given without --checkpoint",
                  "it together with --checkpoint FILE");
  if (train.trace_step && !train.trace)
    contradiction("--trace-step", "given without --trace", "it together with --trace FILE");
  if (train.theme && !train.picture)
    contradiction("--theme", "given without --picture", "it together with --picture FILE");
  if (!train.sample_bytes)
    for (const auto& [flag, given] : {std::pair{"--prompt", train.prompt.has_value()},
                                      {"--temperature", train.temperature.has_value()}})
      if (given) contradiction(flag, "given without --sample", "it together with --sample BYTES");
  if (train.prompt && train.prompt->empty())
    contradiction("--prompt", "'' given", "a byte or more to go on from");
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

}  // namespace ringscope
