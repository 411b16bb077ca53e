#include "bench/predicted/real_runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "bench/program_output.h"
#include "core/base/error.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/summary.h"

namespace ringscope {
namespace {

// Return an mpirun command that binds processes to no cores, because threads are not bound either.
std::string mpirun(int ranks) {
  return fmt::format("mpirun --bind-to none --oversubscribe {} -np {}",
                     ::geteuid() == 0 ? "--allow-run-as-root" : "", ranks);
}

}  // namespace

RealRun run_really(const Problem& job, const std::string& backend, const std::string& trace) {
  const AttentionShape& s = job.shape;
  std::string command = fmt::format(
      "'{}' run --random --backend {} --heads {} --heads-kv {} --seqlen {} --head-dim {} "
      "--mask {} --partition {} --dtype {} {} --json --trace '{}'",
      RINGSCOPE_PROGRAM, backend, s.num_heads, s.num_heads_kv, s.seqlen, s.head_dim,
      job.mask.name(), name_of(job.partition), name_of(job.dtype), job.backward ? "--backward" : "",
      trace);
  if (backend == "mpi") {
    command = mpirun(job.world_size) + " " + command;
  } else {
    command += fmt::format(" --world-size {}", job.world_size);
  }
  RealRun run;
  run.wall_s = number_in(parsed(output_of(command)), "wall_s");
  const RunSummary summary = summarize(read_chrome_trace(trace));
  std::filesystem::remove(trace);
  for (const RankSummary& rank : summary.ranks) run.attend_s += rank.compute_cpu_s;
  return run;
}

#ifdef RINGSCOPE_MPI_HOPS

ProcessFigures measure_processes(int world_size, Index block_bytes) {
  const rapidjson::Document json = parsed(
      output_of(fmt::format("{} '{}' {}", mpirun(world_size), RINGSCOPE_MPI_HOPS, block_bytes)));
  return {number_in(json, "start_s"), {number_in(json, "hop_s"), number_in(json, "byte_s")}};
}

std::string why_not(const std::string& backend) {
  if (backend == "cpu") return "";
  if (backend != "mpi") return "not known; accepted: cpu, mpi";
  return std::system("command -v mpirun >/dev/null") == 0 ? "" : "no mpirun on PATH";
}

#else

ProcessFigures measure_processes(int, Index) { throw RunError("built without MPI"); }

std::string why_not(const std::string& backend) {
  return backend == "cpu" ? "" : "built without MPI";
}

#endif

}  // namespace ringscope
