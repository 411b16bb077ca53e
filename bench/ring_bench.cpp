// Rings on threads: every deal and scheme over lengths and kv heads (the flags are those of
// ring_jobs.h), naive and flash attention alone and in a ring side by side, and the cost of recording.
//
// side_by_side/APPROACH/ROWS has ROWS positions, in a ring a share of them per rank:
//
//   MiB      of the rank that needs most, measured
//   largest  the length of which every rank needs at most 80 GiB, by formula
//
// A figure for N ranks means something only on a machine with at least N idle cores.
#include "bench/ring_jobs.h"

#include <Eigen/Dense>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/attention/online_softmax.h"
#include "core/ring/cpu_backend.h"
#include "core/threads/cpu_engine.h"
#include "core/threads/recording.h"

namespace ringscope {
namespace {

RingRun run_decorated(const Problem& job, const Decorations& with) {
  ThreadEngine threads(job.world_size);
  DecoratedEngine engine(threads, with);
  CheapRows rows(job);
  return run_ranks(job, rows, engine);
}

double alone_tflops(const Problem& job) {
  const Problem one = one_rank_of(job);
  return flops_of(one) * 1e-12 / run_decorated(one, {}).wall_s;
}

// Return the bytes per second of plain copies of a KV block, as many at once as there are ranks.
double copy_rate(const Problem& job) {
  using Clock = std::chrono::steady_clock;
  constexpr int kCopies = 8;
  const auto bytes = static_cast<std::size_t>(job.ring_problem().kv_bytes(0));
  std::barrier start(job.world_size);
  std::vector<double> seconds(static_cast<std::size_t>(job.world_size));
  {
    std::vector<std::jthread> threads;
    for (double& mine : seconds)
      threads.emplace_back([&] {
        const std::vector<char> from(bytes, 1);
        std::vector<char> to(bytes);
        start.arrive_and_wait();
        const auto begin = Clock::now();
        for (int i = 0; i < kCopies; ++i) {
          std::memcpy(to.data(), from.data(), bytes);
          benchmark::DoNotOptimize(to.data());
          benchmark::ClobberMemory();
        }
        mine = std::chrono::duration<double>(Clock::now() - begin).count();
      });
  }
  return kCopies * static_cast<double>(bytes) / *std::ranges::max_element(seconds);
}

// Attends a block as a formula reads: the scores of a head are a matrix in memory.
class NaiveBlocks : public ForwardingBackend {
 public:
  NaiveBlocks(BlockBackend& inner, Rank& rank)
      : ForwardingBackend(inner), params_(rank.ring_problem().params) {
    const Index rows = rank.config().partition_of_sequence().max_rows();
    scores_ = Buffer<float>(&rank.meter(), rows * rows);
  }

  Completion attend(const StepInfo&, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    wait_for(after);
    const AttentionParams& p = params_;
    const Index d = p.head_dim, heads_kv = p.batch * p.num_heads_kv;
    const float* const keys = static_cast<const float*>(block.data);
    for (Index head = 0; head < p.batch * p.num_heads; ++head) {
      const Index kv = head / p.group_size();  // also counted over batch entries
      const Rows queries(static_cast<const float*>(q.q) + head * q.rows * d, q.rows, d);
      const Rows k(keys + kv * block.rows * d, block.rows, d);
      const Rows v(keys + (heads_kv + kv) * block.rows * d, block.rows, d);
      Scores scores(scores_.data(), q.rows, block.rows);
      Scores out(state.out_accum + head * q.rows * d, q.rows, d);
      scores.noalias() = static_cast<float>(p.softmax_scale) * queries * k.transpose();
      for (Index i = 0; i < q.rows; ++i)
        turn_into_weights(region, i, scores, out, state, head * q.rows + i);
      out.noalias() += scores * v;
    }
    return nullptr;
  }

 private:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Rows = Eigen::Map<const Matrix>;
  using Scores = Eigen::Map<Matrix>;

  // Turn row i of the scores into exp(score - row_max), and rescale the row's state, which is at `at`.
  static void turn_into_weights(const Region& region, Index i, Scores& scores, Scores& out,
                                const SoftmaxState& state, Index at) {
    constexpr float kForbidden = -std::numeric_limits<float>::infinity();
    auto row = scores.row(i);
    Index end = 0;
    region.for_allowed_rows(i, [&](Interval allowed) {
      row.segment(end, allowed.first - end).setConstant(kForbidden);
      end = allowed.last;
    });
    row.segment(end, row.size() - end).setConstant(kForbidden);
    const float max = std::max(state.row_max[at], row.maxCoeff());
    if (max == kForbidden) return row.setZero(), void();
    const float factor = rescale_factor<float>(state.row_max[at], max);
    row = (row.array() - max).exp();
    state.row_max[at] = max;
    state.row_sum[at] = state.row_sum[at] * factor + static_cast<double>(row.sum());
    out.row(i) *= factor;
  }

