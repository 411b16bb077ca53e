#include "app/generate/generate_options.h"

#include <fmt/format.h>

#include <limits>

#include "app/command_line/commands.h"
#include "app/run/memory.h"
#include "core/decode/generate.h"
#include "core/run/generated_rows.h"

namespace ringscope {
namespace {

constexpr int kMostThreadRanks = 256;  // each has two threads; with more, a byte takes seconds

std::string prompt_of(const GenerateRequest& request) {
  if (request.prompt) return *request.prompt;
  if (!request.prompt_file) return GenerateOptions().prompt;
  const std::string& path = *request.prompt_file;
  return for_flag("--prompt-file", [&] {
    const Index bytes = text_length(path);
    if (bytes < 1 || bytes > kMostPromptBytes)
      throw InputError(
          fmt::format("'{}': {} bytes given; accepted: 1 to {}", path, bytes, kMostPromptBytes));
    return read_text(path, bytes);
  });
}

void check(const GenerateRequest& request) {
  check_ranks(request.ranks);
  if (request.ranks.backend == Backend::cpu &&
      request.ranks.world_size.value_or(1) > kMostThreadRanks)
    contradiction("--world-size",
                  fmt::format("{} given with --backend cpu", *request.ranks.world_size),
                  fmt::format("1 to {}", kMostThreadRanks));
  if (request.prompt && request.prompt_file)
    contradiction("--prompt-file", "given beside --prompt", "one of them");
  if (request.prompt && request.prompt->empty())
    contradiction("--prompt", "'' given", "a byte or more to go on from");
}

}  // namespace

Finish declare_generate(CommandFlags& flags) {
  const auto request = std::make_shared<GenerateRequest>();
  GenerateOptions& options = request->options;
  double& temperature = options.sampling.temperature = 0.8;
  flags.path("--checkpoint", request->checkpoint, "what train --checkpoint has written");
  flags.require("--checkpoint");
  flags.text("--prompt", "TEXT", request->prompt,
             "what the text begins with (a new line, which is not printed)");
  flags.path("--prompt-file", request->prompt_file, "or: the bytes of a file");
  flags.integer("--bytes", options.bytes, fmt::format("how many follow ({})", options.bytes), 1,
                kMostGeneratedBytes);
  flags.number(
      "--temperature", temperature, kFrom0,
      fmt::format("of the draw: below 1 rather the likelier bytes; 0: always the likeliest "
                  "({:g})",
                  temperature));
  flags.integer("--seed", options.sampling.seed, "of the draw (0)", 0);
  add_ranks(flags, request->ranks, kDefaultWorldSize, "positions of the prompt");
  flags.name("--merge", options.merge, "ring|tree",
             "how the ranks' results of one byte are brought together (ring)", parse_merge);
  add_timeout(flags, request->ranks);
  flags.flag("--json", request->json,
             "print text, speed, bytes on the wire and shards as one JSON object");
  return [request] {
    check(*request);
    return *request;
  };
}

GenerateInputs read_inputs(const GenerateRequest& request, int world_size,
                           std::optional<int> one_rank) {
  GenerateInputs inputs;
  inputs.checkpoint = for_flag("--checkpoint", [&] { return load_checkpoint(request.checkpoint); });
  inputs.options = request.options;
  inputs.options.prompt = prompt_of(request);
  const Deal deal{request.ranks.partition, world_size};
  for_flag("--checkpoint '" + request.checkpoint + "':",
           [&] { validate(inputs.checkpoint, deal, inputs.options); });
  require_memory_for(inputs, request.ranks.partition, world_size, one_rank);
  return inputs;
}

void require_memory_for(const GenerateInputs& inputs, PartitionKind partition, int world_size,
                        std::optional<int> one_rank) {
  const Checkpoint& checkpoint = inputs.checkpoint;
  const Partition prompt{partition, static_cast<Index>(inputs.options.prompt.size()), world_size};
  // Besides the ranks' memory, count the checkpoint and its bytes while they are broadcast.
  double needed =
      2 * sizeof(float) * static_cast<double>(checkpoint.values.size() + checkpoint.moments.size());
  const int first = one_rank.value_or(0), last = one_rank.value_or(world_size - 1);
  for (int rank = first; rank <= last; ++rank)
    needed += generating_bytes(checkpoint.settings.shape, prompt, inputs.options.bytes, rank);
  require_bytes(needed);
}

}  // namespace ringscope
