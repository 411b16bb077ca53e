#include "app/plan_options.h"

#include "app/flags.h"
#include "app/for_flag.h"
#include "core/base/names.h"

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

JobScheme parse_job_scheme(const std::string& text) { return parse_name(text, kAllJobSchemes); }

void add_machine(CommandFlags& flags, PlanOptions& plan) {
  flags.value("--gpu", "NAME|FILE", "what a rank computes with: A100, H100, H200, B200, ...",
              [&plan](const std::string& text) { plan.gpu = text; });
  flags.value("--link", "NAME|FILE", "from a rank to the next: NVLink4, PCIe5, ...",
              [&plan](const std::string& text) { plan.link = text; });
  flags.flag("--measure", plan.measure,
             "take this machine instead: measure its cores and memory, about 2 s");
  flags.value("--memory-fraction", "X", "of the device's memory that attention may take (0.9)",
              [&plan](const std::string& text) { plan.memory_fraction = fraction_of_flag(text); });
}

void add_problem(CommandFlags& flags, PlanRequest& request) {
  PlanOptions& plan = request.options;
  flags.count("--world-size", request.world_size, "ranks");
  flags.count("--seqlen", request.seqlen, "positions");
  flags.count("--batch", request.batch, "batch entries (1)");
  flags.count("--heads", request.heads, "query heads (32)");
  flags.count("--heads-kv", request.heads_kv,
              "key and value heads, a divisor of the heads (as many)");
  flags.count("--head-dim", request.head_dim, "values a head (128)");
  flags.count("--layers", plan.job.layers,
              "layers whose activations are kept for the backward pass (1)");
  flags.name("--dtype", plan.job.dtype, "f32|bf16|f16", "storage type (bf16)", parse_dtype);
  flags.name("--mask", plan.job.mask, "MASK",
             "full, causal, window:W, prefix:P, documents:L1,L2,..., joined by + (full)",
             MaskSpec::parse);
  flags.name("--partition", plan.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which positions (the best)", parse_partition);
  flags.name("--scheme", plan.scheme, "ring|allgather|ulysses", "how blocks get around (the best)",
             parse_job_scheme);
  flags.flag("--backward", plan.job.backward, "the backward pass too");
}

}  // namespace

void add_plan(CommandFlags& flags, PlanRequest& request) {
  request.options.job.dtype = DType::bf16;  // unless given
  add_problem(flags, request);
  add_machine(flags, request.options);
  flags.flag("--explain", request.options.explain, "say how every number comes about");
  flags.flag("--json", request.options.json, "print one JSON object");
}

PlanOptions checked_plan(const PlanRequest& request) {
  PlanOptions plan = request.options;
  if (request.seqlen == 0) throw InputError("plan: no --seqlen given; accepted: --seqlen N");
  if (request.world_size == 0)
    throw InputError("plan: no --world-size given; accepted: --world-size N");
  if (plan.measure && (plan.gpu || plan.link))
    throw InputError(
        fmt::format("{}: given beside --measure; accepted: --gpu with --link, or "
                    "--measure",
                    plan.gpu ? "--gpu" : "--link"));
  if (!plan.measure && !(plan.gpu && plan.link))
    throw InputError(fmt::format("plan: no {} given; accepted: --gpu with --link, or --measure",
                                 plan.gpu ? "--link" : "--gpu"));
  if (plan.job.layers > 1 && !plan.job.backward)
    throw InputError(
        fmt::format("--layers: '{}' given without --backward; accepted: it together "
                    "with --backward, for which layers keep their activations",
                    plan.job.layers));
  plan.job.shape = {request.batch, request.heads,
                    request.heads_kv == 0 ? request.heads : request.heads_kv, request.seqlen,
                    request.head_dim};
  plan.job.world_size = integer_of_flag<int>("--world-size", std::to_string(request.world_size), 1,
                                             std::numeric_limits<int>::max());
  validate(plan.job.shape);
  for_flag("--mask '" + plan.job.mask.name() + "':",
           [&] { plan.job.mask.for_seqlen(plan.job.shape.seqlen); });
  return plan;
}

}  // namespace ringscope
