#include "app/command_line/problem_options.h"

#include "app/command_line/flags.h"
#include "core/base/text.h"

namespace ringscope {

void add_problem(CommandFlags& flags, ProblemRequest& request, Problem& job) {
  flags.count("--world-size", request.world_size, "ranks");
  flags.count("--seqlen", request.seqlen, "positions");
  flags.count("--batch", request.batch, "batch entries (1)");
  flags.count("--heads", request.heads, "query heads (32)");
  flags.count("--heads-kv", request.heads_kv,
              "key and value heads, a divisor of the heads (as many)");
  flags.count("--head-dim", request.head_dim, "values a head (128)");
  flags.name("--dtype", job.dtype, "f32|bf16|f16", "storage type (bf16)", parse_dtype);
  flags.name("--mask", job.mask, "MASK",
             "full, causal, window:W, prefix:P, documents:L1,L2,..., joined by + (full)",
             MaskSpec::parse);
  flags.flag("--backward", job.backward, "the backward pass too");
}

void add_hardware(CommandFlags& flags, HardwareOptions& hardware) {
  flags.value("--gpu", "NAME|FILE", "what a rank computes with: A100, H100, H200, B200, ...",
              [&hardware](const std::string& text) { hardware.gpu = text; });
  flags.value("--link", "NAME|FILE", "from a rank to the next: NVLink4, PCIe5, ...",
              [&hardware](const std::string& text) { hardware.link = text; });
  flags.flag("--measure", hardware.measure,
             "take this machine instead: measure its cores and memory, a few seconds");
}

void set_problem(const std::string& command, const ProblemRequest& request, Problem& job) {
  if (request.seqlen == 0)
    throw InputError(fmt::format("{}: no --seqlen given; accepted: --seqlen N", command));
  if (request.world_size == 0)
    throw InputError(fmt::format("{}: no --world-size given; accepted: --world-size N", command));
  job.shape = {request.batch, request.heads,
               request.heads_kv == 0 ? request.heads : request.heads_kv, request.seqlen,
               request.head_dim};
  job.world_size = integer_of_flag<int>("--world-size", std::to_string(request.world_size), 1,
                                        std::numeric_limits<int>::max());
  validate(job.shape);
  for_flag("--mask '" + job.mask.name() + "':", [&] { job.mask.for_seqlen(job.shape.seqlen); });
}

void check_hardware(const std::string& command, const HardwareOptions& hardware) {
  const auto& [gpu, link, measure] = hardware;
  if (measure && (gpu || link))
    throw InputError(
        fmt::format("{}: given beside --measure; accepted: --gpu with --link, or "
                    "--measure",
                    gpu ? "--gpu" : "--link"));
  if (!measure && !(gpu && link))
    throw InputError(fmt::format("{}: no {} given; accepted: --gpu with --link, or --measure",
                                 command, gpu ? "--link" : "--gpu"));
}

}  // namespace ringscope
