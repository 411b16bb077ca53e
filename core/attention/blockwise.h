// Attention of a rank's queries over one KV block, tile by tile, on a CPU. The state comes in and
// goes out, so a sequence of calls over blocks in any order is attention over their union; no score
// outlives its tile.
//
// A tile is kTileRows queries x kTileKeys keys. Empty tiles are skipped, full ones take a path
// without mask tests, and in partial ones only the columns between the tile's first and last
// allowed key are computed.
#pragma once

#include "core/attention/views.h"
#include "core/base/buffer.h"
#include "core/base/work_pulse.h"
#include "core/problem/region.h"

namespace ringscope {

inline constexpr Index kTileRows = 48;   // a multiple of tile_product's micro-tile
inline constexpr Index kTileKeys = 256;  // K^T, V and the scores of a tile lie in the L2 cache

// Working memory for one thread, made once: O(kTileKeys * head_dim), whatever the sequence.
class BlockwiseScratch {
 public:
  BlockwiseScratch(MemoryMeter* meter, Index head_dim, bool backward);
  // Bytes that the constructor takes.
  static Index bytes(Index head_dim, bool backward);

  Buffer<float> queries, scores, keys_transposed, values;  // values: padded rows (backward: keys)
  Buffer<float> dout, dscores, values_transposed, dkeys, dvalues;  // backward only
  // If set, ticked tile by tile while a block is attended, which ends by its RunError when stopped.
  WorkPulse* pulse = nullptr;
};

// row_max = -inf, row_sum = 0, out_accum = 0.
void begin_attention(const AttentionParams& params, const QueryBlock& q, const SoftmaxState& state);

// [attend_block
// Carries `state` on over the keys of `block` that `region` allows; region.queries are the rows of
// q, region.keys those of block. Returns what was computed, counted while computing it.
BlockStats attend_block(const AttentionParams& params, const Region& region, const QueryBlock& q,
                        const KvBlock& block, const SoftmaxState& state, BlockwiseScratch& scratch);
// attend_block]

// out_accum becomes out_accum / row_sum, still in f32 (the backward pass needs its digits), and lse
// is written. A row that attended nothing has out 0 and lse -inf.
void finish_attention(const AttentionParams& params, const QueryBlock& q,
                      const SoftmaxState& state);

// delta = rowsum(dout * out), dq = 0.
void begin_backward(const AttentionParams& params, const QueryBlock& q, const BackwardState& state);

// Recomputes the block's P from the final row_max and row_sum (S1, part two, 8), adds its share to
// dq (still without softmax_scale), and overwrites `gradient` with what these queries contribute to
// the block's dK and dV.
BlockStats attend_block_backward(const AttentionParams& params, const Region& region,
                                 const QueryBlock& q, const KvBlock& block,
                                 const BackwardState& state, const KvGradient& gradient,
                                 BlockwiseScratch& scratch);

// Multiplies dq by softmax_scale, which completes it.
void finish_backward(const AttentionParams& params, const QueryBlock& q,
                     const BackwardState& state);

}  // namespace ringscope
