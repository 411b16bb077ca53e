// The blockwise forward and backward on one core and one KV block of 8,192 rows, beside Eigen's
// matrix product of the same tile shapes, in turn within each iteration. `over_eigen` is the ratio
// of their GFLOP/s, from sums of times, so it holds on a machine whose speed drifts.
//
// FLOPs: 4 pairs head_dim forward, 10 backward (including its recomputation of S). softmax is not
// counted.

#include <benchmark/benchmark.h>

#include <Eigen/Dense>
#include <chrono>
#include <vector>

#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"
#include "core/problem/partition.h"
#include "core/threads/generated_rows.h"

namespace ringscope {
namespace {

using Clock = std::chrono::steady_clock;

template <class F>
double seconds(F&& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<float> random_values(Index count, unsigned seed) {
  return random_inputs({1, 1, 1, 1, count}, seed).q;
}

using Tile = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Time as many products of a tile of Q with a tile of K^T, and of P with a tile of V, as attention
// over `pairs` pairs has. Return seconds; the FLOPs are 4 pairs head_dim.
double eigen_seconds(Index pairs, Index head_dim) {
  const Tile q = Tile::Random(kTileRows, head_dim), v = Tile::Random(kTileKeys, head_dim);
  const Tile k_transposed = Tile::Random(head_dim, kTileKeys);
  Tile scores(kTileRows, kTileKeys), out = Tile::Zero(kTileRows, head_dim);
  return seconds([&] {
    for (Index i = 0; i < pairs / (kTileRows * kTileKeys); ++i) {
      scores.noalias() = q * k_transposed;
      out.noalias() += scores * v;
      benchmark::DoNotOptimize(out.data());
    }
  });
}

// A problem with the arguments head_dim, causal, rows.
struct Problem {
  explicit Problem(const benchmark::State& state)
      : params{{1, 1, 1, state.range(2), state.range(0)},
               DType::f32,
               default_softmax_scale(state.range(0))},
        rows(state.range(2)),
        mask{rows, state.range(1) != 0},
        region{mask, Partition{PartitionKind::contiguous, rows, 1}.rows_of(0),
               Partition{PartitionKind::contiguous, rows, 1}.rows_of(0)},
        scratch(nullptr, params, true),
        q(random_values(rows * params.head_dim, 1)),
        kv(random_values(2 * rows * params.head_dim, 2)),
        dout(random_values(rows * params.head_dim, 3)),
        out(q.size()),
        row_max(rows),
        lse(rows),
        delta(rows),
        dq(q.size()),
        gradient(kv.size()),
        row_sum(rows) {}

  void forward() {
    begin_attention(params, queries(), softmax());
    attend_block(params, region, queries(), {kv.data(), rows}, softmax(), scratch);
    finish_attention(params, queries(), softmax());
  }
  void backward() {
    begin_backward(params, queries(), backward_state());
    attend_block_backward(params, region, queries(), {kv.data(), rows}, backward_state(),
                          {gradient.data(), rows}, scratch);
    finish_backward(params, queries(), backward_state());
  }
  QueryBlock queries() { return {q.data(), dout.data(), rows}; }
  SoftmaxState softmax() { return {row_max.data(), row_sum.data(), out.data(), lse.data()}; }
  BackwardState backward_state() {
    return {row_max.data(), row_sum.data(), out.data(), delta.data(), dq.data()};
  }

  AttentionParams params;
  Index rows;
  Mask mask;
  Region region;
  BlockwiseScratch scratch;
  std::vector<float> q, kv, dout, out, row_max, lse, delta, dq, gradient;
  std::vector<double> row_sum;
};

void compare_with_eigen(benchmark::State& state, bool backward) {
  Problem problem(state);
  const Index pairs = problem.region.pairs(), head_dim = problem.params.head_dim;
  const double flops_per_pair = static_cast<double>((backward ? 10 : 4) * head_dim);
  double ours = 0, eigens = 0;
  problem.forward();
  for (auto _ : state) {
    const double time = seconds([&] { backward ? problem.backward() : problem.forward(); });
    eigens += eigen_seconds(pairs, head_dim);
    ours += time;
    state.SetIterationTime(time);
  }
  const double iterations = static_cast<double>(state.iterations());
  const double our_rate = flops_per_pair * static_cast<double>(pairs) * iterations / ours;
  const double eigen_rate = static_cast<double>(4 * head_dim * pairs) * iterations / eigens;
  state.counters["GFLOP/s"] = our_rate * 1e-9;
  state.counters["eigen_GFLOP/s"] = eigen_rate * 1e-9;
  state.counters["over_eigen"] = our_rate / eigen_rate;
  state.SetLabel(kVectorIsa);
}

void BM_BlockwiseForward(benchmark::State& state) { compare_with_eigen(state, false); }
void BM_BlockwiseBackward(benchmark::State& state) { compare_with_eigen(state, true); }

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"head_dim", "causal", "rows"})->UseManualTime()->Unit(benchmark::kMillisecond);
  for (const Index head_dim : {64, 128})
    for (const Index causal : {0, 1}) b->Args({head_dim, causal, 8192});
}
BENCHMARK(BM_BlockwiseForward)->Apply(shapes);
BENCHMARK(BM_BlockwiseBackward)->Apply(shapes);

}  // namespace
}  // namespace ringscope

BENCHMARK_MAIN();
