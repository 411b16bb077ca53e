// The groups of ranks of a plan whose ranks are one of several context groups: they are split by
// heads, layers and batches as well.

#include <fmt/format.h>

#include <string_view>
#include <tuple>
#include <vector>

#include "app/plan/plan.h"
#include "app/report/terminal.h"
#include "core/base/dtype.h"

namespace ringscope {

namespace {

constexpr int kMostGroupedRanks = 1 << 16;  // few enough to locate all of them at once

GroupJob group_job(const PlanOptions& options) {
  const Problem& job = options.job;
  PerAxis sizes = options.groups;
  sizes[Axis::context] = job.world_size;
  return {.shape = job.shape,
          .width = options.model ? options.model->width : job.shape.num_heads * job.shape.head_dim,
          .layers = job.layers,
          .value_bytes = static_cast<Index>(job.storage_bytes()),
          .sizes = sizes};
}

RankGroups world_of(const GroupJob& job) {
  Index product = 1;
  for (const int size : job.sizes.numbers) product = min_of(product * size, Index{1} << 40);
  if (product > kMostGroupedRanks)
    throw InputError(
        fmt::format("tensor x context x pipeline x data: {} ranks given; accepted: up to {}",
                    product, kMostGroupedRanks));
  return RankGroups(job.sizes, static_cast<int>(product));
}

std::vector<Fields> rows_of(const PlanOptions& options) {
  const GroupJob job = group_job(options);
  const RankGroups world = world_of(job);
  const GroupTraffic traffic = group_traffic(job);
  const std::tuple<const char*, std::vector<Axis>, const char*, Talk> kinds[] = {
      {"tensor", {Axis::tensor}, "sums of y and of dx", traffic.tensor},
      {"context", {Axis::context}, "hops of K and V, of dK and dV", traffic.context},
      {"pipeline", {Axis::pipeline}, "rows to a stage, or dx", traffic.pipeline},
      {"data", {Axis::data}, "", {}},
      {"gradients", kGradientAxes, "sum over context x data", traffic.gradients}};
  std::vector<Fields> groups;
  for (const auto& [name, axes, sends, talk] : kinds) {
    const GroupPlacement lie = placement(world, axes, options.ranks_a_node);
    const bool talks = talk.times > 0;
    groups.push_back(
        {{"name", name, "", -12},
         {"groups", lie.inside + lie.crossing, "groups", 8},
         {"ranks", world.members(0, axes).size(), "ranks", 8},
         {"on_one_node", lie.inside, "on one node", 14},
         {"across_nodes", lie.crossing, "across nodes", 14},
         {"times_a_step", talk.times, "sends", 12,
          [talks](double times) { return talks ? fmt::format("{:.3g} x", times) : ""; }},
         {"bytes_a_step", talk.bytes, "in a step", 12,
          [talks](double bytes) { return talks ? bytes_text(bytes) : ""; }},
         {"", talks ? fmt::format("  {}", sends) : "", "  what a rank sends", 0}});
  }
  return groups;
}

}  // namespace

void add_groups(CommandFlags& flags, PlanOptions& options) {
  for (const auto& [flag, axis, help] :
       {std::tuple{"--tensor", Axis::tensor, "ranks that share the heads of a layer (1)"},
        {"--pipeline", Axis::pipeline, "stages that share the layers (1)"},
        {"--data", Axis::data, "replicas, each with sequences of its own (1)"}})
    flags.integer(flag, options.groups[axis],
                  fmt::format("{}; tells which ranks work together and what they send", help), 1,
                  kMostGroupedRanks);
  flags.integer("--ranks-a-node", options.ranks_a_node,
                "of such groups: consecutive ranks that have fast links to each other (8)", 1,
                kMostGroupedRanks);
}

void check_groups(const PlanOptions& options) {
  if (!options.has_groups()) return;
  if (options.scheme_given && options.job.scheme != Scheme::ring)
    contradiction(
        "--scheme",
        fmt::format("{} given beside --tensor, --pipeline or --data", options.job.scheme_name()),
        "ring");
  rows_of(options);
}

std::string groups_text(const PlanOptions& options) {
  const GroupJob job = group_job(options);
  const RankGroups world = world_of(job);
  std::string text =
      fmt::format("{} ranks = {} tensor x {} context x {} pipeline x {} data, {} a node\n",
                  world.world_size(), job.sizes[Axis::tensor], job.sizes[Axis::context],
                  job.sizes[Axis::pipeline], job.sizes[Axis::data], options.ranks_a_node);
  if (world.world_size() <= kMostDrawnRanks)
    text += group_drawing(world, options.ranks_a_node) +
            "\nranks with the same letter in a line are a group\n\n";
  return text + table_text(rows_of(options));
}

Fields groups_fields(const PlanOptions& options) {
  const GroupJob job = group_job(options);
  Fields fields{{"ranks", world_of(job).world_size()}};
  for (const Axis axis : kAllAxes) fields.emplace_back(name_of(axis), job.sizes[axis]);
  return fields + Fields{{"ranks_a_node", options.ranks_a_node},
                         {"width", job.width},
                         {"ring_block_bytes", ring_block_bytes(job)},
                         {"groups", rows_of(options)}};
}

}  // namespace ringscope
