// What not every plan has: groups of ranks, where these are split by heads, layers and batches as well,
// and a model around the attention.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include "app/plan/plan.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/measure.h"
#include "core/tools/sim/scenario.h"
#include "core/training/matrix_product.h"

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

// ---
// A whole step of a model around the plan's attention: its time by part, and attention's share.

namespace {

double tokens_of(const Plan& plan) {
  return static_cast<double>(plan.chosen.job.shape.batch) * plan.rows;
}

double weights_of(const Plan& plan) {
  const PlanOptions& options = plan.options;
  return model_weights(options.whole.shape, *options.whole_model, options.whole.layers);
}

// Return the model's FLOP/s of one rank.
double model_flops_per_s(const Plan& plan) {
  const PlanOptions& options = plan.options;
  return static_cast<double>(options.micro_batches) *
         model_flops(options.whole, *options.whole_model) /
         (options.split.tensor * options.split.pipeline * plan.chosen.job.world_size) /
         plan.model->step.total();
}

// Return whether attention's time is simulated from its tiles, rows and hops, as `simulate
// --measure` does. They matter in short sequences; in the longest ones they don't, and counting
// them would take long.
bool is_simulated(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  return plan.model->kernels && !plan.options.is_searched() && is_plain(job) &&
         job.world_size <= 64 && job.shape.seqlen <= (1 << 17);
}

// Return the seconds of one layer's attention.
double simulated_seconds(const Plan& plan) {
  Scenario scenario;
  scenario.job = plan.chosen.job;
  scenario.pace = Pace::buffers;
  scenario.rates = plan.rates;
  scenario.cores = cores();
  scenario.cpu = std::make_shared<const CpuFigures>(*plan.model->kernels);
  return run_scenario(scenario, work_of(scenario)).wall_s;
}

// A product of the size that a layer's weights make of many rows.
struct ProductBench {
  static constexpr Index kRows = 512, kWidth = 512;
  MatrixProduct product;
  std::vector<float> a = std::vector<float>(kRows * kWidth, 0.5f), b = a, c = a;

  void run() {
    product(Store::overwrite, row_major(a.data(), kRows, kWidth),
            row_major(b.data(), kWidth, kWidth), c.data());
  }
};

}  // namespace

ModelPlan model_plan(const Plan& plan) {
  const Problem& job = plan.options.job;
  const ModelSizes& sizes = *plan.options.model;
  if (!plan.is_measured)
    return {sizes,
            for_flag("--products:",
                     [&] { return model_figures(plan.gpu, job.dtype, plan.options.in_8_bits); }),
            {},
            {}};
  const int busy = std::min(cores(), job.world_size);
  std::vector<std::unique_ptr<ProductBench>> benches;
  for (int i = 0; i < busy; ++i) benches.push_back(std::make_unique<ProductBench>());
  const double seconds = slowest_thread(
      benches, [](ProductBench& bench) { return fastest_of(0.2, {[&] { bench.run(); }}); })[0];
  const double flops = 2.0 * ProductBench::kRows * ProductBench::kWidth * ProductBench::kWidth;
  ModelFigures figures;
  figures.product_flops = figures.head_flops = flops / seconds * busy / job.world_size;
  CpuFigures kernels = measured_kernels(job, job.world_size);
  kernels.start_s = 0;  // a rank's thread lasts for all layers
  return {sizes, figures, kernels, {}};
}

StepTime step_time(const Plan& plan, const LayerTime& second) {
  const ModelPlan& model = *plan.model;
  const PlanOptions& options = plan.options;
  const Problem& job = plan.chosen.job;
  const LayerTime& first = plan.chosen.time;
  const double attention =
      is_simulated(plan) ? simulated_seconds(plan) : (first.total() + second.total()) / 2;
  StepTime step = step_time(job, model.sizes, plan.rows, attention, model.figures, plan.links,
                            options.model_memory, (first.forward.wall + second.forward.wall) / 2,
                            options.micro_batches);
  add_split(step, job, model.sizes, options.model_memory, options.split, options.whole.layers,
            plan.rows, plan.links, options.micro_batches);
  return step;
}

double tokens_per_s(const Plan& plan) {
  const AttentionShape& s = plan.chosen.job.shape;
  return static_cast<double>(plan.options.micro_batches * plan.options.split.data * s.batch *
                             s.seqlen) /
         plan.model->step.total();
}

// Return the share of the device's peak that a rank's FLOP/s are, or none for a machine that was
// measured, whose peak is not known.
std::optional<double> mfu_of(const Plan& plan) {
  if (plan.is_measured) return std::nullopt;
  return model_flops_per_s(plan) / plan.gpu.peak_flops(plan.chosen.job.dtype);
}

