#include "app/command_line/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "app/report/machine.h"
#include "core/base/text.h"

namespace ringscope {

void add_hardware(CommandFlags& flags, HardwareOptions& hardware) {
  flags.text("--gpu", "NAME|FILE", hardware.gpu,
             "what a rank computes with: A100, H100, H200, B200, GB200, GB300, ...");
  flags.text("--link", "NAME|FILE", hardware.link, "from a rank to the next: NVLink4, PCIe5, ...");
  flags.one_of("--kernels", {"fa2", "fa3", "cudnn"}, hardware.kernels,
               "whose kernels' share of the peak attention reaches (the table's own)");
  flags.flag("--measure", hardware.measure,
             "take this machine instead: measure its cores and memory, a few seconds");
  flags.flag("--calibrated", hardware.calibrated,
             "count what calls take by themselves, and merging, as published runs show it");
  flags.integer("--nodes", hardware.nodes,
                "nodes of world-size / M ranks; --link is then inside them (1)", 1,
                std::numeric_limits<int>::max(), "M");
  flags.text("--between", "NAME|FILE", hardware.between, "the link between nodes");
}

void check_hardware(const std::string& command, const HardwareOptions& hardware) {
  const bool measure = hardware.measure, gpu = hardware.gpu.has_value(),
             link = hardware.link.has_value();
  constexpr const char* kAccepted = "--gpu with --link, or --measure";
  if (measure && (gpu || link))
    contradiction(gpu ? "--gpu" : "--link", "given beside --measure", kAccepted);
  for (const auto& [flag, is_given] : {std::pair{"--calibrated", hardware.calibrated},
                                       {"--kernels", hardware.kernels.has_value()}})
    if (measure && is_given) contradiction(flag, "given beside --measure", "one of them");
  if (!measure && !(gpu && link))
    contradiction(command, fmt::format("no {} given", gpu ? "--link" : "--gpu"), kAccepted);
}

void place_on_nodes(const CommandFlags& flags, const HardwareOptions& hardware, Problem& job) {
  const int nodes = hardware.nodes.value_or(1);
  if (nodes > 1 && !hardware.between)
    contradiction("--nodes", fmt::format("{} given without --between", nodes),
                  "it together with --between LINK");
  for (const char* const flag : {"--between", "--nics", "--placement"})
    if (nodes == 1 && flags.given(flag))
      contradiction(flag, "given without nodes", "it together with --nodes M");
  if (hardware.nodes && job.nodes > 1 && nodes != job.nodes)
    contradiction("--nodes", fmt::format("{} given with --scheme {}", nodes, job.scheme_name()),
                  "the same number");
  job.nodes = hardware.nodes.value_or(job.nodes);
}

namespace {

Hardware measured_hardware(const Problem& job, int ranks) {
  Hardware found;
  found.is_measured = true;
  found.gpu.name = "this machine's cores";
  found.gpu.memory_bytes = static_cast<double>(available_memory().bytes) / job.world_size;
  found.rates = measure_rates(job.shape.mean_width(), job.dtype, std::min(cores(), ranks));
  found.link = {"copying between threads", found.rates.bytes_per_s, found.rates.latency_s};
  return found;
}

std::string flops_text(const Rates& rates, bool backward) {
  const std::string forward = fmt::format("{:.4g} TFLOP/s", rates.forward_flops / 1e12);
  if (!backward) return forward;
  return fmt::format("{} forward, {:.4g} TFLOP/s backward", forward, rates.backward_flops / 1e12);
}

}  // namespace

Hardware find_hardware(const HardwareOptions& options, const Problem& job, int ranks) {
  Hardware found;
  if (options.measure) {
    found = measured_hardware(job, ranks);
  } else {
    found.gpu = for_flag("--gpu", [&] { return find_gpu(*options.gpu); });
    if (options.kernels) for_flag("--kernels:", [&] { take_kernels(found.gpu, *options.kernels); });
    found.link = for_flag("--link", [&] { return find_link(*options.link); });
    found.rates = for_flag("--dtype:", [&] { return rates_of(found.gpu, found.link, job.dtype); });
  }
  if (options.between)
    found.between = for_flag("--between", [&] { return find_link(*options.between); });
  if (options.calibrated)
    found.calls = for_flag("--calibrated:", [&] { return calibrated_costs(found.gpu); });
  return found;
}

std::string machine_text(const Hardware& hardware, const Problem& job, int nics,
                         Placement placement) {
  const std::string text = fmt::format(
      "{} of {}: {}, {}; {}: {:.4g} GB/s one way", count_text(job.world_size, "rank"),
      hardware.gpu.name, flops_text(hardware.rates, job.backward),
      gib_text(hardware.gpu.memory_bytes), hardware.link.name, hardware.rates.bytes_per_s / 1e9);
  if (!hardware.between) return text;
  return fmt::format("{}; {} nodes{}, {} x {} between them: {:.4g} GB/s", text, job.nodes,
                     placement == Placement::cyclic ? " (cyclic)" : "", nics,
                     hardware.between->name, hardware.between->bytes_per_s / 1e9);
}

Fields machine_fields(const Hardware& hardware, const Problem& job, int nics) {
  const auto& [gpu, link, between, rates, calls, is_measured] = hardware;
  return {{"gpu", gpu.name},
          {"link", link.name},
          {"nodes", job.nodes},
          {between ? "between" : "", between ? between->name : ""},
          {between ? "between_bytes_per_s" : "", between ? between->bytes_per_s : 0},
          {"nics", nics},
          {"measured", is_measured},
          {"calibrated", calls.has_value()},
          {"forward_flops", rates.forward_flops},
          {"backward_flops", rates.backward_flops},
          {"bytes_per_s", rates.bytes_per_s},
          {"latency_s", rates.latency_s},
          {"memory_bytes", gpu.memory_bytes}};
}

}  // namespace ringscope
