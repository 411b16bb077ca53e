// What the benchmarks of whole rings share: the jobs that their flags name, ways to run only a part of
// a job's work, and figures. ring_bench runs the jobs on threads, nccl_ring over NCCL and by copy
// engines, and gpu_ring_balance times their kernels on one GPU.
//
//   --world-size N     ranks
//   --rows C,...       rows per rank
//   --heads-kv G,...   kv heads, which divide the heads; as many as these: MHA
//   --scheme S,...     schemes, and
//   --partition P,...  deals, as `ringscope run` takes them: each scheme with each deal. Without either
//                      flag a ring takes every deal, and every scheme that fits takes zigzag
//
// The mask is causal. A job is named SCHEME/DEAL/mha/ROWS/forward, with gqaG where G query heads share a
// kv head, and with_backward for both passes.
#pragma once

#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/ring/forwarding.h"
#include "core/ring/rank_memory.h"
#include "core/threads/run.h"
#include "core/trace/summary.h"

namespace ringscope {

// Return the schemes that `run` has and the job's ranks and heads allow, with small numbers.
inline std::vector<std::string> fitting_schemes(const Problem& job) {
  std::vector<std::string> fitting;
  for (const char* name :
       {"ring", "bidirectional", "multi-ring:2", "pass-q", "allgather", "allgather:2", "ulysses",
        "ulysses:2", "hybrid:2", "two-level:2", "mesh:2x", "groupcast"}) {
    std::string text = name;
    if (text.back() == 'x') text += std::to_string(std::max(1, job.world_size / 2));
    try {
      Problem tried = job;
      set_scheme(tried, text);
      check_scheme(tried);
      fitting.push_back(text);
    } catch (const InputError&) {  // such as a hybrid of 3 ranks in pairs
    }
  }
  return fitting;
}

// The jobs that a benchmark measures, as its flags say.
struct RingJobs {
  Problem base;  // what the flags leave as it is
  std::vector<Index> rows, heads_kv;
  std::vector<std::string> schemes = {}, partitions = {};

  // Read the flags that benchmark::Initialize has left. Return an exit status when they, or the jobs
  // that they name, are impossible.
  // `add_more` may add flags of one program.
  std::optional<int> read(int argc, char** argv,
                          const std::function<void(CLI::App&)>& add_more = {}) {
    CLI::App flags;
    if (add_more) add_more(flags);
    const auto list = [&](const char* name, auto& values) {
      return flags.add_option(name, values)->delimiter(',');
    };
    flags.add_option("--world-size", base.world_size)->check(CLI::Range(1, 1024));
    list("--rows", rows)->check(CLI::Range(1, 1 << 20));
    list("--heads-kv", heads_kv)->check(CLI::Range(1, 1024));
    list("--scheme", schemes);
    list("--partition", partitions);
    try {
      flags.parse(argc, argv);
      for (const Problem& job : all()) check_config(job);
    } catch (const CLI::ParseError& error) {
      return flags.exit(error) == 0 ? 0 : 2;
    } catch (const InputError& error) {
      std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
      return 2;
    }
    return std::nullopt;
  }

  // Throw InputError for a scheme or a deal that there is not.
  std::vector<Problem> all() const {
    std::vector<Problem> jobs;
    for (const Index kv : heads_kv)
      for (const Index c : rows)
        for (const bool backward : {false, true})
          for (Problem& job : each_way(c, kv)) {
            job.backward = backward;
            jobs.push_back(std::move(job));
          }
    return jobs;
  }

  // Return the jobs with so many rows per rank and kv heads, one for each scheme and deal.
  std::vector<Problem> each_way(Index rows_of_rank, Index kv) const {
    Problem job = base;
    job.shape.seqlen = rows_of_rank * base.world_size;
    job.shape.num_heads_kv = kv;
    job.mask = MaskSpec::parse("causal");
    const bool short_list = schemes.empty() && partitions.empty();
    std::vector<std::string> deals = partitions;
    if (deals.empty())
      for (const PartitionKind kind : kAllPartitions) deals.emplace_back(name_of(kind));
    std::vector<Problem> ways;
    for (const std::string& scheme : schemes.empty() ? fitting_schemes(job) : schemes)
      for (const std::string& deal : deals) {
        if (short_list && scheme != "ring" && deal != "zigzag") continue;
        if (job.world_size == 1 && !ways.empty()) continue;
        set_scheme(job, scheme);
        job.partition = PartitionSpec::parse(deal);
        job.deal_out();
        ways.push_back(job);
      }
    return ways;
  }
};

inline std::string name_of(const Problem& job) {
  const AttentionShape& s = job.shape;
  return job.scheme_name() + "/" + std::string(name_of(job.partition)) +
         (s.group_size() == 1 ? "/mha/" : "/gqa" + std::to_string(s.group_size()) + "/") +
         std::to_string(s.seqlen / job.world_size) + (job.backward ? "/with_backward" : "/forward");
}

// Return the job of one rank alone over as many rows as each of the job's ranks has.
inline Problem one_rank_of(const Problem& job) {
  Problem one = job;
  one.scheme = default_scheme();
  one.partition = PartitionKind::contiguous;
  one.shape.seqlen = ceil_div(job.shape.seqlen, job.world_size);
  one.world_size = 1;
  return one;
}

// Return 4 x pairs x head_dim of all heads, and 10 more of a backward pass.
inline double flops_of(const Problem& job) {
  const auto n = static_cast<double>(job.shape.seqlen);
  return (job.backward ? 14 : 4) * n * (n + 1) / 2 *
         static_cast<double>(job.shape.head_dim * job.shape.batch * job.shape.num_heads);
}

// Numbers that take little time to make.
class CheapRows : public RowSource {
 public:
  void get(const RowsOfHead& piece, float* to) override {
    const Index values = piece.count() * head_dim;
    for (Index i = 0; i < values; ++i)
      to[i] = static_cast<float>(mix64(++drawn_) >> 40) / (1 << 23) - 1;
  }
  explicit CheapRows(const Problem& job) : head_dim(job.shape.head_dim) {}

