// Tests the sources' counts of FLOPs, in all and for each rank.

#include "core/tools/cost/amounts.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace work_test {

CLAIM(C41, ExampleCountsMultiplyAdds, wrong, "S4", "part 4, steps 1 to 3") {
  const Problem job{.shape = {1, 1, 1, 8, 4}, .world_size = 2};
  const double flops = flops_of_pairs(job.shape, total_pairs(job), Pass::forward);
  const double held = ring_values_of_s0(job.shape, 4);
  return {
      "With 8 tokens of width 4 on 2 GPUs each holds 48 values, and attention is 512 FLOPs in all.",
      "512 multiply-adds are {0} FLOPs, by the count in which an A100 has 312 TFLOP/s. The 48 "
      "values are Q, K and V; with the incoming K and V and the output a GPU holds {1}.",
      {Figure("FLOPs in all", flops, exactly(1024), {"a multiply-add counted once", flops / 2},
              512),
       Figure("values a GPU holds", held, exactly(96), {"Q, K and V only", held / 2}, 48)}};
}

}  // namespace work_test
}  // namespace ringscope::claims
