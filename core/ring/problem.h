// One attention problem on a ring, as every rank knows it: the same for all, and enough to tell any
// rank's rows, regions and message sizes, so none of that is ever sent.
#pragma once

#include "core/attention/views.h"
#include "core/partition/partition.h"
#include "core/partition/region.h"

namespace ringscope {

struct RingProblem {
  AttentionParams params;
  Mask mask;
  Partition partition;

  Index rows(int rank) const { return partition.rows_of(rank).size(); }
  // What `rank`'s queries may attend of `owner`'s keys.
  Region region(int rank, int owner) const {
    return {mask, partition.rows_of(rank), partition.rows_of(owner)};
  }
  // Bytes of an owner's KV block (K and V, storage type) and of its gradient (dK and dV, f32).
  Index kv_bytes(int owner) const {
    return 2 * params.kv_values(rows(owner)) * bytes_of(params.dtype);
  }
  Index gradient_bytes(int owner) const { return 2 * params.kv_values(rows(owner)) * 4; }
};

}  // namespace ringscope