  AttentionParams params_;
  Buffer<float> scores_;
};

void add_approach(const Approach& approach, const Problem& job) {
  const std::string name =
      "side_by_side/" + std::string(approach.name) + "/" + std::to_string(job.shape.seqlen);
  add_ring_benchmark(name, 3, [=](benchmark::State& state) {
    Decorations with;
    if (approach.keeps_scores)
      with.backend = [](BlockBackend& b, Rank& rank) {
        return std::make_unique<NaiveBlocks>(b, rank);
      };
    Index memory = 0;
    for (auto _ : state) {
      const RingRun run = run_decorated(job, with);
      state.SetIterationTime(run.wall_s);
      memory = *std::ranges::max_element(run.peak_bytes);
    }
    state.counters["MiB"] = static_cast<double>(memory) / (1 << 20);
    state.counters["largest"] = static_cast<double>(largest_length(approach, job, 80 * 0x1p30));
  });
}

void BM_RecordEvent(benchmark::State& state) {
  constexpr std::size_t kCapacity = 1 << 16;
  TraceEvent event;
  while (state.KeepRunningBatch(kCapacity)) {
    state.PauseTiming();
    Recorder recorder(kCapacity, 0, 0);
    state.ResumeTiming();
    for (std::size_t i = 0; i < kCapacity; ++i) {
      event.step = static_cast<std::int32_t>(i);
      recorder.record(event);
    }
    benchmark::DoNotOptimize(recorder.events().data());
  }
  state.counters["per_event"] =
      benchmark::Counter(static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_RecordEvent);

// Run the ring loop of one rank with and without the decorators, many short steps. `recording_cost`
// is the share of time that the decorators add. Arguments: rows.
void BM_RecordingCost(benchmark::State& state) {
  const Index rows = state.range(0);
  const Problem job{.shape = {1, 1, 1, rows, 64},
                    .mask = MaskSpec::parse("causal"),
                    .partition = PartitionKind::zigzag};
  const RingProblem problem = job.ring_problem();
  RankMemory memory(job, 0);
  std::ranges::fill(memory.q, std::byte{0});
  std::fill_n(memory.own_kv(), problem.kv_bytes(0), std::byte{0});
  CpuBackend plain(problem.params, false, nullptr);
  ThreadRing ring(1);
  ThreadCommunicator comm(ring, 0);
  Recorder recorder(1 << 20, 1 << 20, monotonic_ns());
  RecordingBackend recording(plain, recorder, problem.params, {0, 1}, NextAttended({}), {});
  RecordingCommunicator recording_comm(comm, recorder, 1);

  const auto time = [](auto&& f) {
    const std::int64_t begin = monotonic_ns();
    f();
    return static_cast<double>(monotonic_ns() - begin);
  };
  double bare = 0, recorded = 0;
  for (auto _ : state) {
    bare += time([&] { ring_forward(comm, plain, problem, memory); });
    const double with = time([&] { ring_forward(recording_comm, recording, problem, memory); });
    recorded += with;
    state.SetIterationTime(with * 1e-9);
  }
  state.counters["recording_cost"] = recorded / bare - 1;
  state.counters["dropped"] = static_cast<double>(recorder.dropped());
}
BENCHMARK(BM_RecordingCost)->ArgName("rows")->Arg(512)->Arg(2048)->UseManualTime();

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  using namespace ringscope;
  benchmark::Initialize(&argc, argv);
  Problem base;
  base.shape = {1, 4, 4, 0, 64};
  base.world_size = 2;
  RingJobs jobs{base, {1024, 2048}, {4, 1}};
  if (const auto status = jobs.read(argc, argv)) return *status;
  const RingMachine threads{run_decorated, alone_tflops, copy_rate, true};
  for (const Problem& job : jobs.all()) add_ring_job("", job, threads, 3);
  for (const Index rows : jobs.rows)
    for (const Approach& approach : kApproaches)
      add_approach(approach, job_of(approach, jobs.base, rows * jobs.base.world_size));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
