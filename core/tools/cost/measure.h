// Measure what CPU kernels and the ring of threads take on a machine, in processor seconds. S0's F
// and B are not enough, because short blocks have costs that do not scale with pairs.
//
//   block      pair_s         per computed pair of a query row and a key, of one head: tiles of
//                             kTileRows rows, columns in whole vectors (core/attention/tiles.h)
//              row_s          per row of each tile: row_max and row_sum, converting Q to f32
//              partial_row_s  extra per row of a partial tile: its mask
//              key_s          per key of each nonempty tile: transposing K, converting V to f32
//   rank       start_s        starting its thread
//              value_s        per value of Q: beginning and finishing a pass
//   hop        hop_s          starting it and waking the rank that waits for it
//              byte_s         extra per byte copied
//   gradients  add_s          per value that is added to a sum
//
// The rates alone (core/tools/cost/time.h) are the limit of large blocks: F = 4 head_dim / pair_s.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/attention/blockwise.h"
#include "core/base/clock.h"
#include "core/base/math.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"
#include "core/trace/event.h"

namespace ringscope {

// Measure the speed of code by the processor time of calls in turn. The fastest repetition counts.
// On several threads at once the slowest thread counts.

// Return the processor seconds of each call. A few rounds of all calls in turn, as in a run, give
// one mean per call, and the fastest mean within `budget` seconds counts, because time that other
// programs take is not part of the machine's speed.
std::vector<double> fastest_of(double budget, const std::vector<std::function<void()>>& calls);

// Run `measure` on all benches at once, one thread each. Return the largest of each number, because
// the others would wait for the slowest thread. `measure` returns numbers and does not throw.
template <class Bench, class Measure>
std::vector<double> slowest_thread(const std::vector<std::unique_ptr<Bench>>& benches,
                                   const Measure& measure) {
  std::vector<std::vector<double>> numbers(benches.size());
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < benches.size(); ++i)
    workers.emplace_back([&, i] { numbers[i] = measure(*benches[i]); });
  for (std::jthread& worker : workers) worker.join();
  std::vector<double> slowest = numbers[0];
  for (const auto& mine : numbers)
    for (std::size_t k = 0; k < mine.size(); ++k) slowest[k] = std::max(slowest[k], mine[k]);
  return slowest;
}

// ---
// Its figures.

struct KernelFigures {
  double pair_s = 0, row_s = 0, partial_row_s = 0, key_s = 0;
  double value_s = 0;

  // Return the seconds of a block with `heads` query heads and `heads_kv` kv heads.
  double seconds(const TileAmounts& block, double heads, double heads_kv) const {
    return heads *
               (pair_s * block.pairs + row_s * block.rows + partial_row_s * block.partial_rows) +
           heads_kv * key_s * block.keys;
  }
};

struct HopFigures {
  double hop_s = 0, byte_s = 0;
};

struct CpuFigures {
  KernelFigures forward, backward;
  double add_s = 0;
  double start_s = 0;  // to start a rank's thread
  HopFigures hops;

  const KernelFigures& kernel(Pass pass) const {
    return pass == Pass::forward ? forward : backward;
  }
};

// ---
// Measure the machine that this runs on, with the CPU backend and threads: F and B for the closed
// forms, and the finer figures for a simulation of this machine.

struct CpuMeasurement {
  Index head_dim = 64;
  DType dtype = DType::f32;
  bool backward = false;
  int threads = 1;  // number that compute at once
  // Size of the ring whose hops are measured and bytes of its blocks. No hops with 1 rank.
  int world_size = 1;
  Index block_bytes = 0;
  double seconds = 0.6;  // per core, pass and thread; half as long for the hops
};

// Time a block as a whole and in pieces in turn, and take the fastest of each, on the slowest of
// `threads` threads at once, which compete for shared resources. The differences are the costs of
// rows and keys. Hops are those of a ring that does nothing else, by the processor time of the whole
// process. Throw std::bad_alloc, and RunError or std::system_error when a thread can't be started.
CpuFigures measure_cpu(const CpuMeasurement& what);

// Return what these figures come to for large blocks, and on the clock the rate and the latency of a
// ring of two threads that moves large and small blocks. This takes about 1.5 s. Throw likewise.
Rates measure_rates(Index head_dim, DType dtype, int threads);

}  // namespace ringscope
