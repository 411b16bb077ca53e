// The scheme, the problem as every rank knows it, and a caller's config. A scheme says how blocks
// get around: `ring` hops once per step beside the computation; `allgather`, the comparison, moves
// all blocks before it.
#pragma once

#include <optional>
#include <string_view>

#include "core/attention/views.h"
#include "core/base/dtype.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/problem/region.h"
#include "core/problem/shape.h"
#include "core/ring/faults.h"

namespace ringscope {

enum class Scheme { ring, allgather };

inline constexpr Scheme kAllSchemes[] = {Scheme::ring, Scheme::allgather};

constexpr std::string_view name_of(Scheme scheme) {
  return scheme == Scheme::ring ? "ring" : "allgather";
}

// Return the scheme that `text` names. Throw an InputError that lists the accepted names.
Scheme parse_scheme(std::string_view text);

// ---
// One attention problem on a ring. It is the same on all ranks and enough to compute any rank's
// rows, regions and message sizes, so none of that is ever sent.

struct RingProblem {
  AttentionParams params;
  Mask mask;
  Partition partition;

  Index rows(int rank) const { return partition.rows_of(rank).size(); }
  // Return what `rank`'s queries may attend of `owner`'s keys.
  Region region(int rank, int owner) const {
    return {mask, partition.rows_of(rank), partition.rows_of(owner)};
  }
  // Return the bytes of an owner's KV block (K, V; storage type) or of its gradient (dK, dV; f32).
  Index kv_bytes(int owner) const {
    return 2 * params.kv_values(rows(owner)) * bytes_of(params.dtype);
  }
  Index gradient_bytes(int owner) const { return 2 * params.kv_values(rows(owner)) * 4; }
};

// ---
// What a caller asks for: the problem, and how it is distributed.

struct RingConfig {
  AttentionShape shape;
  DType dtype = DType::f32;
  std::optional<double> softmax_scale;  // default: 1 / sqrt(head_dim)
  MaskSpec mask;
  PartitionKind partition = PartitionKind::contiguous;
  int world_size = 1;
  Scheme scheme = Scheme::ring;
  bool backward = false;
  int kv_buffers = 2;  // ring only: buffers that KV blocks rotate through; > 2 let ranks run ahead

  double timeout_s = 60;  // seconds without a sign of life or progress (core/run/watchdog.h)
  std::optional<Injection> injection = std::nullopt;  // a deliberate fault

  // Return the KV buffers that a rank really has: at most world_size, and 0 in an all-gather.
  int used_kv_buffers() const;
  double scale() const;                     // softmax_scale, or its default
  Partition partition_of_sequence() const;  // with its seqlen and world_size
  RingProblem problem() const;              // points into this object's mask
};

}  // namespace ringscope
