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

constexpr int kMostTabledContext = 128;  // a simulation of every scheme takes about a second each

PerAxis sizes_of(const PlanOptions& options) {
  const ModelSplit& split = options.split;
  return {{split.tensor, options.job.world_size, split.pipeline, split.data}};
}

GroupJob group_job(const PlanOptions& options) {
  const Problem& job = options.whole;
  return {.shape = job.shape,
          .width = options.model ? options.model->width : job.shape.num_heads * job.shape.head_dim,
          .layers = job.layers,
          .value_bytes = static_cast<Index>(job.storage_bytes()),
          .sizes = sizes_of(options)};
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

// Return what a rank sends in a step. A model's MLP sums rows as its attention does.
GroupTraffic traffic_of(const Plan& plan) {
  const PlanOptions& options = plan.options;
  const Problem& job = plan.chosen.job;
  GroupTraffic traffic = group_traffic(group_job(options));
  const auto layers = static_cast<double>(options.whole.layers) / options.split.pipeline;
  if (job.scheme->course != Course::steps && job.world_size > 1) {
    traffic.context = {};
    for (int rank = 0; rank < job.world_size; ++rank) {
      const Traffic mine = ringscope::traffic_of(job, rank);
      traffic.context.times += layers * mine.hops / job.world_size;
      traffic.context.bytes += layers * mine.bytes() / job.world_size;
    }
  }
  if (!options.model) return traffic;
  traffic.tensor = {2 * traffic.tensor.times, 2 * traffic.tensor.bytes};
  for (Talk* talk : {&traffic.tensor, &traffic.context, &traffic.pipeline}) {
    talk->times *= static_cast<double>(options.micro_batches);
    talk->bytes *= static_cast<double>(options.micro_batches);
  }
  const ModelMemory& memory = options.model_memory;
  traffic.gradients.bytes =
      weight_traffic(weights_of_rank(job, *options.model, memory.expert_ranks), job.storage_bytes(),
                     memory.sharers(job.world_size), memory, job.layers, options.micro_batches)
          .gradient_bytes;
  return traffic;
}

std::vector<Fields> rows_of(const Plan& plan) {
  const PlanOptions& options = plan.options;
  const RankGroups world = world_of(group_job(options));
  const GroupTraffic traffic = traffic_of(plan);
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

void add_groups(CommandFlags& flags, PlanOptions& options, GroupFlags& groups) {
  ModelSplit& split = options.split;
  for (const auto& [flag, size, help] :
       {std::tuple{"--tensor", &split.tensor,
                   "ranks that share the heads of a layer, and its MLP (1)"},
        {"--pipeline", &split.pipeline, "stages that share the layers (1)"},
        {"--data", &split.data, "replicas, each with sequences of its own (1)"}})
    flags.integer(flag, *size, help, 1, kMostGroupedRanks);
  flags.value(
      "--context", "C|all",
      "ranks that share a sequence, where --world-size counts all ranks; all: a table over C, "
      "with --sequences",
      [&groups](const std::string& text) {
        if (text != "all")
          for_flag("--context:", [&] { integer_in<int>(text, 1, kMostSimulatedRanks); });
        groups.context = text;
      });
  flags.integer("--sequences", groups.sequences,
                "of a step, over all replicas, instead of --micro-batches", 1, Index{1} << 31);
  flags.integer(
      "--interleave", split.pieces,
      "pieces of a stage's layers, which take turns, so that the pipeline fills sooner (1)", 1,
      1 << 20, "V");
  flags.flag("--sequence-parallel", split.sequence_parallel,
             "deal the rows between products out over the --tensor ranks");
  flags.integer("--ranks-a-node", options.ranks_a_node,
                "of such groups: consecutive ranks that have fast links to each other (8)", 1,
                kMostGroupedRanks);
}

std::vector<PlanOptions> with_contexts(const CommandFlags& flags, const PlanOptions& options,
                                       const GroupFlags& groups) {
  const bool all = groups.context == "all";
  const int ranks = options.job.world_size,
            of_context = options.split.tensor * options.split.pipeline;
  if (groups.sequences && flags.given("--micro-batches"))
    contradiction("--sequences", "given beside --micro-batches", "one of them");
  if (all && !(groups.sequences && ranks > 0 && options.model && options.job.backward))
    contradiction("--context", "'all' given without all of what its table compares",
                  "it with --world-size, --sequences, a model and --backward");
  if (all && flags.given("--data"))
    contradiction("--context", "'all' given beside --data",
                  "it without, as the other ranks are replicas");
  std::vector<PlanOptions> plans;
  const auto add = [&](int context) {
    PlanOptions plan = options;
    if (context > 0) {
      const int rest = of_context * context;
      if (ranks > 0 &&
          (ranks % rest != 0 || (flags.given("--data") && ranks != rest * plan.split.data)))
        contradiction("--context",
                      fmt::format("{} given for {}", context, count_text(ranks, "rank")),
                      "tensor x context x pipeline x data that make --world-size");
      if (ranks > 0) plan.split.data = ranks / rest;
      plan.job.world_size = context;
    }
    if (groups.sequences) {
      const Index at_once = plan.split.data * plan.job.shape.batch;
      if (*groups.sequences % at_once != 0 && all) return;  // no whole micro-batches
      if (*groups.sequences % at_once != 0)
        contradiction("--sequences",
                      fmt::format("{} given for {} replicas", *groups.sequences, plan.split.data),
                      fmt::format("a multiple of {}", at_once));
      plan.micro_batches = *groups.sequences / at_once;
    }
    plans.push_back(std::move(plan));
  };
  if (!all) {
    add(groups.context.empty() ? 0 : integer_in<int>(groups.context, 1, kMostSimulatedRanks));
    return plans;
  }
  for (int context = 1; context <= kMostTabledContext; ++context)
    if (ranks % (of_context * context) == 0) add(context);
  if (plans.empty())
    contradiction("--context", fmt::format("'all' given for {}", count_text(ranks, "rank")),
                  "ranks and sequences that tensor x pipeline divide");
  return plans;
}

namespace {

// Throw InputError for groups of ranks that weights or experts can't be dealt out over.
void check_dealing(const PlanOptions& options) {
  const ModelMemory& memory = options.model_memory;
  const int sharers = options.job.world_size * options.split.data;
  for (const auto& [flag, ranks] :
       {std::pair{"--shard", memory.shards}, {"--expert", memory.expert_ranks}})
    if (ranks > 0 && sharers % ranks != 0)
      contradiction(
          flag,
          fmt::format("{} given for {} with the same weights", ranks, count_text(sharers, "rank")),
          "a divisor of context x data");
  if (memory.expert_ranks == 1) return;
  if (!options.model || options.model->experts % memory.expert_ranks != 0 ||
      options.model->experts == 0)
    contradiction("--expert",
                  fmt::format("{} given for {}", memory.expert_ranks,
                              count_text(options.model ? options.model->experts : 0, "expert")),
                  "a divisor of them, with --model of a mixture of experts");
}

}  // namespace

void split_up(PlanOptions& options) {
  check_dealing(options);
  options.whole = options.job;
  options.whole_model = options.model;
  const GroupJob job = group_job(options);
  if (options.groups() == 1) return;
  world_of(job);
  group_traffic(job);
  const ModelSplit& split = options.split;
  options.job = split.share_of(options.whole);
  if (options.model) options.model = split.share_of(*options.model);
  split.tell(options.model_memory, options.job.backward, options.micro_batches);
  // A ring lies on as many nodes as its ranks need, equally many on each.
  const int context = options.job.world_size;
  int nodes = ceil_div(context, std::max(1, options.ranks_a_node / split.tensor));
  while (context % nodes != 0) ++nodes;
  options.job.nodes = options.hardware.between ? nodes : 1;
}

void place_groups(Plan& plan) {
  PlanOptions& options = plan.options;
  const ModelSplit& split = options.split;
  const ModelMemory& memory = options.model_memory;
  plan.links = {plan.link, plan.link, plan.link, plan.link, plan.link};
  if (!plan.between) return;
  const Link between = *plan.between;
  const bool is_one = options.groups() == 1;
  const int context = options.job.world_size,
            on_node = is_one ? context / options.job.nodes : options.ranks_a_node;
  // Of a group's ranks `members` lie on a node. The groups on it share its links to other nodes.
  const auto shared = [&](double members) {
    Link link = between;
    link.bytes_per_s =
        std::min(plan.link.bytes_per_s, options.nics * between.bytes_per_s * members / on_node);
    return link;
  };
  // Return the link of so many ranks that have the same weights: of a context group, and then of its
  // replicas, which are a whole pipeline apart. Those that share experts are taken to be side by side.
  const auto link_of = [&](int ranks, int stages) {
    const int extent = split.tensor * (ranks <= context ? ranks : ranks * stages);
    const int near = stages == 1 ? ranks : std::min(ranks, context);
    return extent <= on_node || ranks == 1
               ? plan.link
               : shared(std::min(near, std::max(1, on_node / split.tensor)));
  };
  const int sharers = memory.sharers(context);
  plan.links.copies = link_of(sharers, split.pipeline);
  plan.links.weights = link_of(memory.dealt_over(sharers), split.pipeline);
  plan.links.experts = link_of(memory.expert_ranks, 1);
  if (is_one) return;
  if (split.tensor > on_node) plan.links.tensor = shared(on_node);
  if (split.tensor * context * split.pipeline > on_node) plan.links.pipeline = shared(1);
  if (options.job.nodes == 1) {
    plan.between.reset();
    return;
  }
  const int rings = std::max(1, on_node * options.job.nodes / context);
  if (options.nics % rings != 0) plan.between->bytes_per_s *= double(options.nics) / rings;
  options.nics = options.nics % rings == 0 ? options.nics / rings : 1;
}

std::string groups_text(const Plan& plan) {
  const PlanOptions& options = plan.options;
  const GroupJob job = group_job(options);
  const RankGroups world = world_of(job);
  std::string text =
      fmt::format("{} ranks = {} tensor x {} context x {} pipeline x {} data, {} a node\n",
                  world.world_size(), job.sizes[Axis::tensor], job.sizes[Axis::context],
                  job.sizes[Axis::pipeline], job.sizes[Axis::data], options.ranks_a_node);
  if (world.world_size() <= kMostDrawnRanks)
    text += group_drawing(world, options.ranks_a_node) +
            "\nranks with the same letter in a line are a group\n\n";
  return text + table_text(rows_of(plan));
}

Fields groups_fields(const Plan& plan) {
  const GroupJob job = group_job(plan.options);
  Fields fields{{"ranks", world_of(job).world_size()}};
  for (const Axis axis : kAllAxes) fields.emplace_back(name_of(axis), job.sizes[axis]);
  return fields + Fields{{"ranks_a_node", plan.options.ranks_a_node},
                         {"width", job.width},
                         {"ring_block_bytes", ring_block_bytes(job)},
                         {"groups", rows_of(plan)}};
}

}  // namespace ringscope
