#include "app/command_line/option_groups.h"

#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/problem/partition.h"
#include "core/tools/sim/searched.h"
#include "core/trace/json_reader.h"

namespace ringscope {

void add_model_memory(CommandFlags& flags, ModelMemory& memory) {
  flags.name("--recompute", memory.recompute, "none|attention|layer",
             "what the model's backward pass computes again instead of keeping it (none)",
             [](const std::string& text) { return parse_name(text, kAllRecomputes); });
  flags.count("--chunks", memory.chunks,
              "pieces of a rank's rows in which the MLP and the logits are computed, one after the "
              "other; the MLP then again in the backward pass (1)");
}

void check_speeds(const Problem& job) {
  if (!job.speeds.empty() && std::ssize(job.speeds) != job.world_size)
    contradiction(
        "--speeds",
        fmt::format("{} given for {}", job.speeds.size(), count_text(job.world_size, "rank")),
        "a speed a rank");
}

void deal_out_as_given(Problem& job, Granularity tile) {
  check_speeds(job);
  for_flag("--mask '" + job.mask.name() + "':", [&] { job.mask.for_seqlen(job.shape.seqlen); });
  for_flag("--partition '" + job.partition.name() + "':", [&] { deal_out(job, tile); });
}

void add_world_size(CommandFlags& flags, std::optional<int>& world_size, int otherwise) {
  flags.integer("--world-size", world_size,
                fmt::format("ranks ({}; a process per rank: as many as were started)", otherwise));
}

void add_unpack(CommandFlags& flags) {
  static constexpr Range kGiB = {0, 1024, false, "a number above 0, up to 1024"};
  flags.value("--unpack", "GIB", "unpack at most so much of a file that gzip packed (1)",
              [](const std::string& text) {
                FileSource::most_unpacked() = static_cast<std::uint64_t>(
                    for_flag("--unpack:", [&] { return number_in(text, kGiB); }) * 0x1p30);
              });
}

void add_timeout(CommandFlags& flags, double& timeout_s, const std::string& help) {
  constexpr Range kSeconds = {0, 1e9, false,
                              "seconds, more than 0, at most 1e+09, as in 60 or 0.5"};
  flags.number("--timeout", timeout_s, kSeconds, help, 1, "SECONDS");
}

Problem planned_problem() {
  Problem job;
  job.shape = {.batch = 1, .num_heads = 32, .num_heads_kv = 0, .seqlen = 0, .head_dim = 128};
  job.world_size = 0;
  job.dtype = DType::bf16;
  job.hops = Hops::needed;
  return job;
}

void add_problem(CommandFlags& flags, Problem& job) {
  for (const char* row : {"world-size", "seqlen", "batch", "heads", "heads-kv", "head-dim", "dtype",
                          "mask", "backward"})
    flags.row(job, row);
}

void complete_problem(const std::string& command, Problem& job) {
  if (job.shape.seqlen == 0)
    throw InputError(fmt::format("{}: no --seqlen given; accepted: --seqlen N", command));
  if (job.world_size == 0)
    throw InputError(fmt::format("{}: no --world-size given; accepted: --world-size N", command));
  if (job.shape.num_heads_kv == 0) job.shape.num_heads_kv = job.shape.num_heads;
  validate(job.shape);
  for_flag("--mask '" + job.mask.name() + "':", [&] { job.mask.for_seqlen(job.shape.seqlen); });
}

void add_nodes(CommandFlags& flags, std::optional<int>& nodes,
               std::optional<std::string>& between) {
  flags.integer("--nodes", nodes, "nodes of world-size / M ranks; --link is then inside them (1)",
                1, std::numeric_limits<int>::max(), "M");
  flags.text("--between", "NAME|FILE", between, "the link between nodes");
}

void add_hardware(CommandFlags& flags, HardwareOptions& hardware) {
  flags.text("--gpu", "NAME|FILE", hardware.gpu,
             "what a rank computes with: A100, H100, H200, B200, ...");
  flags.text("--link", "NAME|FILE", hardware.link, "from a rank to the next: NVLink4, PCIe5, ...");
  flags.flag("--measure", hardware.measure,
             "take this machine instead: measure its cores and memory, a few seconds");
  flags.flag("--calibrated", hardware.calibrated,
             "count what calls take by themselves, and merging, as published runs show it");
}

void check_hardware(const std::string& command, const HardwareOptions& hardware) {
  const auto& [gpu, link, measure, calibrated] = hardware;
  constexpr const char* kAccepted = "--gpu with --link, or --measure";
  if (measure && (gpu || link))
    contradiction(gpu ? "--gpu" : "--link", "given beside --measure", kAccepted);
  if (measure && calibrated) contradiction("--calibrated", "given beside --measure", "one of them");
  if (!measure && !(gpu && link))
    contradiction(command, fmt::format("no {} given", gpu ? "--link" : "--gpu"), kAccepted);
}

void add_ranks(CommandFlags& flags, RankOptions& ranks, int otherwise, const std::string& dealt) {
  flags.name("--backend", ranks.backend, "cpu|mpi",
             "a thread per rank, or a process per rank (cpu)", parse_backend);
  add_world_size(flags, ranks.world_size, otherwise);
  flags.name("--partition", ranks.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which " + dealt + " (zigzag)", parse_partition);
}

void add_timeout(CommandFlags& flags, RankOptions& ranks) {
  add_timeout(flags, ranks.timeout_s,
              "of --backend mpi: end when a rank gives no sign of life, or nothing moves, for so "
              "long (60)");
}

void check_ranks(const RankOptions& ranks) {
  if (ranks.backend != Backend::cpu && ranks.backend != Backend::mpi)
    contradiction("--backend", fmt::format("'{}' given", name_of(ranks.backend)), "cpu, mpi");
}

}  // namespace ringscope
