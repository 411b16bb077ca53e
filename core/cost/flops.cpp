#include "core/cost/flops.h"

#include "core/partition/region.h"

namespace ringscope {

double total_pairs(const Job& job) {
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const LocalRows all = Partition{PartitionKind::contiguous, job.shape.seqlen, 1}.rows_of(0);
  return static_cast<double>(Region{mask, all, all}.pairs());
}

}  // namespace ringscope
