#include "app/generate/generate_options.h"

#include <fmt/format.h>

#include <limits>

#include "app/command_line/flags.h"
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

}  // namespace

void add_generate(CommandFlags& flags, GenerateRequest& request) {
  GenerateOptions& options = request.options;
  options.sampling.temperature = 0.8;
  flags.value("--checkpoint", "FILE", "what train --checkpoint has written",
              [&request](const std::string& text) { request.checkpoint = text; });
  flags.require("--checkpoint");
  flags.value("--prompt", "TEXT", "what the text begins with (a new line, which is not printed)",
              [&request](const std::string& text) { request.prompt = text; });
  flags.path("--prompt-file", request.prompt_file, "or: the bytes of a file");
  flags.value("--bytes", "N", fmt::format("how many follow ({})", options.bytes),
              [&options](const std::string& text) {
                options.bytes = integer_of_flag<Index>("--bytes", text, 1, kMostGeneratedBytes);
              });
  flags.value("--temperature", "X",
              fmt::format("of the draw: below 1 rather the likelier bytes; 0: always the likeliest "
                          "({:g})",
                          options.sampling.temperature),
              [&options](const std::string& text) {
                options.sampling.temperature =
                    number_of_flag("--temperature", text, Accepted::from_0);
              });
  flags.value("--seed", "N", "of the draw (0)", [&options](const std::string& text) {
    options.sampling.seed = integer_of_flag<std::uint64_t>(
        "--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
  });
  flags.name("--backend", request.backend, "cpu|mpi", "a thread a rank, or a process a rank (cpu)",
             parse_backend);
  flags.value("--world-size", "N", "ranks (4; a process a rank: as many as were started)",
              [&request](const std::string& text) {
                request.world_size =
                    integer_of_flag<int>("--world-size", text, 1, std::numeric_limits<int>::max());
              });
  flags.name("--partition", request.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which positions of the prompt (zigzag)", parse_partition);
  flags.name("--merge", options.merge, "ring|tree",
             "how the ranks' results of one byte are brought together (ring)", parse_merge);
  flags.value("--timeout", "SECONDS",
              "of --backend mpi: end when a rank gives no sign of life, or nothing moves, for so "
              "long (60)",
              [&request](const std::string& text) {
                request.timeout_s = seconds_of_flag("--timeout", text);
              });
  flags.flag("--json", request.json,
             "print text, speed, bytes on the wire and shards as one JSON object");
}

void check_generate(const GenerateRequest& request) {
  if (request.backend != Backend::cpu && request.backend != Backend::mpi)
    contradiction("--backend", fmt::format("'{}' given", name_of(request.backend)), "cpu, mpi");
  if (request.backend == Backend::cpu && request.world_size.value_or(1) > kMostThreadRanks)
    throw InputError(fmt::format("--world-size: {} given with --backend cpu; accepted: 1 to {}",
                                 *request.world_size, kMostThreadRanks));
  if (request.prompt && request.prompt_file)
    contradiction("--prompt-file", "given beside --prompt", "one of them");
  if (request.prompt && request.prompt->empty())
    contradiction("--prompt", "'' given", "a byte or more to go on from");
}

GenerateInputs read_inputs(const GenerateRequest& request, int world_size,
                           std::optional<int> one_rank) {
  GenerateInputs inputs;
  inputs.checkpoint = for_flag("--checkpoint", [&] { return load_checkpoint(request.checkpoint); });
  inputs.options = request.options;
  inputs.options.prompt = prompt_of(request);
  const Deal deal{request.partition, world_size};
  for_flag("--checkpoint '" + request.checkpoint + "':",
           [&] { validate(inputs.checkpoint, deal, inputs.options); });
  require_memory_for(inputs, request.partition, world_size, one_rank);
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
