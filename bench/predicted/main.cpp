// Compares simulated rings with real ones on this machine: measures the machine, runs a ring on
// threads or processes, and simulates it from the measurements, in turn for every problem of a
// grid. The fastest run and the fastest prediction of each problem count, because other work on the
// machine only adds time. The machine must be otherwise idle.
//
//   build/release/bench/predicted/bin/predicted [--backends cpu,mpi] [--world-sizes 2,4,8]
//       [--seqlens 4096,8192] [--partitions zigzag,fold] [--schemes ring,ulysses]
//       [--mask causal] [--head-dim 64]
//       [--heads 4] [--backward] [--repeats 5] [--measure-s 0.3] [--csv FILE]
//
//   wall      predicted / measured wall time of the slowest rank
//   attend    the same of processor time in all ranks' compute slices. If this is off, the
//             kernels' figures are (or the machine was busy); if only `wall` is, the schedule is
//   hop       share of the processor time that hops are predicted to take
//
// Rings and all-gathers are predicted from the measured costs of tiles, rows and hops, other schemes
// as `simulate --measure` does: from one rate each of computing and copying. What ranks, heads or the
// simulation of shared cores don't allow is left out.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/programs.h"
#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cost/measure.h"
#include "core/cost/time.h"
#include "core/ring/loop_counts.h"
#include "core/ring/problem.h"
#include "core/sim/shared_cores.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/summary.h"

namespace ringscope {
namespace {

// A grid of problems, and how often to measure each.
struct Options {
  std::vector<std::string> backends = {"cpu", "mpi"};
  std::vector<int> world_sizes = {2, 3, 4, 5, 6, 7, 8};
  std::vector<Index> seqlens = {2048, 4096, 8192, 16384, 32768};
  std::vector<std::string> partitions = {"contiguous", "striped", "zigzag", "fold"};
  std::vector<std::string> schemes = {"ring"};
  std::string mask = "causal";
  Index head_dim = 64;
  Index heads = 0;  // 0: more for shorter sequences, so that every run takes a while
  bool backward = false;
  int repeats = 5;
  double measure_s = 0.3;  // for each pass, before each run
  std::string csv;

