#include "app/command_line/option_groups.h"

#include "core/base/text.h"
#include "core/problem/partition.h"
#include "core/tools/sim/searched.h"
#include "core/trace/json_reader.h"

namespace ringscope {

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

void complete_problem(const std::string& command, Problem& job) {
  if (job.shape.seqlen == 0)
    throw InputError(fmt::format("{}: no --seqlen given; accepted: --seqlen N", command));
  if (job.world_size == 0)
    throw InputError(fmt::format("{}: no --world-size given; accepted: --world-size N", command));
  if (job.shape.num_heads_kv == 0) job.shape.num_heads_kv = job.shape.num_heads;
  validate(job.shape);
  job.shape = plainest(job.shape);
  for_flag("--mask '" + job.mask.name() + "':", [&] { job.mask.for_seqlen(job.shape.seqlen); });
}

void add_ranks(CommandFlags& flags, RankOptions& ranks, int otherwise, const std::string& dealt) {
  flags.name("--backend", ranks.backend, "cpu|mpi",
             "a thread per rank, or a process per rank (cpu)", [](const std::string& text) {
               const Backend backend = parse_backend(text);
               if (!is_on_gpus(backend)) return backend;
               throw InputError(fmt::format("'{}' given; accepted: cpu, mpi", text));
             });
  add_world_size(flags, ranks.world_size, otherwise);
  flags.name("--partition", ranks.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which " + dealt + " (zigzag)", parse_partition);
}

void add_timeout(CommandFlags& flags, RankOptions& ranks, const std::string& backends) {
  add_timeout(flags, ranks.timeout_s,
              "of --backend " + backends +
                  ": end when a rank gives no sign of life, or nothing moves, for so long (60)");
}

}  // namespace ringscope
