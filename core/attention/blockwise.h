// Attention of a rank's queries over one KV block, tile by tile, on a CPU. The softmax state comes
// in and goes out, so calls over several blocks in any order give attention over their union. No
// score outlives its tile.
//
// A tile is kTileRows queries x kTileKeys keys. Empty tiles are skipped, and full tiles take a path
// without mask tests. In partial tiles only the columns between the first and the last allowed key
// are computed.
#pragma once

#include "core/attention/views.h"
#include "core/base/buffer.h"
#include "core/base/work_pulse.h"
#include "core/problem/region.h"

namespace ringscope {

inline constexpr Index kTileRows = 48;   // a multiple of tile_product's micro-tile
inline constexpr Index kTileKeys = 256;  // K^T, V and the scores of a tile fit in the L2 cache
// Rows of a transposed tile lie this far apart. At kTileKeys few sets of the L1 cache would hold them.
inline constexpr Index kTransposedStride = kTileKeys + 16;

// The working memory of one thread, allocated once: O(kTileKeys * head_dim) for any sequence.
class BlockwiseScratch {
 public:
  BlockwiseScratch(MemoryMeter* meter, const AttentionShape& shape, bool backward);
  // Return the number of bytes that the constructor allocates.
  static Index bytes(const AttentionShape& shape, bool backward);

  // Operands of AMX take the places of those that they stand for, and others that of half the values.
  Buffer<float> queries, scores, keys_transposed, values;  // values: padded rows (backward: keys)
  Buffer<float> dout, dscores, values_transposed, dkeys, dvalues;  // backward only
  // If set, it is ticked at every tile of an attended block. Stopping it ends that by RunError.
  WorkPulse* pulse = nullptr;
};

// Set row_max = -inf, row_sum = 0, out_accum = 0.
void begin_attention(const AttentionParams& params, const QueryBlock& q, const SoftmaxState& state);

// [attend_block
// Update `state` with the keys of `block` that `region` allows. region.queries are the rows of q,
// region.keys those of block. Return what was computed, as counted while computing it.
BlockStats attend_block(const AttentionParams& params, const Region& region, const QueryBlock& q,
                        const KvBlock& block, const SoftmaxState& state, BlockwiseScratch& scratch);
// attend_block]

// Let the sinks join the rows' sums, if there are any. Then divide out_accum by row_sum, still in f32
// because the backward pass needs its digits, and write lse. A row that attended nothing gets out 0
// and lse -inf or its sink.
void finish_attention(const AttentionParams& params, const QueryBlock& q,
                      const SoftmaxState& state);

// Set delta = rowsum(dout * out), unless state.out is null because delta is known, and dq = 0.
void begin_backward(const AttentionParams& params, const QueryBlock& q, const BackwardState& state);

// Recompute the block's P from the final row_max and row_sum (S1, part two, 8), add the block's
// share to dq (still without softmax_scale), and overwrite `gradient` with what these queries
// contribute to the block's dK and dV.
BlockStats attend_block_backward(const AttentionParams& params, const Region& region,
                                 const QueryBlock& q, const KvBlock& block,
                                 const BackwardState& state, const KvGradient& gradient,
                                 BlockwiseScratch& scratch);

// Multiply dq by softmax_scale, which completes it.
void finish_backward(const AttentionParams& params, const QueryBlock& q,
                     const BackwardState& state);

}  // namespace ringscope
