// What the CPU kernels and the ring of threads take on a machine, in processor seconds: a few more
// numbers than F and B, because short blocks have costs that do not go by pairs.
//
//   a block    pair_s         each pair of a query row and a key that is computed, of one head: tiles
//                             of kTileRows rows, columns in whole vectors (core/attention/tiles.h)
//              row_s          each row of each tile: row_max and row_sum, Q brought to f32
//              partial_row_s  besides, where the tile is partial: its mask
//              key_s          each key of the tiles that aren't empty: K transposed, V brought to f32
//   a rank     start_s        its thread
//              value_s        each value of Q: beginning and finishing a pass
//   a hop      hop_s          starting it, waking who waits for it
//              byte_s         besides, each byte copied
//   gradients  add_s          each value that is added to a sum
//
// Rates alone (core/cost/time.h) are the limit of large blocks: F = 4 head_dim / pair_s.
#pragma once

#include "core/attention/blockwise.h"
#include "core/base/math.h"
#include "core/cost/time.h"
#include "core/cost/work.h"
#include "core/trace/event.h"

namespace ringscope {

struct KernelFigures {
  double pair_s = 0, row_s = 0, partial_row_s = 0, key_s = 0;
  double value_s = 0;

  // Of a block, for so many heads of queries and of keys.
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
  double start_s = 0;  // of a rank's thread
  HopFigures hops;

  const KernelFigures& kernel(Pass pass) const {
    return pass == Pass::forward ? forward : backward;
  }
};

// ---
// One query head and blocks of random values, to time the CPU kernels with: a block as a whole, and
// the same work in pieces, which tells apart what goes by pairs, by rows and by keys. As in a ring,
// rows are more than a core's own cache holds, and every block is another one, that has just come.

class KernelBench {
 public:
  static constexpr Index kRowPiece = 4 * kTileRows;
  static constexpr Index kRows = 20 * kRowPiece;
  static constexpr Index kKeyPiece = kTileKeys / 4;  // less than a tile, some vectors wide
  static constexpr Index kKeys = 4 * kTileKeys;
  static constexpr Index kBlocks = 8;

  KernelBench(Index head_dim, DType dtype);

  // All rows over the keys of a block: once; a few rows at a time, which brings the keys in for each;
  // a few keys at a time, which goes through all rows for each.
  void forward();
  void forward_by_rows();
  void forward_by_keys();
  // As many rows as keys, of striped ranks, causal: half of the pairs, and many tiles partial.
  void forward_causal();
  // From here on there is the state that the backward pass needs.
  void begin_backward_pass();
  void backward();
  void backward_by_rows();
  void backward_by_keys();
  void backward_causal();

  // Of all rows: before the first block and after the last.
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
// F and B of the machine that this runs on, for the CPU backend and threads: the two numbers that
// the closed forms need, from the code whose time they are to predict; and the finer ones that a
// simulation of this machine takes.

// Attends blocks of heads of `head_dim` values, forward and backward, for about 0.6 s each on
// `threads` threads at once (so that what they share is shared), and then moves blocks around a
// ring of two threads: large ones for the rate, small ones for the latency. Takes about 1.5 s; the
// fastest of many repetitions counts. Rates are those of one thread, the slowest. Throws
// std::bad_alloc, and RunError or std::system_error when a thread can't be started.
Rates measure_rates(Index head_dim, DType dtype, int threads);

struct CpuMeasurement {
  Index head_dim = 64;
  DType dtype = DType::f32;
  bool backward = false;
  int threads = 1;  // that compute at once
  // Of the ring whose hops are measured, and the bytes of its blocks; of 1 rank: no hops.
  int world_size = 1;
  Index block_bytes = 0;
  double seconds = 0.6;  // of a core, for each pass and thread; half as long for the hops
};

// The same block as a whole and in pieces (above), in turn, the fastest of each; the
// differences are what rows and keys cost. Throws as measure_rates.
CpuFigures measure_cpu(const CpuMeasurement& what);

// Of a ring of threads that does nothing else, by the processor time of the whole process.
HopFigures measure_hops(int world_size, Index block_bytes, double seconds);

}  // namespace ringscope