namespace {

std::string mlp_text(const ModelSizes& sizes) {
  if (sizes.experts == 0) return fmt::format("hidden {}", sizes.hidden);
  return fmt::format("{} of {} experts of hidden {}", sizes.active, sizes.experts,
                     sizes.expert_hidden);
}

}  // namespace

std::string model_text(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const StepTime& step = plan.model->step;
  const ModelSizes& sizes = *plan.options.whole_model;
  std::string text = labelled_line(
      20, "model",
      fmt::format("width {}, {}, vocab {}, {}; {:.6g} weights", sizes.width, mlp_text(sizes),
                  sizes.vocab, count_text(plan.options.whole.layers, "layer"), weights_of(plan)));
  const auto row = [&](const char* name, double seconds, const std::string& layer,
                       const std::string& share) {
    return Fields{{"", name, job.backward ? "time of a step" : "time of a pass", -20,
                   [](const std::string& part) { return "  " + part; }},
                  {"", seconds, "in all", 13, seconds_text},
                  {"", layer, "a layer", 12},
                  {"", share, "share", 12}};
  };
  std::vector<Fields> rows;
  for (const StepPart& part : kStepParts)
    if (const double seconds = step.*part.seconds; seconds != 0)
      rows.push_back(
          row(part.name, seconds,
              part.of_layers ? seconds_text(seconds / static_cast<double>(step.layers)) : "",
              percent_text(seconds / step.total())));
  rows.push_back(row("all of it", step.total(), seconds_text(step.layer()), ""));
  text += table_text(rows);
  text += fmt::format("  {:<18}{:.6g} tokens/s, {:.4g} FLOP/s a rank{}\n", "throughput",
                      tokens_per_s(plan), model_flops_per_s(plan),
                      mfu_of(plan) ? ", MFU " + percent_text(*mfu_of(plan)) : "");
  return text;
}

Fields model_fields(const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const ModelSizes &sizes = plan.model->sizes, &whole = *plan.options.whole_model;
  const StepTime& step = plan.model->step;
  const ModelMemory& memory = plan.options.model_memory;
  Fields fields{{"width", whole.width},
                {"hidden", whole.hidden},
                {"vocab", whole.vocab},
                {"layers", plan.options.whole.layers},
                {"weights", weights_of(plan)},
                {"product_flops", plan.model->figures.product_flops},
                {"projection_flops", projection_flops(job.shape, sizes, tokens_of(plan))},
                {"mlp_flops", mlp_flops(sizes, tokens_of(plan))},
                {"head_flops", head_flops(sizes, tokens_of(plan))}};
  for (const StepPart& part : kStepParts) fields.emplace_back(part.key, step.*part.seconds);
  return fields + Fields{{"layer_s", step.layer()},
                         {"total_s", step.total()},
                         {"attention_share", step.attention_share()},
                         {"tokens_per_s", tokens_per_s(plan)},
                         {"model_flops", model_flops(plan.options.whole, whole)},
                         {"mfu", mfu_of(plan)},
                         {"recompute", name_of(memory.recompute)},
                         {"chunks", memory.chunks},
                         {"zero_stage", memory.zero_stage},
                         {"shards", memory.shards},
                         {"experts", whole.experts},
                         {"expert_ranks", memory.expert_ranks},
                         {"offloads", memory.offloads},
                         {"host_bytes", plan.host_bytes},
                         {"products_in_8_bits", plan.options.in_8_bits},
                         {"micro_batches", plan.options.micro_batches}};
}

