// Benchmarks a ring of ranks that are late on purpose (core/ring/faults.h), for every number of KV
// buffers. kv_buffers.cpp runs it on threads and mpi_kv_buffers.cpp on processes. Ranks sleep for
// nearly all of the time, so eight of them can be late on a machine with few cores.
//
// Arguments: lateness, buffers.
//   lateness 0   jitter: every rank sleeps before every block, 20 ms on average
//   lateness 1   straggler: the last rank sleeps 20 ms before every block, the others never
//
//   of_two       wall time / wall time with two buffers: what additional buffers hide
//   predicted     the same ratio, simulated with the same delays (core/sim)
//   of_predicted  wall time / simulated wall time
//   of_in_step   wall time / simulated wall time of a ring whose ranks begin every step together
//   of_least     wall time / time of ranks that wait for nobody: what no ring can hide
//
// Each ratio is one of sums over the seeds. Every iteration uses another seed.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "core/cost/amounts.h"
#include "core/run/faulty_ring.h"
#include "core/run/generated_rows.h"
#include "core/run/run.h"
#include "core/sim/simulate.h"

namespace ringscope {

inline constexpr int kLateRanks = 8;

inline Problem late_config(bool straggler, int kv_buffers, std::uint64_t seed) {
  Problem config;
  config.shape = {.batch = 1, .num_heads = 1, .num_heads_kv = 1, .seqlen = 512, .head_dim = 16};
  config.world_size = kLateRanks;
  config.kv_buffers = kv_buffers;
  config.injection = Injection{straggler ? Fault::straggler : Fault::jitter};
  config.injection->delay_s = 0.02;
  config.injection->seed = seed;
  return config;
}

inline AttentionInputs late_inputs() { return random_inputs(late_config(false, 2, 0).shape); }

// Simulate ranks whose compute time is negligible, with hops that take no time.
inline double predicted_s(const Problem& config, Pace pace = Pace::buffers) {
  const Work work(config);
  constexpr double kBlock = 1e-6;
  Machine machine;
  machine.world_size = config.world_size;
  machine.rates = {flops_of_pairs(config.shape, work.pairs(0, 0), Pass::forward) / kBlock, 1, 1e18,
                   0};
  const double late = config.injection->delay_s / kBlock;
  if (config.injection->fault == Fault::jitter) {
    machine.jitter = late;
    machine.seed = config.injection->seed;
  } else {
    machine.speed.assign(static_cast<std::size_t>(config.world_size), 1);
    machine.speed.back() = 1 / (1 + late);
  }
  return simulate({.job = config, .pace = pace}, work, machine).wall_s();
}

// Return the total delay of the rank that sleeps most.
inline double least_s(const Problem& config) {
  double least = 0;
  for (int rank = 0; rank < config.world_size; ++rank) {
    double sum = 0;
    for (int step = 0; step < config.world_size; ++step)
      sum += delay_before(*config.injection, config.world_size, rank, Pass::forward, step);
    least = std::max(least, sum);
  }
  return least;
}

// Measure with `wall_s(config)`, which runs a ring: one seed per iteration, two buffers and more.
template <class WallTime>
void measure_late_ranks(benchmark::State& state, WallTime&& wall_s) {
  double more = 0, two = 0, predicted_more = 0, predicted_two = 0, in_step = 0, least = 0;
  std::uint64_t seed = 0;
  for (auto _ : state) {
    const Problem config =
        late_config(state.range(0) != 0, static_cast<int>(state.range(1)), seed++);
    Problem of_two = config;
    of_two.kv_buffers = 2;
    const double wall = wall_s(config);
    more += wall;
    two += wall_s(of_two);
    predicted_more += predicted_s(config);
    predicted_two += predicted_s(of_two);
    least += least_s(config);
    in_step += predicted_s(config, Pace::in_step);
    state.SetIterationTime(wall);
  }
  state.counters["of_two"] = more / two;
  state.counters["predicted"] = predicted_more / predicted_two;
  state.counters["of_predicted"] = more / predicted_more;
  state.counters["of_in_step"] = more / in_step;
  state.counters["of_least"] = more / least;
}

inline void late_arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"lateness", "buffers"})
      ->ArgsProduct({{0, 1}, {2, 3, 4, kLateRanks}})
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(10);
}

}  // namespace ringscope
