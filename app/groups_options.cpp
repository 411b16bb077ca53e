#include "app/groups_options.h"

#include "app/flags.h"

namespace ringscope {
namespace {

constexpr Index kMostRanks = Index{1} << 16;  // of all of which it is known at once where they lie

void add_sizes(CommandFlags& flags, GroupsRequest& request) {
  flags.count("--tensor", request.tensor, "ranks that share the heads of a layer (1)");
  flags.count("--context", request.context, "ranks that share the rows of a sequence (1)");
  flags.count("--pipeline", request.pipeline, "stages that share the layers (1)");
  flags.count("--data", request.data, "replicas, each with sequences of its own (1)");
  flags.count("--world-size", request.world_size, "ranks: must be the product of these");
  flags.count("--ranks-a-node", request.ranks_a_node,
              "consecutive ranks that have fast links to each other (8)");
  flags.value("--rank", "R", "tell this rank's groups member by member",
              [&request](const std::string& text) {
                request.rank = integer_of_flag<Index>("--rank", text, 0, kMostRanks - 1);
              });
}

void add_model(CommandFlags& flags, GroupsRequest& request) {
  flags.count("--seqlen", request.seqlen, "positions of a sequence (32768)");
  flags.count("--batch", request.batch, "sequences of a replica (1)");
  flags.count("--heads", request.heads, "query heads (32)");
  flags.count("--heads-kv", request.heads_kv,
              "key and value heads, a divisor of the heads (as many)");
  flags.count("--head-dim", request.head_dim, "values a head (128)");
  flags.count("--layers", request.layers, "attention layers of all stages (32)");
  flags.count("--width", request.width, "values of a row between layers (heads x head-dim)");
  flags.name("--dtype", request.dtype, "f32|bf16|f16",
             "storage type (bf16); sums of gradients are f32", parse_dtype);
}

}  // namespace

void add_groups(CommandFlags& flags, GroupsRequest& request) {
  add_sizes(flags, request);
  add_model(flags, request);
  flags.flag("--json", request.json, "print one JSON object");
}

GroupsOptions checked_groups(const GroupsRequest& request) {
  const auto rank_count = [](const char* flag, Index value) {
    return integer_of_flag<int>(flag, std::to_string(value), 1, static_cast<int>(kMostRanks));
  };
  GroupsOptions options;
  options.job.sizes = {
      {rank_count("--tensor", request.tensor), rank_count("--context", request.context),
       rank_count("--pipeline", request.pipeline), rank_count("--data", request.data)}};
  // No overflow: each is at most 2^16.
  Index product = 1;
  for (const int size : options.job.sizes.numbers) product = min_of(product * size, Index{1} << 40);
  if (product > kMostRanks)
    throw InputError(
        fmt::format("tensor x context x pipeline x data: {} ranks given; accepted: up to {}",
                    product, kMostRanks));
  options.world_size = request.world_size == 0 ? static_cast<int>(product)
                                               : rank_count("--world-size", request.world_size);
  const RankGroups checked(options.job.sizes, options.world_size);
  options.ranks_a_node = static_cast<int>(min_of(request.ranks_a_node, kMostRanks));
  if (request.rank)
    options.rank =
        integer_of_flag<int>("--rank", std::to_string(*request.rank), 0, options.world_size - 1);
  options.job.shape = {request.batch, request.heads,
                       request.heads_kv == 0 ? request.heads : request.heads_kv, request.seqlen,
                       request.head_dim};
  options.job.width = request.width == 0 ? request.heads * request.head_dim : request.width;
  options.job.layers = request.layers;
  options.job.value_bytes = bytes_of(request.dtype);
  group_traffic(options.job);  // throws for what can't be dealt out
  options.dtype = request.dtype;
  options.json = request.json;
  return options;
}

}  // namespace ringscope
