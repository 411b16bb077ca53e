// Carries out `ringscope plan`, from its flags to the answer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/plan/plan.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "core/attention/blockwise.h"
#include "core/attention/vectors.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/choices.h"
#include "core/tools/sim/scenario.h"
#include "core/tools/sim/work.h"

namespace ringscope {

namespace {

void check_nodes(const CommandFlags& flags, PlanOptions& plan) {
  if (plan.groups() > 1) {
    if (plan.hardware.nodes)
      contradiction("--nodes", "given beside --tensor, --pipeline or --data",
                    "--ranks-a-node, which says what lies on a node");
    if (plan.nics > 1 && !plan.hardware.between)
      contradiction("--nics", "given without --between", "both, or none of them");
    return;
  }
  place_on_nodes(flags, plan.hardware, plan.job);
  if (!plan.hardware.between) return;
  if (plan.hardware.measure || plan.is_searched())
    contradiction("--nodes",
                  plan.is_searched() ? "given with --partition searched" : "given beside --measure",
                  "one of them");
  Scenario scenario;
  scenario.job = plan.job;
  with_dashes([&] { check(scenario); });
}

void complete(const CommandFlags& flags, PlanOptions& plan) {
  complete_problem("plan", plan.job);
  if (plan.job.world_size > kMostSimulatedRanks)
    contradiction("--world-size", fmt::format("{} given", plan.job.world_size),
                  fmt::format("up to {}, which pass blocks to each other; more by --tensor, "
                              "--pipeline and --data",
                              kMostSimulatedRanks));
  if (plan.partition == PartitionKind::dealt) {
    plan.job.partition = *plan.partition;
    deal_out_as_given(plan.job);
  }
  check_hardware("plan", plan.hardware);
  if (plan.in_8_bits && (plan.hardware.measure || plan.job.dtype == DType::f32))
    contradiction("--products",
                  plan.hardware.measure ? "fp8 given beside --measure" : "fp8 given for f32",
                  "it with --gpu and --dtype bf16 or f16");
  if (plan.model_memory.offloads && plan.hardware.measure)
    contradiction("--offload", "activations given beside --measure", "one of them");
  check_nodes(flags, plan);
  split_up(plan);
  check_speeds(plan.job);
  if (!plan.is_searched() && !plan.job.speeds.empty())
    contradiction("--speeds", "given without --partition searched",
                  "it with --partition searched, which alone deals by speed");
  if (plan.is_searched() && plan.job.scheme->course != Course::steps)
    contradiction("--partition",
                  fmt::format("'{}' given with --scheme {}", kSearched, plan.job.scheme_name()),
                  "it with --scheme ring, whose steps it is searched for");
  if (plan.is_searched() && plan.job.world_size > kMostSearchedRanks)
    contradiction("--partition",
                  fmt::format("'{}' given for {} ranks", kSearched, plan.job.world_size),
                  fmt::format("it for up to {}", kMostSearchedRanks));
}

// Ranks on this machine are threads, which share its cores.
void share_cores(Plan& plan) {
  const int ranks = plan.options.job.world_size;
  const double share_of_core = static_cast<double>(std::min(cores(), ranks)) / ranks;
  plan.rates.forward_flops *= share_of_core;
  plan.rates.backward_flops *= share_of_core;
}

bool is_asked_for(const Choice& choice, const PlanOptions& options) {
  // A partition is searched for the steps of a ring, which is the default.
  const bool right_scheme = !(options.scheme_given || options.is_searched()) ||
                            choice.job.scheme_name() == options.job.scheme_name();
  // Leave Ulysses out if a partition was asked for, because it makes no difference to Ulysses.
  const bool right_partition =
      !options.partition || (choice.job.scheme->course == Course::heads
                                 ? options.scheme_given
                                 : choice.job.partition.name() == options.partition->name());
  return right_scheme && right_partition;
}

// Return the ways that are compared: the schemes that need no number and, if there are nodes or another one
// was asked for, two-level or that scheme in every partition.
std::vector<Problem> compared_ways(const Plan& plan) {
  const Problem& job = plan.options.job;
  Problem tried = job;
  tried.scheme = default_scheme();
  tried.numbers = Problem().numbers;
  std::vector<Problem> ways = all_ways(tried);
  const bool is_compared = job.scheme->course == Course::steps || is_plain(job);
  const bool by_heads = job.scheme->course == Course::heads;
  if (by_heads && job.slices() > 1) ways.push_back(job);
  if (by_heads || (is_compared && !plan.between)) return ways;
  std::vector<PartitionSpec> partitions(std::begin(kAllPartitions), std::end(kAllPartitions));
  if (job.partition == PartitionKind::dealt) partitions.push_back(job.partition);
  tried = job;
  if (is_compared)
    for (const Scheme* const scheme : all_schemes())
      if (scheme->counts_nodes) tried.scheme = scheme;
  for (const PartitionSpec& partition : partitions) {
    tried.partition = partition;
    ways.push_back(tried);
  }
  return ways;
}

Choice judge_simulated(const Plan& plan, const Problem& job, const MemoryOf& memory_of) {
  const PlanOptions& options = plan.options;
  Scenario scenario;
  scenario.job = job;
  // A loop of messages sees which rows a rank has, also in Ulysses.
  if (job.scheme->course == Course::heads && options.partition)
    scenario.job.partition = options.job.partition == PartitionKind::dealt || options.is_searched()
                                 ? options.job.partition
                                 : *options.partition;
  scenario.rates = plan.rates;
  scenario.nics = options.nics;
  scenario.between = plan.between.value_or(Link{});
  scenario.calibrated = plan.calls;
  scenario.granularity = plan.tile;
  if (!obstacle(scenario)) require_memory_to_simulate(scenario.job);
  return judge_by_simulation(std::move(scenario), plan.memory_limit, memory_of);
}

// Judge a way by the closed forms, or by following the scheme's loop where it has none. `balances` are of
// a ring and an all-gather, by partition.
Choice judge_way(const Plan& plan, const Problem& job, const MemoryOf& memory_of,
                 std::map<std::string, Balance>& balances) {
  const bool by_heads = job.scheme->course == Course::heads;
  if (!(is_plain(job) || by_heads) || is_followed(job) || plan.between || plan.calls)
    return judge_simulated(plan, job, memory_of);
  if (by_heads) return judge(job, balance_of(job), plan.rates, plan.memory_limit, memory_of);
  const auto [found, is_new] = balances.try_emplace(job.partition.name());
  if (is_new)
    found->second =
        plan.options.is_searched() ? balance_of(Work(job, plan.tile), job.speeds) : balance_of(job);
  return judge(job, found->second, plan.rates, plan.memory_limit, memory_of);
}

Choice choose(const Plan& plan) {
  std::vector<Choice> asked_for;
  std::copy_if(plan.choices.begin(), plan.choices.end(), std::back_inserter(asked_for),
               [&](const Choice& choice) { return is_asked_for(choice, plan.options); });
  if (const auto best = best_choice(asked_for)) return asked_for[*best];
  // If no choice is feasible, return the one that would be the fastest, with its obstacle. Ulysses
  // keeps its obstacle, because it may be meaningless with too few heads.
  std::vector<Choice> unhindered = asked_for;
  for (Choice& choice : unhindered)
    if (choice.job.scheme->course != Course::heads) choice.obstacle.reset();
  return asked_for[best_choice(unhindered).value_or(0)];
}

// Find the overlap of a ring with the chosen partition, whatever the chosen scheme.
void find_overlap(Plan& plan) {
  Problem ring = plan.chosen.job;
  ring.scheme = default_scheme();
  const Balance balance = plan.options.is_searched() ? plan.chosen.balance : balance_of(ring);
  plan.share = least_share(ring, balance);
  if (ring.world_size == 1) return;
  const auto overlap = [&](Pass pass) {
    const double rows = threshold_rows(ring, plan.ring_rates(), pass, plan.share);
    return Overlap{rows, plan.rows / rows};
  };
  plan.forward = overlap(Pass::forward);
  plan.backward = ring.backward ? overlap(Pass::backward) : Overlap{};
  const double rows = std::max(plan.forward.threshold_rows, plan.backward.threshold_rows);
  if (std::isfinite(rows)) plan.hidden_seqlen = std::ceil(rows) * ring.world_size;
}

// Tiles of the GPU kernels, and of the CPU kernel that is measured.
constexpr Granularity kGpuTile = {128, 128};
const Granularity kCpuTile = {kTileRows, vector_width()};

// Throw InputError for unknown hardware or a bad table. With --measure this takes about 2 s.
Plan make_plan(const PlanOptions& options) {
  Plan plan;
  static_cast<Hardware&>(plan) =
      find_hardware(options.hardware, options.job, options.job.world_size);
  plan.options = options;
  if (plan.is_measured) share_cores(plan);
  if (options.model) plan.model = model_plan(plan);
  if (options.model_memory.offloads && !plan.gpu.host_bytes_per_s)
    contradiction(
        "--offload",
        fmt::format("activations given for gpu {}, which has no host_gb_per_s", plan.gpu.name),
        "one that has");
  place_groups(plan);
  if (options.is_searched()) {
    plan.tile = plan.is_measured ? kCpuTile : kGpuTile;
    plan.options.job.partition = *options.partition;
    deal_out_as_given(plan.options.job, plan.tile);
  }
  plan.memory_limit = options.memory_fraction * plan.gpu.memory_bytes;
  const MemoryOf memory_of = [&](const Problem& job) {
    return total_bytes(memory_bill(options, job, job.max_rows()));
  };
  if (options.scheme_given) with_dashes([&] { check_scheme(options.job); });
  std::map<std::string, Balance> balances;
  with_dashes([&] {
    for (const Problem& way : compared_ways(plan))
      plan.choices.push_back(judge_way(plan, way, memory_of, balances));
  });
  plan.best = best_choice(plan.choices);
  plan.chosen = choose(plan);
  const Problem& job = plan.chosen.job;
  plan.rows = job.max_rows();
  plan.memory = memory_bill(options, job, plan.rows);
  find_overlap(plan);
  if (plan.model) {
    LayerTime second = plan.chosen.time;  // of every second layer
    if (!options.model->second_mask.empty()) {
      const Problem other =
          for_flag("--model:", [&] { return of_second_layers(job, *options.model); });
      balances.clear();
      second = judge_way(plan, other, memory_of, balances).time;
    }
    plan.model->step = step_time(plan, second);
    plan.host_bytes = options.model_memory.in_flight *
                      offloaded_bytes(job, *options.model, options.model_memory, plan.rows);
  }
  plan.largest_seqlen = largest_seqlen(job, plan.memory_limit, memory_of);
  plan.smallest_world_size = smallest_world_size(job, plan.memory_limit, memory_of);
  Problem alone = job;
  alone.world_size = 1;
  alone.partition = PartitionKind::contiguous;
  alone.scheme = default_scheme();
  const MemoryOf naive = [&](const Problem& some) {
    const auto rows = static_cast<double>(some.shape.seqlen);
    return memory_of(some) + static_cast<double>(some.shape.batch * some.shape.num_heads) * rows *
                                 rows * some.storage_bytes();
  };
  for (const auto& [name, key, bytes_of] :
       {std::tuple{"flash, one rank", "flash", memory_of}, {"naive, one rank", "naive", naive}})
    plan.alone.push_back(
        {name, key, bytes_of(alone), largest_seqlen(alone, plan.memory_limit, bytes_of)});
  return plan;
}

}  // namespace

std::vector<MemoryPart> memory_bill(const PlanOptions& options, const Problem& job, double rows) {
  if (!options.model) return memory_parts(job, rows);
  return model_memory_parts(job, *options.model, options.model_memory, rows);
}

namespace {

// Add what a model's step keeps in memory, and how it gets by with less.
void add_model_memory(CommandFlags& flags, PlanOptions& plan) {
  ModelMemory& memory = plan.model_memory;
  const auto of_training = [&] { flags.needs("--model NAME or --width N").needs("--backward"); };
  const auto word = [&](const char* flag, bool& target, const char* other, const char* chosen,
                        const char* help) {
    flags.name(flag, target, fmt::format("{}|{}", other, chosen), help,
               [=](const std::string& text) {
                 if (text == other || text == chosen) return text == chosen;
                 throw InputError(fmt::format("'{}' given; accepted: {}, {}", text, other, chosen));
               });
  };
  flags.name("--recompute", memory.recompute, "none|attention|layer",
             "what the model's backward pass computes again instead of keeping it (none)",
             [](const std::string& text) { return parse_name(text, kAllOf<Recompute>); });
  of_training();
  word("--offload", memory.offloads, "none", "activations",
       "what lies in the host's memory until the backward pass, but of two layers (none)");
  of_training();
  flags
      .count("--chunks", memory.chunks,
             "pieces of a rank's rows in which the MLP and the logits are computed, one after the "
             "other; the MLP then again in the backward pass (1)")
      .needs("--model NAME or --width N");
  flags.count("--logit-chunks", memory.logit_chunks, "of the logits alone (as --chunks)")
      .needs("--model NAME or --width N");
  flags.count("--micro-batches", plan.micro_batches,
              "batches of a model's step, one after the other; gradients are added up once (1)");
  of_training();
  flags.integer("--zero", memory.zero_stage,
                "stage of ZeRO: 1 deals out the optimizer's states over the ranks, 2 gradients as "
                "well, 3 weights as well (0)",
                0, 3);
  of_training();
  flags
      .integer("--shard", memory.shards,
               "over how many ranks that is, of those with the same weights; the others hold "
               "copies, as in HSDP (all)",
               1, kMostGroupedRanks, "S")
      .needs("--zero 1|2|3");
  flags
      .integer("--expert", memory.expert_ranks,
               "ranks that share the experts of a mixture, of those with the same weights (1)", 1,
               kMostGroupedRanks)
      .needs("--model NAME");
  word("--products", plan.in_8_bits, "stored", "fp8",
       "of the layers with weights: in the storage type, or in 8 bits (stored)");
  flags.needs("--model NAME or --width N");
  flags.number("--logit-bytes", memory.logit_bytes, {1, 1e3, true, "a number from 1 to 1000"},
               "that a logit and its gradients take at the peak; PyTorch's cross_entropy of bf16 "
               "logits: 14 (4)");
  of_training();
  word("--gradients", memory.f32_gradients, "stored", "f32",
       "of weights, kept in the storage type, or in f32 as Megatron-LM does (stored)");
  of_training();
}

}  // namespace

Finish declare_plan(CommandFlags& flags) {
  const auto plan = std::make_shared<PlanOptions>();
  const auto model = std::make_shared<ModelSizes>();  // 0: not given
  const auto groups = std::make_shared<GroupFlags>();
  for (const char* row : {"world-size", "seqlen", "batch", "heads", "heads-kv", "head-dim", "dtype",
                          "mask", "backward"})
    flags.row(plan->job, row);
  flags
      .count("--layers", plan->job.layers,
             "layers, whose activations are kept for the backward pass (1)")
      .needs("--backward or --model NAME or --width N");
  flags.value(
      "--partition", "contiguous|striped|zigzag|fold|documents:P|file:RANKS.npy|searched",
      "which rank holds which positions (the best of the first four); searched: one made for "
      "the mask",
      [plan](const std::string& text) {
        plan->partition = for_flag("--partition:", [&] { return PartitionSpec::parse(text); });
      });
  flags.row(plan->job, "speeds");
  flags.value("--scheme", scheme_names(),
              "how blocks get around (the best of ring, allgather and ulysses)",
              [plan](const std::string& text) {
                for_flag("--scheme", [&] { set_scheme(plan->job, text); });
                plan->scheme_given = true;
              });
  flags.row(plan->job, "hops");
  flags.integer("--kv-buffers", plan->job.kv_buffers,
                "of a ring: buffers that a rank's blocks take turns in, as memory goes (2)", 2,
                std::numeric_limits<int>::max(), "K");
  flags
      .count("--width", model->width,
             "of the rows between layers: counts a whole model, its memory and the time of a step, "
             "with the next two")
      .needs("--hidden N");
  flags.count("--hidden", model->hidden, "of the rows inside its MLP, which has three matrices")
      .needs("--vocab N");
  flags.count("--vocab", model->vocab, "tokens that it tells apart").needs("--width N");
  flags.value(
      "--model", "NAME",
      "a model's layers, heads and sizes instead of --layers to --vocab: llama3-8b, llama3-70b, "
      "llama3-405b, qwen3-8b, deepseek-v3, ... (core/tools/cost/models.txt)",
      [plan, model](const std::string& name) {
        const NamedModel found = for_flag("--model", [&] { return find_model(name); });
        AttentionShape& shape = plan->job.shape;
        shape = {shape.batch, found.heads.num_heads, found.heads.num_heads_kv, shape.seqlen,
                 found.heads.head_dim};
        plan->job.layers = found.layers;
        *model = found.sizes;
      });
  add_model_memory(flags, *plan);
  add_hardware(flags, plan->hardware);
  flags.integer("--nics", plan->nics, "links between nodes that a node has (1)", 1, 1 << 20, "K");
  flags.number("--memory-fraction", plan->memory_fraction,
               {0, 1, false, "a number above 0 and up to 1"},
               "of the device's memory that all of it may take (0.9)");
  add_groups(flags, *plan, *groups);
  flags.flag("--explain", plan->explain, "say how every number comes about");
  flags.flag("--json", plan->json, "print one JSON object");
  return [plan, model, groups, &flags] {
    for (const char* const flag :
         {"--layers", "--heads", "--heads-kv", "--head-dim", "--width", "--hidden", "--vocab"})
      if (flags.given("--model") && flags.given(flag))
        contradiction(flag, "given beside --model", "one of them");
    if (model->width > 0) plan->model = *model;
    std::vector<PlanOptions> plans = with_contexts(flags, *plan, *groups);
    for (PlanOptions& each : plans) complete(flags, each);
    PlanOptions first = plans.front();
    if (groups->context == "all") first.contexts = std::move(plans);
    return first;
  };
}

int carry_out(const PlanOptions& options) {
  std::vector<Plan> plans;
  for (const PlanOptions& each : options.contexts) plans.push_back(make_plan(each));
  const std::vector<Fields> contexts = contexts_fields(plans);
  if (plans.empty()) plans.push_back(make_plan(options));
  // The fastest that fits comes first, or else the one that needs the least memory.
  const Plan& plan =
      *std::min_element(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
        const auto order = [](const Plan& some) {
          const bool fits = !some.chosen.obstacle;
          return std::pair(!fits,
                           fits && some.model ? some.model->step.total() : some.chosen.peak_bytes);
        };
        return order(a) < order(b);
      });
  if (options.json) {
    Fields fields = plan_fields(plan);
    if (!contexts.empty()) fields.emplace_back("contexts", contexts);
    if (options.explain) fields.emplace_back("explanation", plan_explanation(plan));
    print_out(json_line(fields));
    return 0;
  }
  print_out((contexts.empty() ? "" : table_text(contexts) + "\nThe best of these:\n\n") +
            plan_text(plan) + (options.explain ? "\n" + plan_explanation(plan) : ""));
  return 0;
}

}  // namespace ringscope
