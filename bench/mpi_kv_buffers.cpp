// The benchmark of late_ranks.h with one process per rank. Started alone, it starts itself again
// under mpirun; it also runs under another launcher.
#include <cstdio>

#include "bench/late_ranks.h"
#include "bench/mpirun.h"
#include "core/mpi/run_on_mpi.h"

namespace ringscope {
namespace {

MpiSession* session = nullptr;

void BM_MpiKvBuffers(benchmark::State& state) {
  const AttentionInputs inputs = late_inputs();
  measure_late_ranks(state, [&](const Problem& config) {
    WholeInputs source(config.shape, inputs);
    ProcessInputs from;
    from.generated = &source;
    const double wall_s = run_on_mpi(*session, config, from, false).wall_s;
    return session->rank() == 0 ? wall_s : 1;  // only rank 0 knows the time
  });
}
BENCHMARK(BM_MpiKvBuffers)->Apply(late_arguments);

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  using namespace ringscope;
  if (!launched_with(kLateRanks, argc, argv)) return 0;
  benchmark::Initialize(&argc, argv);
  MpiSession of_process(60);
  session = &of_process;
  if (session->world_size() != kLateRanks) {
    std::fprintf(stderr, "mpi_kv_buffers: %d ranks given, %d needed\n", session->world_size(),
                 kLateRanks);
    return 2;
  }
  run_benchmarks(session->rank() == 0);
  session->finish();
  return 0;
}
