#include "app/plan/plan_options.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/command_line/flags.h"
#include "core/base/text.h"
#include "core/sim/scenario.h"
#include "core/sim/search/searched.h"

namespace ringscope {
namespace {

double fraction_of_flag(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value > 0 && value <= 1) return value;
  throw InputError(
      fmt::format("--memory-fraction: '{}' given; accepted: a number above 0 and up to 1", text));
}

Scheme parse_job_scheme(const std::string& text) { return parse_name(text, kAllSchemes); }

void set_partition(const std::string& text, PlanOptions& plan) {
  plan.searched = text == kSearched;
  plan.partition.reset();
  if (plan.searched) return;
  try {
    plan.partition = parse_partition(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--partition: {}, {}", error.what(), kSearched));
  }
}

void add_machine(CommandFlags& flags, PlanOptions& plan) {
  add_hardware(flags, plan.hardware);
  flags.value("--memory-fraction", "X", "of the device's memory that attention may take (0.9)",
              [&plan](const std::string& text) { plan.memory_fraction = fraction_of_flag(text); });
}

void add_ways(CommandFlags& flags, PlanOptions& plan) {
  flags.count("--layers", plan.job.layers,
              "layers, whose activations are kept for the backward pass (1)");
  flags.value(
      "--partition", "contiguous|striped|zigzag|fold|searched",
      "which rank holds which positions (the best of the first four); searched: one made for "
      "the mask, which takes a second or two",
      [&plan](const std::string& text) { set_partition(text, plan); });
  flags.name("--scheme", plan.scheme, "ring|allgather|ulysses", "how blocks get around (the best)",
             parse_job_scheme);
  flags.value("--kv-buffers", "K",
              "of a ring: buffers that a rank's blocks take turns in, as memory goes (2)",
              [&plan](const std::string& text) {
                plan.job.kv_buffers =
                    integer_of_flag<int>("--kv-buffers", text, 2, std::numeric_limits<int>::max());
              });
}

void add_model(CommandFlags& flags, ModelSizes& model) {
  flags.count("--width", model.width,
              "of the rows between layers: times a whole step of a model, with the next two");
  flags.count("--hidden", model.hidden, "of the rows inside its MLP, which has three matrices");
  flags.count("--vocab", model.vocab, "tokens that it tells apart");
}

std::optional<ModelSizes> checked_model(const ModelSizes& model) {
  const std::pair<const char*, Index> sizes[] = {
      {"--width", model.width}, {"--hidden", model.hidden}, {"--vocab", model.vocab}};
  const auto is_given = [](const auto& size) { return size.second != 0; };
  if (std::none_of(std::begin(sizes), std::end(sizes), is_given)) return std::nullopt;
  for (const auto& [name, size] : sizes)
    if (size == 0)
      throw InputError(
          fmt::format("plan: no {} given beside {}; accepted: --width, --hidden and "
                      "--vocab together",
                      name, std::find_if(std::begin(sizes), std::end(sizes), is_given)->first));
  return model;
}

}  // namespace

void add_plan(CommandFlags& flags, PlanRequest& request) {
  request.options.job.dtype = DType::bf16;  // unless given
  add_problem(flags, request.problem, request.options.job);
  add_ways(flags, request.options);
  add_model(flags, request.model);
  add_machine(flags, request.options);
  flags.flag("--explain", request.options.explain, "say how every number comes about");
  flags.flag("--json", request.options.json, "print one JSON object");
}

PlanOptions checked_plan(const PlanRequest& request) {
  PlanOptions plan = request.options;
  set_problem("plan", request.problem, plan.job);
  check_hardware("plan", plan.hardware);
  plan.model = checked_model(request.model);
  if (plan.job.layers > 1 && !plan.job.backward && !plan.model)
    throw InputError(
        fmt::format("--layers: '{}' given without --backward; accepted: it together "
                    "with --backward, for which layers keep their activations, or with --width",
                    plan.job.layers));
  if (plan.searched && plan.scheme.value_or(Scheme::ring) != Scheme::ring)
    throw InputError(fmt::format(
        "--partition: '{}' given with --scheme {}; accepted: it with --scheme ring, whose "
        "steps it is searched for",
        kSearched, name_of(*plan.scheme)));
  if (plan.searched && plan.job.world_size > kMostSearchedRanks)
    throw InputError(fmt::format("--partition: '{}' given for {} ranks; accepted: it for up to {}",
                                 kSearched, plan.job.world_size, kMostSearchedRanks));
  return plan;
}

}  // namespace ringscope
