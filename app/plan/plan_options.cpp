#include "app/plan/plan_options.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "app/command_line/commands.h"
#include "core/base/text.h"
#include "core/sim/scenario.h"
#include "core/sim/search/searched.h"

namespace ringscope {
namespace {

void set_partition(const std::string& text, PlanOptions& plan) {
  plan.searched = text == kSearched;
  plan.partition.reset();
  if (plan.searched) return;
  plan.partition = for_flag("--partition:", [&] { return PartitionSpec::parse(text); });
}

std::optional<ModelSizes> checked_model(const ModelSizes& model) {
  const std::pair<const char*, Index> sizes[] = {
      {"--width", model.width}, {"--hidden", model.hidden}, {"--vocab", model.vocab}};
  const auto is_given = [](const auto& size) { return size.second != 0; };
  if (std::none_of(std::begin(sizes), std::end(sizes), is_given)) return std::nullopt;
  for (const auto& [name, size] : sizes)
    if (size == 0)
      contradiction("plan",
                    fmt::format("no {} given beside {}", name,
                                std::find_if(std::begin(sizes), std::end(sizes), is_given)->first),
                    "--width, --hidden and --vocab together");
  return model;
}

void check_nodes(PlanOptions& plan, std::optional<int> nodes) {
  const bool many = nodes.value_or(1) > 1;
  if (many != plan.between.has_value() || (plan.nics > 1 && !many))
    contradiction(many           ? "--nodes"
                  : plan.between ? "--between"
                                 : "--nics",
                  "given without the link or the nodes that go with it",
                  "--nodes M and --between LINK together, and --nics K with them");
  if (!many) return;
  if (plan.hardware.measure || plan.searched)
    contradiction("--nodes",
                  plan.searched ? "given with --partition searched" : "given beside --measure",
                  "one of them");
  if (plan.job.scheme == Scheme::two_level && plan.job.nodes != *nodes)
    contradiction("--nodes",
                  fmt::format("{} given with --scheme {}", *nodes, plan.job.scheme_name()),
                  "the same number");
  plan.job.nodes = *nodes;
  Scenario scenario;
  scenario.job = plan.job;
  for_flag("--nodes:", [&] { check(scenario); });
}

void complete(PlanOptions& plan, const ModelSizes& model, std::optional<int> nodes) {
  complete_problem("plan", plan.job);
  if (plan.partition == PartitionKind::dealt) {
    plan.job.partition = *plan.partition;
    deal_out(plan.job);
  }
  check_hardware("plan", plan.hardware);
  check_nodes(plan, nodes);
  plan.model = checked_model(model);
  const ModelMemory& memory = plan.model_memory;
  for (const auto& [flag, given, needs_backward] :
       {std::tuple{"--zero", memory.zero_stage > 0, true},
        {"--recompute", memory.recompute != Recompute::none, true},
        {"--gradients", memory.f32_gradients, true},
        {"--micro-batches", plan.micro_batches > 1, true},
        {"--logit-bytes", memory.logit_bytes != ModelMemory{}.logit_bytes, true},
        {"--chunks", memory.chunks > 1, false}}) {
    if (given && !plan.model)
      contradiction(flag, "given without a model",
                    "it with --model, or with --width, --hidden and --vocab");
    if (given && needs_backward && !plan.job.backward)
      contradiction(flag, "given without --backward", "it with --backward");
  }
  if (plan.job.layers > 1 && !plan.job.backward && !plan.model)
    contradiction(
        "--layers", fmt::format("'{}' given without --backward", plan.job.layers),
        "it together with --backward, for which layers keep their activations, or with --width");
  check_speeds(plan.job);
  if (!plan.searched && !plan.job.speeds.empty())
    contradiction("--speeds", "given without --partition searched",
                  "it with --partition searched, which alone deals by speed");
  if (plan.searched && plan.job.scheme != Scheme::ring)
    contradiction("--partition",
                  fmt::format("'{}' given with --scheme {}", kSearched, plan.job.scheme_name()),
                  "it with --scheme ring, whose steps it is searched for");
  if (plan.searched && plan.job.world_size > kMostSearchedRanks)
    contradiction("--partition",
                  fmt::format("'{}' given for {} ranks", kSearched, plan.job.world_size),
                  fmt::format("it for up to {}", kMostSearchedRanks));
}

}  // namespace

Finish declare_plan(CommandFlags& flags) {
  const auto plan = std::make_shared<PlanOptions>();
  const auto model = std::make_shared<ModelSizes>();  // 0: not given
  const auto gradients = std::make_shared<std::optional<std::string>>();
  const auto nodes = std::make_shared<std::optional<int>>();
  add_problem(flags, plan->job);
  flags.count("--layers", plan->job.layers,
              "layers, whose activations are kept for the backward pass (1)");
  flags.value(
      "--partition", "contiguous|striped|zigzag|fold|documents:P|file:RANKS.npy|searched",
      "which rank holds which positions (the best of the first four); searched: one made for "
      "the mask, which takes a second or two",
      [plan](const std::string& text) { set_partition(text, *plan); });
  add_speeds(flags, plan->job.speeds, "for a searched partition");
  flags.value("--scheme", kSchemeNames,
              "how blocks get around (the best of ring, allgather and ulysses)",
              [plan](const std::string& text) {
                for_flag("--scheme", [&] { set_scheme(plan->job, text); });
                plan->scheme_given = true;
              });
  add_kv_buffers(flags, plan->job.kv_buffers,
                 "of a ring: buffers that a rank's blocks take turns in, as memory goes (2)");
  flags.count(
      "--width", model->width,
      "of the rows between layers: counts a whole model, its memory and the time of a step, "
      "with the next two");
  flags.count("--hidden", model->hidden, "of the rows inside its MLP, which has three matrices");
  flags.count("--vocab", model->vocab, "tokens that it tells apart");
  add_model_memory(flags, plan->model_memory);
  flags.count("--micro-batches", plan->micro_batches,
              "batches of a model's step, one after the other; gradients are added up once (1)");
  flags.integer("--zero", plan->model_memory.zero_stage,
                "stage of ZeRO: 1 deals out the optimizer's states over the ranks, 2 gradients as "
                "well, 3 weights as well (0)",
                0, 3);
  flags.value(
      "--model", "NAME",
      "a model's layers, heads and sizes instead of --layers to --vocab: llama3-8b, llama3-70b, "
      "llama3-405b, qwen3-8b, ... (core/cost/models.txt)",
      [plan, model](const std::string& name) {
        const NamedModel found = for_flag("--model", [&] { return find_model(name); });
        AttentionShape& shape = plan->job.shape;
        shape = {shape.batch, found.heads.num_heads, found.heads.num_heads_kv, shape.seqlen,
                 found.heads.head_dim};
        plan->job.layers = found.layers;
        *model = found.sizes;
      });
  flags.number("--logit-bytes", plan->model_memory.logit_bytes,
               {1, 1e3, true, true, "a number from 1 to 1000"},
               "that a logit and its gradients take at the peak; PyTorch's cross_entropy of bf16 "
               "logits: 14 (4)");
  flags.one_of("--gradients", {"stored", "f32"}, *gradients,
               "of weights, kept in the storage type, or in f32 as Megatron-LM does (stored)");
  add_hardware(flags, plan->hardware);
  add_nodes(flags, *nodes, plan->between);
  flags.integer("--nics", plan->nics, "links between nodes that a node has (1)", 1, 1 << 20, "K");
  flags.number("--memory-fraction", plan->memory_fraction,
               {0, 1, false, true, "a number above 0 and up to 1"},
               "of the device's memory that all of it may take (0.9)");
  flags.flag("--explain", plan->explain, "say how every number comes about");
  flags.flag("--json", plan->json, "print one JSON object");
  return [plan, model, gradients, nodes, &flags] {
    for (const char* const flag :
         {"--layers", "--heads", "--heads-kv", "--head-dim", "--width", "--hidden", "--vocab"})
      if (flags.given("--model") && flags.given(flag))
        contradiction(flag, "given beside --model", "one of them");
    plan->model_memory.f32_gradients = *gradients == "f32";
    complete(*plan, *model, *nodes);
    return *plan;
  };
}

}  // namespace ringscope
