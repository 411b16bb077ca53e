// A whole attention problem, run on a ring: scatter the rows by partition, one thread a rank,
// gather the rows in order. What a caller who just wants the answer and the recording needs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/mask/mask_spec.h"
#include "core/partition/partition.h"
#include "core/ring/scheme.h"
#include "core/trace/event.h"

namespace ringscope {

struct RingConfig {
  AttentionShape shape;
  DType dtype = DType::f32;
  std::optional<double> softmax_scale;  // default: 1 / sqrt(head_dim)
  MaskSpec mask;
  PartitionKind partition = PartitionKind::contiguous;
  int world_size = 1;
  Scheme scheme = Scheme::ring;
  bool backward = false;

  double scale() const;                     // softmax_scale, or its default
  Partition partition_of_sequence() const;  // partition, with its seqlen and world_size
};

// f32 tensors of the whole sequence, [batch, heads or heads-kv, seqlen, head_dim]; rounded to the
// run's dtype when they are scattered. dout may be empty: ones.
struct AttentionInputs {
  std::vector<float> q, k, v, dout;
};

struct AttentionOutputs {
  std::vector<float> out;         // [batch, heads, seqlen, head_dim]
  std::vector<float> lse;         // [batch, heads, seqlen]
  std::vector<float> dq, dk, dv;  // backward only
};

struct RingRun {
  AttentionOutputs outputs;
  Recording recording;
  std::vector<Index> peak_bytes;  // one a rank
  double wall_s = 0;              // from the common start to the end of the slowest rank
};

// Called from one of the rank threads now and then with the share of pairs done, in [0, 1].
using Progress = std::function<void(double)>;

// Runs `config` on world_size threads of this process. Throws InputError for an impossible config,
// RunError naming rank and step when a rank fails (every rank then ends), std::bad_alloc.
RingRun run_on_threads(const RingConfig& config, const AttentionInputs& inputs,
                       const Progress& progress = {});

// Bytes that a rank needs for `config` (Q, out_accum, two KV blocks, row statistics, tile scratch;
// with backward also dO, dQ and the travelling gradients). Nothing in it grows with the square of
// the rows.
Index predicted_rank_bytes(const RingConfig& config, int rank);

// Unmasked pairs of (rank, step), from the closed forms.
Index predicted_pairs(const RingConfig& config, int rank, int step);

}  // namespace ringscope
