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
// The rates alone (core/cost/time.h) are the limit of large blocks: F = 4 head_dim / pair_s.
#pragma once

#include "core/attention/blockwise.h"
#include "core/base/math.h"
#include "core/cost/amounts.h"
#include "core/cost/time.h"
#include "core/trace/event.h"

namespace ringscope {

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
// KernelBench times the CPU kernels on one query head and blocks of random values. It runs a block
// as a whole and the same work in pieces, which separates the costs of pairs, rows and keys. As in
// a ring, the rows exceed a core's own cache, and every call attends another block than the last.

class KernelBench {
 public:
  static constexpr Index kRowPiece = 4 * kTileRows;
  static constexpr Index kRows = 20 * kRowPiece;
  static constexpr Index kKeyPiece = kTileKeys / 4;  // less than a tile, but several vectors wide
  static constexpr Index kKeys = 4 * kTileKeys;
  static constexpr Index kBlocks = 8;

  KernelBench(Index head_dim, DType dtype);

  // Attend all rows to the keys of a block: at once, a few rows at a time (which loads the keys
  // again for each piece), or a few keys at a time (which visits all rows for each piece).
  void forward();
  void forward_by_rows();
  void forward_by_keys();
  // Attend a causal block of striped ranks with as many rows as keys. Half of the pairs are
  // allowed, and many tiles are partial.
  void forward_causal();
  // Compute the state that the calls of the backward pass below need.
  void begin_backward_pass();
  void backward();
  void backward_by_rows();
  void backward_by_keys();
  void backward_causal();

  // Do what a pass does for all rows before the first block and after the last one.
  void begin_and_finish();
  void begin_and_finish_backward();

  static Region causal_region();

 private:
  Region region(Index rows, Index keys) const;
  QueryBlock query(Index row, Index rows) const;
  KvBlock next_block(Index keys);
  SoftmaxState state(Index row);
  BackwardState backward_state(Index row);
  void attend(Index row, const Region& region);
  void attend_backward(Index row, const Region& region);

  AttentionParams params_;
  BlockwiseScratch scratch_;
  Buffer<std::byte> q_, dout_, kv_;
  Buffer<float> row_max_{nullptr, kRows}, lse_{nullptr, kRows}, delta_{nullptr, kRows};
  Buffer<double> row_sum_{nullptr, kRows};
  Buffer<float> out_, dq_, gradient_;
  Index block_ = 0;
};

// ---
// Measure the machine that this runs on, with the CPU backend and threads: F and B for the closed
// forms, and the finer figures for a simulation of this machine.

// Attend blocks of heads of `head_dim` values, forward and backward, for about 0.6 s each on
// `threads` threads at once, so that they compete for shared resources. Then move blocks around a
// ring of two threads: large ones for the rate, small ones for the latency. This takes about 1.5 s.
// The fastest of many repetitions counts, and rates are those of the slowest thread. Throw
// std::bad_alloc, and RunError or std::system_error when a thread can't be started.
Rates measure_rates(Index head_dim, DType dtype, int threads);

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

// Time the block as a whole and in pieces (above) in turn, and take the fastest of each. The
// differences are the costs of rows and keys. Throw as measure_rates() does.
CpuFigures measure_cpu(const CpuMeasurement& what);

// Measure a ring of threads that does nothing else, by the processor time of the whole process.
HopFigures measure_hops(int world_size, Index block_bytes, double seconds);

}  // namespace ringscope
