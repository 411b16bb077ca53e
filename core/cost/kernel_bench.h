// One query head and blocks of random values, to time the CPU kernels with: a block as a whole, and
// the same work in pieces, which tells apart what goes by pairs, by rows and by keys. As in a ring,
// rows are more than a core's own cache holds, and every block is another one, that has just come.
#pragma once

#include "core/attention/blockwise.h"

namespace ringscope {

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

}  // namespace ringscope