 private:
  Index head_dim;
  std::uint64_t drawn_ = 0;
};

// ---
// A run with both seams of every rank decorated.

struct Decorations {
  std::function<std::unique_ptr<Communicator>(Communicator&)> communicator = {};
  std::function<std::unique_ptr<BlockBackend>(BlockBackend&, Rank&)> backend = {};
};

// An engine that decorates the seams of another, which must outlive it.
class DecoratedEngine : public Engine {
 public:
  DecoratedEngine(Engine& inner, const Decorations& with) : inner_(inner), with_(with) {}
  std::string_view name() const override { return inner_.name(); }
  MemorySpace& memory() override { return inner_.memory(); }
  MemorySpace& memory_of(int rank) override { return inner_.memory_of(rank); }
  bool has_pulses() const override { return inner_.has_pulses(); }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<OfRank>(inner_.make(rank, listener), rank, with_);
  }
  void fail(const RunError& error) override { inner_.fail(error); }
  void throw_if_failed() override { inner_.throw_if_failed(); }

 private:
  class OfRank : public RankEngine {
   public:
    OfRank(std::unique_ptr<RankEngine> inner, Rank& rank, const Decorations& with)
        : inner_(std::move(inner)) {
      if (with.communicator) communicator_ = with.communicator(inner_->communicator());
      if (with.backend) backend_ = with.backend(inner_->backend(), rank);
    }
    void begin() override { inner_->begin(); }
    Communicator& communicator() override {
      return communicator_ ? *communicator_ : inner_->communicator();
    }
    BlockBackend& backend() override { return backend_ ? *backend_ : inner_->backend(); }
    void finish() override { inner_->finish(); }
    void record() override { inner_->record(); }
    void finish_failed() override { inner_->finish_failed(); }
    Index scratch_bytes() const override { return inner_->scratch_bytes(); }
    std::int64_t clock_error_ns() const override { return inner_->clock_error_ns(); }

   private:
    std::unique_ptr<RankEngine> inner_;
    std::unique_ptr<Communicator> communicator_;
    std::unique_ptr<BlockBackend> backend_;
  };

  Engine& inner_;
  const Decorations& with_;
};

// The two halves of a run, each without the other: only computing, where no block moves, and only
// communicating, where no block is attended. Their results are useless. Buffers that nothing arrives in
// hold NaN on a GPU, and zeros in host memory, because the CPU's kernels treat NaN with care.
enum class Half { both, compute, communication };

inline Decorations only(Half half, bool in_host_memory) {
  class StandingCommunicator : public ForwardingCommunicator {
   public:
    StandingCommunicator(Communicator& inner, bool in_host)
        : ForwardingCommunicator(inner), in_host_(in_host) {}
    Completion exchange(const Exchange& hop, std::initializer_list<Completion>) override {
      if (in_host_ && zeroed_.insert(hop.recv).second)
        std::memset(hop.recv, 0, static_cast<std::size_t>(hop.recv_bytes));
      return nullptr;
    }

   private:
    bool in_host_;
    std::set<void*> zeroed_;
  };
  class RestingBackend : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;

   private:
    Completion around(BlockOperation, const StepInfo*, const Completion&, const Start&) override {
      return nullptr;
    }
  };
  Decorations with;
  if (half == Half::compute)
    with.communicator = [=](Communicator& c) {
      return std::make_unique<StandingCommunicator>(c, in_host_memory);
    };
  if (half == Half::communication)
    with.backend = [](BlockBackend& b, Rank&) { return std::make_unique<RestingBackend>(b); };
  return with;
}

// ---

// Where the jobs of a benchmark run.
struct RingMachine {
  std::function<RingRun(const Problem&, const Decorations&)> run;
  // Return the TFLOP/s of one rank alone over its own rows, and the bytes per second at which blocks of
  // the job's size reach every rank at once when nothing else happens: the link's ceiling.
  std::function<double(const Problem&)> alone_tflops, link_bytes_per_s;
  bool in_host_memory = false;
};