void explain_model(PlanExplanation& all, const Plan& plan) {
  const Problem& job = plan.chosen.job;
  const ModelSizes& sizes = plan.model->sizes;
  const ModelFigures& figures = plan.model->figures;
  const StepTime& step = plan.model->step;
  const double tokens = tokens_of(plan), e = job.storage_bytes();
  const bool measured = plan.is_measured, by_tiles = is_simulated(plan);
  all.say(fmt::format("model: T = b c rows of a rank = {:.0f}, W width, F hidden, V vocab; {}",
                      tokens,
                      job.backward ? "backward each product costs two, dx = dy w^T and dw = x^T dy"
                                   : "the forward pass only"));
  all.add("attention",
          by_tiles ? "a layer of `simulate --measure`, by tiles, rows and hops" : "time above",
          by_tiles ? "measured now; short blocks cost more than their FLOPs" : "as above",
          "{} a layer", seconds_text(step.attention / static_cast<double>(step.layers)));
  all.add("F of products", measured ? "FLOPs of a large product / time" : "peak x product_share",
          measured ? "measured now" : "table of hardware; without it attention's forward_share",
          "{:.4g} FLOP/s", figures.product_flops);

  const auto product = [&](const char* name, const char* formula, const char* source,
                           double flops) {
    all.add(name, formula, source, "{:.6g} FLOPs of {:.0f} rows", flops, tokens);
  };
  product("projections",
          sizes.kv_rank > 0
              ? "2 T (W q + q H key + W (k + rope) + k H (key - rope + value) + H value W)"
              : "2 T W d (2H + 2G) a layer forward, of Q, K, V and the output",
          sizes.kv_rank > 0 ? "DeepSeek-V2, section 2.1: latent attention, q_rank q and kv_rank k"
                            : "two FLOPs a multiply-add: S0, Arithmetic Complexity",
          projection_flops(job.shape, sizes, tokens));
  product("MLP",
          sizes.experts > 0 ? "2 T (3 W F (active + shared) + E W) a layer forward, the mean one"
                            : "2 T W 3F a layer forward, gate, up and down",
          "S1 part one 2.2: rows by themselves, nothing is sent", mlp_flops(sizes, tokens));
  product("head", "2 T W V forward",
          sizes.tied ? "once a step; its matrix is the embedding" : "once a step",
          head_flops(sizes, tokens));

  const std::tuple<const char*, const char*, ValueSeconds> values[] = {
      {"norms", "2 T W values a layer, T W before the head", figures.norm},
      {"gates", "T F values a layer", figures.gate},
      {"heads", "T (2H + 2G) d values a layer, turned and brought in order", figures.heads},
      {"loss", "T V values", figures.loss}};
  for (const auto& [name, formula, seconds] : values)
    all.add(name, formula, measured ? "not measured" : "bytes read and written / memory_gb_per_s",
            "{:.3g} s forward, {:.3g} s backward a value", seconds.forward, seconds.backward);

  if (step.tensor > 0)
    all.add("tensor", "4 sums a layer (6 with --recompute layer), 2 (T-1)/T b c W e / B + messages",
            "Megatron-LM; with --sequence-parallel the rows are gathered twice more", "{} in all",
            seconds_text(step.tensor));
  if (step.pipeline > 0)
    all.add("pipeline", "(P-1) / V of a micro-batch without the head, and (P-1) messages each way",
            "Narayanan et al., 2021, section 2.2",
            "{}; M micro-batches on the slowest stage besides", seconds_text(step.pipeline));

  constexpr const char* sent = "{:.6g} bytes sent by a rank, {}";
  const int stage = plan.options.model_memory.zero_stage;
  const ModelMemory& memory = plan.options.model_memory;
  const double weights = weights_of_rank(plan.options.job, sizes, memory.expert_ranks);
  const WeightTraffic traffic = weight_traffic(weights, e, memory.sharers(job.world_size), memory,
                                               job.layers, plan.options.micro_batches);
  if (job.backward) {
    const bool once = stage == 1 || (stage == 3 && memory.keeps_gathered);
    const std::string sums = stage == 0 ? "2 " : once ? "" : "a micro-batch ";
    all.add("weights", "V W (2 V W with a head of its own) + W + L (W d (2H + 2G) + 3 W F + 2 W)",
            stage > 0 ? "every rank updates an N-th" : "every rank updates all of them",
            "{:.6g} of a rank, AdamW {:.3g} s each", weights, figures.update_s);
    all.add("gradients", sums + "(N-1)/N of 4 bytes a weight / B + messages",
            "S1 part one 2.3: a sum over the context group; nothing hides it", sent,
            traffic.gradient_bytes, seconds_text(step.reduction));
  }
  if (stage > 0)
    all.add("gathered weights",
            (stage == 3 && !memory.keeps_gathered ? "2 a micro-batch " : "") +
                std::string("(N-1)/N e P / B"),
            "ZeRO, section 7; nothing hides it here", sent, traffic.weight_bytes,
            seconds_text(step.gathering));
  if (memory.shards > 0)
    all.add("copies", "2 (1 - S/N) 4 P/S: what was dealt out over S, added up over N/S copies",
            "hybrid sharding; once a step", "{:.6g} bytes sent by a rank", traffic.copy_bytes);
  if (memory.expert_ranks > 1)
    all.add("experts", "2 k T W e (X-1)/X a layer and pass, rows to k experts on X ranks and back",
            "S3, section 14; nothing hides it here", "{}", seconds_text(step.experts));
  if (memory.offloads)
    all.add("offload", "what the backward pass keeps, but of two layers, to the host and back",
            "beyond what computing hides", "{} a rank there; {}", gib_text(plan.host_bytes),
            seconds_text(step.offload));
}

}  // namespace ringscope
