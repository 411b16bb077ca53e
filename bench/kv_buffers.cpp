// The benchmark of late_ranks.h with one thread per rank.
#include "bench/late_ranks.h"

namespace ringscope {
namespace {

void BM_KvBuffers(benchmark::State& state) {
  const AttentionInputs inputs = late_inputs();
  measure_late_ranks(state,
                     [&](const Problem& config) { return run_on_threads(config, inputs).wall_s; });
}
BENCHMARK(BM_KvBuffers)->Apply(late_arguments);

}  // namespace
}  // namespace ringscope

BENCHMARK_MAIN();