// The figures of a job, from sums of times.
//
//   tokens_per_s     positions / wall time
//   TFLOPs           per rank, by 4 (forward) and 10 (backward) x pairs x head_dim
//   of_alone         TFLOPs / those of one rank alone over its own rows
//   MiB              of the rank that needs most memory, measured
//   over_contiguous  wall time of the contiguous deal / this one's
//   compute_only     wall time without transfers / wall time; transfer_only: without computing
//   exposed          most transfer time during which a rank did not compute / wall time
//   link_GBps        the link's ceiling; of_link: what transfer_only reaches of it
class RingFigures {
 public:
  RingFigures(const Problem& job, const RingMachine& machine) : job_(job), machine_(machine) {}

  // Run everything that the job is compared with in turn. Return the wall time of the whole run.
  double run_in_turn() {
    const RingRun whole = machine_.run(job_, {});
    const RunSummary summary = summarize(whole.recording);
    ++runs_;
    wall_ += whole.wall_s;
    exposed_ += summary.exposed_s;
    alone_ += machine_.alone_tflops(job_);
    for (const Index bytes : whole.peak_bytes) memory_ = max_of(memory_, bytes);
    for (const RankSummary& rank : summary.ranks) sent_ = max_of(sent_, rank.bytes_sent);
    if (sent_ == 0) return whole.wall_s;
    compute_ += run_only(Half::compute);
    transfer_ += run_only(Half::communication);
    link_ += machine_.link_bytes_per_s(job_);
    Problem other = job_;
    other.partition = PartitionKind::contiguous;
    if (is_compared()) contiguous_ += machine_.run(other, {}).wall_s;
    return whole.wall_s;
  }

  void report(benchmark::UserCounters& to) const {
    const double tflops = flops_of(job_) * 1e-12 * runs_ / (wall_ * job_.world_size);
    to["tokens_per_s"] = static_cast<double>(job_.shape.batch * job_.shape.seqlen) * runs_ / wall_;
    to["TFLOPs"] = tflops;
    to["of_alone"] = tflops * runs_ / alone_;
    to["MiB"] = static_cast<double>(memory_) / (1 << 20);
    if (sent_ == 0) return;
    to["exposed"] = exposed_ / wall_;
    to["compute_only"] = compute_ / wall_;
    to["transfer_only"] = transfer_ / wall_;
    to["link_GBps"] = link_ / runs_ * 1e-9;
    to["of_link"] = static_cast<double>(sent_) * runs_ * runs_ / (transfer_ * link_);
    to["over_contiguous"] = is_compared() ? contiguous_ / wall_ : 1;
  }

 private:
  double run_only(Half half) const {
    return machine_.run(job_, only(half, machine_.in_host_memory)).wall_s;
  }
  bool is_compared() const { return name_of(job_.partition) != name_of(PartitionKind::contiguous); }

  const Problem& job_;
  const RingMachine& machine_;
  double runs_ = 0, wall_ = 0, exposed_ = 0, alone_ = 0;
  double compute_ = 0, transfer_ = 0, link_ = 0, contiguous_ = 0;
  Index sent_ = 0, memory_ = 0;
};

// Register a benchmark whose body reports its own times. What it throws becomes its error.
inline void add_ring_benchmark(const std::string& name, int iterations,
                               const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [body](benchmark::State& state) {
                                 try {
                                   body(state);
                                 } catch (const std::exception& error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(iterations)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

inline void add_ring_job(const std::string& prefix, const Problem& job, const RingMachine& machine,
                         int iterations) {
  add_ring_benchmark(prefix + name_of(job), iterations, [job, &machine](benchmark::State& state) {
    machine.run(job, {});  // warms up
    RingFigures figures(job, machine);
    for (auto _ : state) state.SetIterationTime(figures.run_in_turn());
    figures.report(state.counters);
  });
}

// ---
// The ladder of S1, part two, 12.1: attention that keeps a matrix of scores, flash attention, which
// doesn't, each on one device and in a ring.

struct Approach {
  const char* name;
  bool in_ring, keeps_scores;
};
inline constexpr Approach kApproaches[] = {{"naive", false, true},
                                           {"flash", false, false},
                                           {"ring", true, true},
                                           {"ring_with_flash", true, false}};

// Return an approach's job over `positions` of the causal zigzag ring with the base's ranks and heads.
inline Problem job_of(const Approach& approach, const Problem& base, Index positions) {
  Problem job = base;
  job.shape.seqlen = positions;
  job.mask = MaskSpec::parse("causal");
  job.partition = PartitionKind::zigzag;
  if (!approach.in_ring) job.world_size = 1;
  return job;
}
// Return the bytes of a rank: the bill, and the scores (f32) of one head and block at a time.
inline double bytes_of(const Approach& approach, const Problem& job) {
  const double rows = job.max_rows();
  return total_bytes(memory_parts(job, rows)) + (approach.keeps_scores ? 4 * rows * rows : 0);
}
// Return the largest length of which every rank needs at most `bytes`.
inline Index largest_length(const Approach& approach, Problem job, double bytes) {
  Index fits = 0;
  for (Index step = Index{1} << 40; step > 0; step /= 2) {
    job.shape.seqlen = fits + step;
    if (bytes_of(approach, job) <= bytes) fits += step;
  }
  return fits;
}

}  // namespace ringscope
