#include "app/command_line/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "app/command_line/flags.h"
#include "app/groups/groups_options.h"
#include "app/report/json_writer.h"
#include "app/report/terminal.h"
#include "app/run/memory.h"
#include "core/model/rank_groups.h"

namespace ringscope {

namespace {

struct GroupKind {
  std::string_view name;
  std::vector<Axis> axes;
  std::string_view sends;
  Talk talk;
};

std::vector<GroupKind> kinds_of(const GroupTraffic& traffic) {
  return {{"tensor", {Axis::tensor}, "sums of y and of dx", traffic.tensor},
          {"context", {Axis::context}, "hops of K and V, of dK and dV", traffic.context},
          {"pipeline", {Axis::pipeline}, "rows to a stage, or dx", traffic.pipeline},
          {"data", {Axis::data}, "", {}},
          {"gradients", kGradientAxes, "sum over context x data", traffic.gradients}};
}

std::string header_text(const GroupsOptions& options) {
  const GroupJob& job = options.job;
  const AttentionShape& s = job.shape;
  return fmt::format(
      "{} ranks = {} tensor x {} context x {} pipeline x {} data, {} a node\n"
      "attention of {} layers, {} tokens x {} batch a replica, {} heads ({} kv), head_dim {}, "
      "rows of {}, {}\n\n",
      options.world_size, job.sizes[Axis::tensor], job.sizes[Axis::context],
      job.sizes[Axis::pipeline], job.sizes[Axis::data], options.ranks_a_node, job.layers, s.seqlen,
      s.batch, s.num_heads, s.num_heads_kv, s.head_dim, job.width, name_of(options.dtype));
}

std::string table_text(const GroupsOptions& options, const RankGroups& world) {
  std::string text =
      fmt::format("{:<12}{:>8}{:>8}{:>14}{:>14}{:>12}{:>12}  {}\n", "", "groups", "ranks",
                  "on one node", "across nodes", "sends", "in a step", "what a rank sends");
  for (const GroupKind& kind : kinds_of(group_traffic(options.job))) {
    const GroupPlacement lie = placement(world, kind.axes, options.ranks_a_node);
    text += fmt::format("{:<12}{:>8}{:>8}{:>14}{:>14}", kind.name, lie.inside + lie.crossing,
                        world.members(0, kind.axes).size(), lie.inside, lie.crossing);
    if (kind.talk.times > 0)
      text += fmt::format("{:>12}{:>12}  {}", fmt::format("{:.3g} x", kind.talk.times),
                          bytes_text(kind.talk.bytes), kind.sends);
    text += '\n';
  }
  return text;
}

std::string rank_text(int rank, const RankGroups& world) {
  std::string text = fmt::format("\nrank {}\n", rank);
  for (const GroupKind& kind : kinds_of({})) {
    const std::string index =
        kind.axes.size() == 1 ? fmt::format("index {}", world.indices(rank)[kind.axes[0]]) : "";
    text += fmt::format("  {:<10}{:<12}{}\n", kind.name, index,
                        fmt::join(world.members(rank, kind.axes), ", "));
  }
  return text;
}

std::string groups_text(const GroupsOptions& options, const RankGroups& world) {
  std::string text = header_text(options);
  if (options.world_size <= kMostDrawnRanks)
    text += group_drawing(world, options.ranks_a_node) +
            "\nranks with the same letter in a line are a group\n\n";
  text += table_text(options, world);
  if (options.rank) text += rank_text(*options.rank, world);
  return text;
}

void put_rank(JsonWriter& json, int rank, const RankGroups& world) {
  json.key("rank");
  json.object([&] {
    json.put("rank", Index{rank});
    for (const Axis axis : kAllAxes) json.put(name_of(axis), Index{world.indices(rank)[axis]});
    json.key("members");
    json.object([&] {
      for (const GroupKind& kind : kinds_of({}))
        json.array(kind.name, [&] {
          for (const int member : world.members(rank, kind.axes)) json.value(Index{member});
        });
    });
  });
}

std::string groups_json(const GroupsOptions& options, const RankGroups& world) {
  const GroupJob& job = options.job;
  JsonWriter json;
  json.object([&] {
    json.put("world_size", Index{options.world_size});
    for (const Axis axis : kAllAxes) json.put(name_of(axis), Index{job.sizes[axis]});
    json.put("ranks_a_node", Index{options.ranks_a_node});
    put_shape(json, job.shape);
    json.put("layers", job.layers);
    json.put("width", job.width);
    json.put("dtype", name_of(options.dtype));
    json.put("ring_block_bytes", ring_block_bytes(job));
    json.array("groups", [&] {
      for (const GroupKind& kind : kinds_of(group_traffic(job)))
        json.object([&] {
          const GroupPlacement lie = placement(world, kind.axes, options.ranks_a_node);
          json.put("name", kind.name);
          json.put("groups", Index{lie.inside + lie.crossing});
          json.put("ranks", static_cast<Index>(world.members(0, kind.axes).size()));
          json.put("on_one_node", Index{lie.inside});
          json.put("across_nodes", Index{lie.crossing});
          json.put("most_nodes", Index{lie.most_nodes});
          json.put("times_a_step", kind.talk.times);
          json.put("bytes_a_step", kind.talk.bytes);
        });
    });
    if (options.rank) put_rank(json, *options.rank, world);
  });
  return json.text() + "\n";
}

}  // namespace

int groups_command(const GroupsOptions& options) {
  const RankGroups world(options.job.sizes, options.world_size);
  print_out(options.json ? groups_json(options, world) : groups_text(options, world));
  return 0;
}

namespace {

constexpr Index kMostRanks = Index{1} << 16;  // small enough to locate all ranks at once

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
  // This can't overflow, because each size is at most 2^16.
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
  group_traffic(options.job);  // throws for what can't be split
  options.dtype = request.dtype;
  options.json = request.json;
  return options;
}

}  // namespace ringscope
