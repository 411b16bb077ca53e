#include "app/command_line/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/terminal.h"
#include "core/base/text.h"
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
          {"context",
           {Axis::context},
           "hops of K and V, of dK and dV, or the scheme's",
           traffic.context},
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

std::vector<Fields> group_fields(const GroupsOptions& options, const RankGroups& world) {
  std::vector<Fields> groups;
  for (const auto& [name, axes, sends, talk] : kinds_of(group_traffic(options.job))) {
    const GroupPlacement lie = placement(world, axes, options.ranks_a_node);
    const bool talks = talk.times > 0;
    groups.push_back({{"name", name, "", -12},
                      {"groups", lie.inside + lie.crossing, "groups", 8},
                      {"ranks", world.members(0, axes).size(), "ranks", 8},
                      {"on_one_node", lie.inside, "on one node", 14},
                      {"across_nodes", lie.crossing, "across nodes", 14},
                      {"most_nodes", lie.most_nodes},
                      {"times_a_step", talk.times, "sends", 12,
                       [&](double times) { return talks ? fmt::format("{:.3g} x", times) : ""; }},
                      {"bytes_a_step", talk.bytes, "in a step", 12,
                       [&](double bytes) { return talks ? bytes_text(bytes) : ""; }},
                      {"", talks ? fmt::format("  {}", sends) : "", "  what a rank sends", 0}});
  }
  return groups;
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
  text += table_text(group_fields(options, world));
  if (options.rank) text += rank_text(*options.rank, world);
  return text;
}

Fields rank_fields(int rank, const RankGroups& world) {
  Fields fields{{"rank", rank}}, members;
  for (const Axis axis : kAllAxes) fields.emplace_back(name_of(axis), world.indices(rank)[axis]);
  for (const GroupKind& kind : kinds_of({}))
    members.emplace_back(kind.name, world.members(rank, kind.axes));
  return fields + Fields{{"members", members}};
}

std::string groups_json(const GroupsOptions& options, const RankGroups& world) {
  const GroupJob& job = options.job;
  Fields fields{{"world_size", options.world_size}};
  for (const Axis axis : kAllAxes) fields.emplace_back(name_of(axis), job.sizes[axis]);
  fields = fields + Fields{{"ranks_a_node", options.ranks_a_node},
                           {"shape", shape_fields(job.shape)},
                           {"layers", job.layers},
                           {"width", job.width},
                           {"dtype", name_of(options.dtype)},
                           {"scheme", job.scheme},
                           {"ring_block_bytes", ring_block_bytes(job)},
                           {"groups", group_fields(options, world)}};
  if (options.rank) fields.emplace_back("rank", rank_fields(*options.rank, world));
  return json_line(fields);
}

}  // namespace

int carry_out(const GroupsOptions& options) {
  const RankGroups world(options.job.sizes, options.world_size);
  print_out(options.json ? groups_json(options, world) : groups_text(options, world));
  return 0;
}

namespace {

constexpr int kMostRanks = 1 << 16;  // few enough to locate all ranks at once

// Complete the options. Throw InputError naming the flag or size, the value and what would be
// accepted: for sizes whose product is not the world, and for heads or layers that can't be split
// evenly.
void complete(GroupsOptions& options) {
  GroupJob& job = options.job;
  // This can't overflow, because each size is at most 2^16.
  Index product = 1;
  for (const int size : job.sizes.numbers) product = min_of(product * size, Index{1} << 40);
  if (product > kMostRanks)
    throw InputError(
        fmt::format("tensor x context x pipeline x data: {} ranks given; accepted: up to {}",
                    product, kMostRanks));
  if (options.world_size == 0) options.world_size = static_cast<int>(product);
  const RankGroups checked(job.sizes, options.world_size);
  options.ranks_a_node = std::min(options.ranks_a_node, kMostRanks);
  if (options.rank)
    integer_of_flag<int>("--rank", std::to_string(*options.rank), 0, options.world_size - 1);
  if (job.shape.num_heads_kv == 0) job.shape.num_heads_kv = job.shape.num_heads;
  if (job.width == 0) job.width = job.shape.num_heads * job.shape.head_dim;
  job.value_bytes = bytes_of(options.dtype);
  group_traffic(job);  // throws for what can't be split
}

}  // namespace

Finish declare_groups(CommandFlags& flags) {
  const auto options = std::make_shared<GroupsOptions>();
  GroupJob& job = options->job;
  job.shape = {.batch = 1, .num_heads = 32, .num_heads_kv = 0, .seqlen = 32768, .head_dim = 128};
  job.layers = 32;
  job.width = 0;
  for (const auto& [flag, axis, help] :
       {std::tuple{"--tensor", Axis::tensor, "ranks that share the heads of a layer (1)"},
        {"--context", Axis::context, "ranks that share the rows of a sequence (1)"},
        {"--pipeline", Axis::pipeline, "stages that share the layers (1)"},
        {"--data", Axis::data, "replicas, each with sequences of its own (1)"}})
    flags.integer(flag, job.sizes[axis], help, 1, kMostRanks);
  flags.integer("--world-size", options->world_size, "ranks: must be the product of these", 1,
                kMostRanks);
  flags.integer("--ranks-a-node", options->ranks_a_node,
                "consecutive ranks that have fast links to each other (8)");
  flags.integer("--rank", options->rank, "tell this rank's groups member by member", 0,
                kMostRanks - 1, "R");
  flags.count("--seqlen", job.shape.seqlen, "positions of a sequence (32768)");
  flags.count("--batch", job.shape.batch, "sequences of a replica (1)");
  add_heads(flags, job.shape);
  flags.count("--layers", job.layers, "attention layers of all stages (32)");
  flags.count("--width", job.width, "values of a row between layers (heads x head-dim)");
  flags.value("--scheme", kSchemeNames, "of a context group (ring)",
              [&job](const std::string& text) {
                Problem named;
                for_flag("--scheme", [&] { set_scheme(named, text); });
                job.scheme = text;
              });
  add_dtype(flags, options->dtype, "storage type (bf16); sums of gradients are f32");
  flags.flag("--json", options->json, "print one JSON object");
  return [options] {
    complete(*options);
    return *options;
  };
}

}  // namespace ringscope
