#include "app/train/train_options.h"

#include <fmt/format.h>

#include <limits>

#include "app/command_line/flags.h"
#include "core/decode/generate.h"

namespace ringscope {
namespace {

// [flags
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
    {"--lr", &AdamWSettings::rate, Accepted::above_0, "learning rate of AdamW"},
    {"--beta1", &AdamWSettings::beta1, Accepted::below_1, "what its mean of gradients keeps"},
    {"--beta2", &AdamWSettings::beta2, Accepted::below_1, "what its mean of squares keeps"},
    {"--epsilon", &AdamWSettings::epsilon, Accepted::above_0, "added to the root of that"},
    {"--weight-decay", &AdamWSettings::decay, Accepted::from_0, "of matrices, times the rate"},
    {"--max-grad-norm", &AdamWSettings::longest_gradient, Accepted::from_0,
     "longer gradients are cut to this length; 0: never"},
};
// flags]

void add_settings(CommandFlags& flags, GivenSettings& given) {
  const TrainingSettings defaults;
  constexpr Index kMost = std::numeric_limits<int>::max();
  for (const ShapeFlag& flag : kShapeFlags)
    flags.value(flag.name, "N",
                flag.size == &ModelShape::num_heads_kv
                    ? fmt::format("{} (as many)", flag.help)
                    : fmt::format("{} ({})", flag.help, defaults.shape.*flag.size),
                [name = flag.name, &given](const std::string& text) {
                  given.shape[name] = integer_of_flag<Index>(name, text, 1, kMost);
                });
  flags.size("--batch", given.batch, fmt::format("sequences a step ({})", defaults.batch));
  flags.size("--seqlen", given.seqlen, fmt::format("bytes of each ({})", defaults.seqlen));
  flags.name(
      "--mask", given.mask, "MASK",
      "full, causal, window:W, prefix:P, documents:L1,L2,..., joined by + (" + defaults.mask + ")",
      [](const std::string& text) { return MaskSpec::parse(text); });
  for (const AdamWFlag& flag : kAdamWFlags)
    flags.value(flag.name, "X", fmt::format("{} ({:g})", flag.help, defaults.adam.*flag.setting),
                [name = flag.name, accepted = flag.accepted, &given](const std::string& text) {
                  given.adamw[name] = number_of_flag(name, text, accepted);
                });
  flags.value(
      "--warmup-steps", "N",
      fmt::format("over which the rate grows to its value ({})", defaults.adam.warmup_steps),
      [&given](const std::string& text) {
        given.warmup_steps = integer_of_flag<Index>("--warmup-steps", text, 0, kMost);
      });
  flags.value("--seed", "N", "of the first weights and of the pieces of text (0)",
              [&given](const std::string& text) {
                given.seed = integer_of_flag<std::uint64_t>(
                    "--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
              });
}

// Validate and name flags: validate() names a size as its flag does, without the dashes.
void validate_for_flags(const TrainingSettings& settings) {
  for_flag("--mask '" + settings.mask + "':",
           [&] { MaskSpec::parse(settings.mask).for_seqlen(settings.seqlen); });
  try {
    validate(settings);
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (!what.starts_with("tensor")) throw InputError("--" + what);
    throw InputError(fmt::format("--batch {}, --heads {}, --seqlen {}, --head-dim {}: {}",
                                 settings.batch, settings.shape.num_heads, settings.seqlen,
                                 settings.shape.head_dim, what));
  }
}

}  // namespace

void add_train(CommandFlags& flags, TrainOptions& train) {
  flags.value("--text", "FILE", "what to learn: each byte of a file is a token",
              [&train](const std::string& text) { train.text = text; });
  flags.require("--text");
  flags.value("--steps", "K", fmt::format("in all, those of --resume included ({})", train.steps),
              [&train](const std::string& text) {
                train.steps =
                    integer_of_flag<Index>("--steps", text, 0, std::numeric_limits<int>::max());
              });
  flags.name("--backend", train.backend, "cpu|mpi", "a thread a rank, or a process a rank (cpu)",
             parse_backend);
  flags.value("--world-size", "N", "ranks (2; a process a rank: as many as were started)",
              [&train](const std::string& text) {
                train.world_size =
                    integer_of_flag<int>("--world-size", text, 1, std::numeric_limits<int>::max());
              });
  flags.name("--partition", train.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which positions (zigzag)", parse_partition);
  add_settings(flags, train.given);

  flags.path("--loss-csv", train.loss_csv,
             "write the loss of every step, CSV: step,loss (a file: also every 100 steps)");
  flags.path("--picture", train.picture, "draw it, PNG");
  flags.path("--checkpoint", train.checkpoint, "write the model, and all that is needed to go on");
  flags.size("--checkpoint-every", train.checkpoint_every, "steps; and at the end (100)");
  flags.path("--resume", train.resume,
             "go on from a checkpoint, with its settings but for those that are given");
  flags.path("--trace", train.trace, "write the recording of one step's attention");
  flags.size("--trace-step", train.trace_step, "which (the last)");
  flags.value("--sample", "BYTES", "print so much text of the model at the end",
              [&train](const std::string& text) {
                train.sample_bytes =
                    integer_of_flag<Index>("--sample", text, 1, kMostGeneratedBytes);
              });
  flags.value("--prompt", "TEXT", "what that text goes on from (a new line)",
              [&train](const std::string& text) { train.prompt = text; });
  flags.value("--temperature", "X", "of its bytes; 0: always the likeliest (0.8)",
              [&train](const std::string& text) {
                train.temperature = number_of_flag("--temperature", text, Accepted::from_0);
              });
  flags.value(
      "--timeout", "SECONDS",
      "of --backend mpi: end when a rank gives no sign of life, or nothing moves, for so "
      "long (60)",
      [&train](const std::string& text) { train.timeout_s = seconds_of_flag("--timeout", text); });
  flags.flag("--json", train.json, "print the summary as one JSON object");
}

void check_train(const TrainOptions& train) {
  if (train.backend != Backend::cpu && train.backend != Backend::mpi)
    contradiction("--backend", fmt::format("'{}' given", name_of(train.backend)), "cpu, mpi");
  if (train.checkpoint_every && !train.checkpoint)
    contradiction("--checkpoint-every", "given without --checkpoint",
                  "it together with --checkpoint FILE");
  if (train.trace_step && !train.trace)
    contradiction("--trace-step", "given without --trace", "it together with --trace FILE");
  if (!train.sample_bytes)
    for (const auto& [flag, given] : {std::pair{"--prompt", train.prompt.has_value()},
                                      {"--temperature", train.temperature.has_value()}})
      if (given) contradiction(flag, "given without --sample", "it together with --sample BYTES");
  if (train.prompt && train.prompt->empty())
    contradiction("--prompt", "'' given", "a byte or more to go on from");
}

TrainingSettings settings_of(const GivenSettings& given, const Checkpoint* start,
                             const std::string& resume) {
  TrainingSettings settings = start == nullptr ? TrainingSettings() : start->settings;
  for (const ShapeFlag& flag : kShapeFlags) {
    const auto found = given.shape.find(flag.name);
    if (found == given.shape.end()) continue;
    Index& size = settings.shape.*flag.size;
    if (start != nullptr && found->second != size)
      throw InputError(
          fmt::format("{}: {} given, the checkpoint '{}' has {}; accepted: {}, or no --resume",
                      flag.name, found->second, resume, size, size));
    size = found->second;
  }
  if (start == nullptr && !given.shape.contains("--heads-kv"))
    settings.shape.num_heads_kv = settings.shape.num_heads;
  for (const AdamWFlag& flag : kAdamWFlags)
    if (const auto found = given.adamw.find(flag.name); found != given.adamw.end())
      settings.adam.*flag.setting = found->second;
  settings.adam.warmup_steps = given.warmup_steps.value_or(settings.adam.warmup_steps);
  settings.batch = given.batch.value_or(settings.batch);
  settings.seqlen = given.seqlen.value_or(settings.seqlen);
  if (given.mask) settings.mask = given.mask->name();
  settings.seed = given.seed.value_or(settings.seed);
  validate_for_flags(settings);
  return settings;
}

std::vector<std::string> setting_flags() {
  std::vector<std::string> flags{"--batch", "--seqlen", "--mask", "--warmup-steps", "--seed"};
  for (const ShapeFlag& flag : kShapeFlags) flags.push_back(flag.name);
  for (const AdamWFlag& flag : kAdamWFlags) flags.push_back(flag.name);
  return flags;
}

std::map<std::string, std::string> texts_of(const GivenSettings& given) {
  std::map<std::string, std::string> texts;
  const auto add = [&](const std::string& flag, const auto& value) {
    texts[flag] = fmt::format("{}", value);  // all digits, so equal texts are equal numbers
  };
  for (const auto& [flag, value] : given.shape) add(flag, value);
  for (const auto& [flag, value] : given.adamw) add(flag, value);
  for (const auto& [flag, value] : {std::pair{"--warmup-steps", &given.warmup_steps},
                                    {"--batch", &given.batch},
                                    {"--seqlen", &given.seqlen}})
    if (*value) add(flag, **value);
  if (given.mask) add("--mask", given.mask->name());
  if (given.seed) add("--seed", *given.seed);
  return texts;
}

}  // namespace ringscope