  Index heads_of(Index seqlen) const {
    return heads > 0 ? heads : std::clamp<Index>(32768 / seqlen, 1, 8);
  }
};

void add_to(CLI::App& app, Options& options) {
  app.add_option("--backends", options.backends)->delimiter(',');
  app.add_option("--world-sizes", options.world_sizes)->delimiter(',')->check(kPositive);
  app.add_option("--seqlens", options.seqlens)->delimiter(',')->check(kPositive);
  app.add_option("--partitions", options.partitions)->delimiter(',');
  app.add_option("--schemes", options.schemes)->delimiter(',');
  app.add_option("--mask", options.mask);
  app.add_option("--head-dim", options.head_dim)->check(kPositive);
  app.add_option("--heads", options.heads)->check(kPositive);
  app.add_flag("--backward", options.backward);
  app.add_option("--repeats", options.repeats)->check(kPositive);
  app.add_option("--measure-s", options.measure_s)->check(CLI::Range(1e-3, 1e6));
  app.add_option("--csv", options.csv);
}

// ---
// Runs the program itself on the problem that is predicted, and measures hops between processes.

struct RealRun {
  double wall_s = 0;
  double attend_s = 0;  // processor seconds of all ranks within compute slices
};

// The costs of a ring of processes, as mpi_hops.cpp measures them.
struct ProcessFigures {
  double start_s = 0;  // additional time of a rank's first hop
  HopFigures hops;
};

// Return an mpirun command that binds processes to no cores, because threads are not bound either.
std::string mpirun(int ranks) {
  return fmt::format("mpirun --bind-to none --oversubscribe {} -np {}",
                     ::geteuid() == 0 ? "--allow-run-as-root" : "", ranks);
}

// Run `ringscope run --random` of `job`, on threads ("cpu") or on processes under mpirun ("mpi").
// `trace` is a temporary file for the recording. Throw RunError with the failed command.
RealRun run_really(const Problem& job, const std::string& backend, const std::string& trace) {
  const AttentionShape& s = job.shape;
  std::string command = fmt::format(
      "'{}' run --random --backend {} --heads {} --heads-kv {} --seqlen {} --head-dim {} "
      "--mask {} --partition {} --scheme {} --dtype {} {} --json --trace '{}'",
      RINGSCOPE_PROGRAM, backend, s.num_heads, s.num_heads_kv, s.seqlen, s.head_dim,
      job.mask.name(), name_of(job.partition), job.scheme_name(), name_of(job.dtype),
      job.backward ? "--backward" : "", trace);
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

// Return why there can be no runs on `backend`, or "".
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

// ---
// The program.

struct Outcome {
  std::string backend;
  Problem job;
  double predicted_s = 0, measured_s = 0;                // fastest
  double predicted_median_s = 0, measured_median_s = 0;  // of the same
  double predicted_attend_s = 0, measured_attend_s = 0;  // fastest
  double hop_share = 0;

  double ratio() const { return predicted_s / measured_s; }
  double attend_ratio() const { return predicted_attend_s / measured_attend_s; }
  bool is_close() const { return std::abs(ratio() - 1) <= 0.1; }
};

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Return the processor seconds of all tasks of a kind.
double total_of(LoopTask::Kind kind, const LoopGraph& graph, const TaskCosts& costs) {
  double total = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    if (graph.tasks[i].kind == kind) total += costs.seconds[i];
  return total;
}

// What one prediction says, in seconds but for the last.
struct Prediction {
  double wall = 0, attend = 0, hop_share = 0;
};

// Predict a job from the measured costs of tiles, rows and hops.
Prediction predict_by_figures(const Options& options, const Problem& job,
                              const ProcessFigures* processes) {
  const LoopGraph graph = graph_of_loops(job);
  const Index block_bytes =
      static_cast<Index>(2 * kv_values(job.shape, job.max_rows())) * bytes_of(job.dtype);
  CpuFigures figures = measure_cpu({.head_dim = job.shape.head_dim,
                                    .dtype = job.dtype,
                                    .backward = job.backward,
                                    .threads = std::min(2 * cores(), job.world_size),
                                    .world_size = processes == nullptr ? job.world_size : 1,
                                    .block_bytes = block_bytes,
                                    .seconds = options.measure_s});
  if (processes != nullptr) {
    figures.hops = processes->hops;
    figures.start_s = processes->start_s;
  }
  const TaskCosts costs = cpu_costs(graph, job, figures);
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = {1, 1, 1, 0};  // not used
  machine.cores = cores();
  machine.cpu = std::make_shared<const CpuFigures>(figures);
  const double wall = simulate({.job = job, .pace = Pace::buffers}, Work(job), machine).wall_s();
  return {wall, total_of(LoopTask::Kind::attend, graph, costs),
          total_of(LoopTask::Kind::hop, graph, costs) / cores() / wall};
}

// Predict a job from measured rates. Processes share memory, so they copy as threads do.
Prediction predict_by_rates(const Problem& job) {
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = measure_rates(job.shape.head_dim, job.dtype, std::min(cores(), job.world_size));
  machine.cores = cores();
  const Work work(job, {kTileRows, kVectorWidth});
  double pairs = 0;
  for (int rank = 0; rank < job.world_size; ++rank)
    for (int owner = 0; owner < job.world_size; ++owner) pairs += work.computed_pairs(rank, owner);
  Prediction prediction{simulate({.job = job, .pace = Pace::buffers}, work, machine).wall_s()};
  prediction.attend = compute_seconds(job, machine.rates, Pass::forward, pairs);
  if (job.backward) prediction.attend += compute_seconds(job, machine.rates, Pass::backward, pairs);
  return prediction;
}

Outcome predict(const Options& options, const std::string& backend, const Problem& job,
                const ProcessFigures* processes) {
  const std::string trace = fmt::format("/tmp/predicted-{}.json", ::getpid());
  std::vector<double> predicted, measured, predicted_attend, measured_attend;
  Outcome outcome{backend, job};
  for (int i = 0; i < options.repeats; ++i) {
    const Prediction one =
        is_plain(job) ? predict_by_figures(options, job, processes) : predict_by_rates(job);
    predicted.push_back(one.wall);
    predicted_attend.push_back(one.attend);
    outcome.hop_share = one.hop_share;
    const RealRun run = run_really(job, backend, trace);
    measured.push_back(run.wall_s);
    measured_attend.push_back(run.attend_s);
  }
  outcome.predicted_s = least_of(predicted);
  outcome.measured_s = least_of(measured);
  outcome.predicted_median_s = median_of(predicted);
  outcome.measured_median_s = median_of(measured);
  outcome.predicted_attend_s = least_of(predicted_attend);
  outcome.measured_attend_s = least_of(measured_attend);
  return outcome;
}

void print_case(const Outcome& o) {
  fmt::print(
      "{:<4} N {}  {:>6} x {} x {}  {:<13} {:<10}  predicted {:8.2f} ms  measured {:8.2f} ms  "
      "wall {:.3f}  attend {:.3f}  hop {:4.1f} %{}\n",
      o.backend, o.job.world_size, o.job.shape.seqlen, o.job.shape.num_heads, o.job.shape.head_dim,
      o.job.scheme_name(), name_of(o.job.partition), 1e3 * o.predicted_s, 1e3 * o.measured_s,
      o.ratio(), o.attend_ratio(), 100 * o.hop_share, o.is_close() ? "" : "  *");
  std::fflush(stdout);
}

std::string csv_of(const std::vector<Outcome>& outcomes) {
  std::string text =
      "backend,world_size,seqlen,heads,head_dim,mask,partition,scheme,backward,predicted_s,"
      "measured_s,"
      "ratio,predicted_median_s,measured_median_s,predicted_attend_s,measured_attend_s,hop_share\n";
  for (const Outcome& o : outcomes)
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.4f},{:.6g},{:.6g},{:.6g},{:.6g},"
        "{:.4f}\n",
        o.backend, o.job.world_size, o.job.shape.seqlen, o.job.shape.num_heads,
        o.job.shape.head_dim, o.job.mask.name(), name_of(o.job.partition), o.job.scheme_name(),
        o.job.backward ? 1 : 0, o.predicted_s, o.measured_s, o.ratio(), o.predicted_median_s,
        o.measured_median_s, o.predicted_attend_s, o.measured_attend_s, o.hop_share);
  return text;
}

// Print the shares of close predictions among all outcomes with the same `key`.
template <class Key>
void print_shares(const std::vector<Outcome>& outcomes, Key&& key) {
  struct Share {
    int count = 0, close = 0;
    double least = 10, most = 0, sum = 0;
  };
  std::map<std::string, Share> shares;
  for (const Outcome& o : outcomes) {
    Share& share = shares[key(o)];
    ++share.count;
    share.close += o.is_close() ? 1 : 0;
    share.least = std::min(share.least, o.ratio());
    share.most = std::max(share.most, o.ratio());
    share.sum += o.ratio();
  }
  for (const auto& [name, share] : shares)
    fmt::print(
        "{:<24} {:3} of {:3} within 10 %   predicted / measured {:.3f} to {:.3f}, mean {:.3f}\n",
        name, share.close, share.count, share.least, share.most, share.sum / share.count);
}

void print_summary(std::vector<Outcome> outcomes) {
  fmt::print("\n");
  print_shares(outcomes, [](const Outcome& o) { return o.backend; });
  print_shares(outcomes, [](const Outcome& o) {
    return fmt::format("{} {}", o.backend, o.job.scheme_name());
  });
  print_shares(outcomes, [](const Outcome& o) {
    return fmt::format("{} {}", o.backend, name_of(o.job.partition));
  });
  print_shares(outcomes, [](const Outcome& o) {
    return fmt::format("{} world-size {}", o.backend, o.job.world_size);
  });
  print_shares(outcomes, [](const Outcome& o) {
    return fmt::format("{} seqlen {:6}", o.backend, o.job.shape.seqlen);
  });
  std::ranges::sort(outcomes, [](const Outcome& a, const Outcome& b) {
    return std::abs(std::log(a.ratio())) > std::abs(std::log(b.ratio()));
  });
  fmt::print("\nthe furthest off:\n");
  for (std::size_t i = 0; i < std::min<std::size_t>(5, outcomes.size()); ++i)
    print_case(outcomes[i]);
}

void run(const Options& options) {
  std::vector<Outcome> outcomes;
  for (const std::string& backend : options.backends) {
    if (const std::string why = why_not(backend); !why.empty()) {
      fmt::print("{}: skipped, {}\n", backend, why);
      continue;
    }
    for (const Index seqlen : options.seqlens)
      for (const int world_size : options.world_sizes) {
        Problem job;
        const Index heads = options.heads_of(seqlen);
        job.shape = {1, heads, heads, seqlen, options.head_dim};
        job.mask = MaskSpec::parse(options.mask);
        job.world_size = world_size;
        job.backward = options.backward;
        ProcessFigures processes;
        if (backend == "mpi")
          processes = measure_processes(
              world_size, static_cast<Index>(2 * kv_values(job.shape, job.max_rows())) * 4);
        for (const std::string& scheme : options.schemes)
          for (const std::string& partition : options.partitions) {
            set_scheme(job, scheme);
            job.partition = parse_partition(partition);
            try {
              check_scheme(job);
              outcomes.push_back(
                  predict(options, backend, job, backend == "mpi" ? &processes : nullptr));
            } catch (const InputError& error) {
              fmt::print("{} N {} {}: left out, {}\n", backend, world_size, scheme, error.what());
              continue;
            }
            print_case(outcomes.back());
          }
      }
  }
  if (outcomes.empty()) return;
  print_summary(outcomes);
  if (!options.csv.empty()) {
    AtomicFile file(options.csv);
    file.write(csv_of(outcomes));
    file.commit();
  }
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  ringscope::Options options;
  CLI::App app("simulated rings against real ones");
  ringscope::add_to(app, options);
  return ringscope::run_program(app, argc, argv, [&] { ringscope::run(options); });
}
