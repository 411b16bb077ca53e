// Tests the sources' counts of FLOPs, in all and for each rank.

#include "core/tools/cost/amounts.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace work_test {

// Count the pairs that all ranks of a recorded run computed.
double recorded_pairs(int n, const char* mask) {
  const RingRun run = recorded_run(config_of(1, 1, 96, 4, n, mask));
  double pairs = 0;
  for (int rank = 0; rank < n; ++rank)
    for (const TraceEvent& e : events_of(run, rank, Lane::compute))
      pairs += static_cast<double>(e.pairs);
  return pairs;
}

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

CLAIM(C42, TheRingSavesNoWork, holds_if, "S4", "part 3, Compute Complexity") {
  const double blocks_whole = 8 * 8 * 12.0 * 12;  // every rank computes every block
  const double blocks_skipped = 8 * 9 / 2 * 12.0 * 12;
  return {"The total of computation is the same on a ring as on one device.",
          "The number of pairs is the same, in recorded runs. But that is the work only if masked "
          "blocks are skipped. S4's causal algorithm computes every block and masks the scores, "
          "which is {2} times the pairs of 96 positions, and twice in the limit.",
          {Figure("recorded pairs of 8 ranks over 1, full mask",
                  recorded_pairs(8, "full") / recorded_pairs(1, "full"), exactly(1),
                  {"every rank given all queries",
                   8 * recorded_pairs(1, "full") / recorded_pairs(1, "full")},
                  1),
           Figure("the same, causal", recorded_pairs(8, "causal") / recorded_pairs(1, "causal"),
                  exactly(1),
                  {"blocks skipped only whole", blocks_skipped / recorded_pairs(1, "causal")}, 1),
           Figure("pairs with every block computed, over those allowed, causal",
                  blocks_whole / recorded_pairs(8, "causal"), near(2 * 96.0 / 97, 1e-12),
                  {"masked blocks skipped", blocks_skipped / recorded_pairs(8, "causal")}, 1)}};
}

}  // namespace work_test
}  // namespace ringscope::claims
