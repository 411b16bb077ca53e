#include "app/plan_options.h"

#include "app/flags.h"
#include "app/for_flag.h"
#include "core/base/names.h"

namespace ringscope {
namespace {

// The shape of a 7B model's attention, for whoever does not say.
constexpr Index kHeads = 32, kHeadDim = 128;

struct GivenSizes {
  Index batch = 1, heads = kHeads, heads_kv = 0, seqlen = 0, head_dim = kHeadDim;
  Index world_size = 0;
};

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

void add_problem(CommandFlags& flags, PlanOptions& plan, GivenSizes& sizes) {
  flags.count("--world-size", sizes.world_size, "ranks");
  flags.count("--seqlen", sizes.seqlen, "positions");
  flags.count("--batch", sizes.batch, "batch entries (1)");
  flags.count("--heads", sizes.heads, "query heads (32)");
  flags.count("--heads-kv", sizes.heads_kv,
              "key and value heads, a divisor of the heads (as many)");
  flags.count("--head-dim", sizes.head_dim, "values a head (128)");
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

void check(PlanOptions& plan, const GivenSizes& sizes) {
  if (sizes.seqlen == 0) throw InputError("plan: no --seqlen given; accepted: --seqlen N");
  if (sizes.world_size == 0)
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
  plan.job.shape = {sizes.batch, sizes.heads, sizes.heads_kv == 0 ? sizes.heads : sizes.heads_kv,
                    sizes.seqlen, sizes.head_dim};
  plan.job.world_size = integer_of_flag<int>("--world-size", std::to_string(sizes.world_size), 1,
                                             std::numeric_limits<int>::max());
  validate(plan.job.shape);
  for_flag("--mask '" + plan.job.mask.name() + "':",
           [&] { plan.job.mask.for_seqlen(plan.job.shape.seqlen); });
}

}  // namespace

PlanOptions parse_plan(const std::vector<std::string>& arguments) {
  PlanOptions plan;
  plan.job.dtype = DType::bf16;
  GivenSizes sizes;
  CLI::App command("What a run will cost on a machine, by formula.", "ringscope plan");
  CommandFlags flags(&command);
  add_problem(flags, plan, sizes);
  add_machine(flags, plan);
  flags.flag("--explain", plan.explain, "say how every number comes about");
  flags.flag("--json", plan.json, "print one JSON object");
  try {
    flags.parse("ringscope plan", {arguments.begin() + 1, arguments.end()});
  } catch (const CLI::CallForHelp&) {
    plan.help = command.help();
    return plan;
  }
  check(plan, sizes);
  return plan;
}

}  // namespace ringscope
