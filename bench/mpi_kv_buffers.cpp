// What more than two KV buffers hide of late ranks, and what they cannot: late_ranks.h, a process a rank.
// Started by itself it starts itself again under mpirun; or start it with your own launcher.
#include <cstdio>

#include "bench/late_ranks.h"
#include "bench/mpirun.h"
#include "core/mpi/run_on_mpi.h"

namespace ringscope {
namespace {

MpiSession* session = nullptr;

void BM_MpiKvBuffers(benchmark::State& state) {
  const AttentionInputs inputs = late_inputs();
  measure_late_ranks(state, [&](const RingConfig& config) {
    WholeInputs source(config.shape, inputs);
    ProcessInputs from;
    from.generated = &source;
    const double wall_s = run_on_mpi(*session, config, from, false).wall_s;
    return session->rank() == 0 ? wall_s : 1;  // the others don't know it
  });
}
BENCHMARK(BM_MpiKvBuffers)->Apply(late_arguments);

// Ranks but the first say nothing.
class Silence : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

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
  Silence silence;
  session->rank() == 0 ? benchmark::RunSpecifiedBenchmarks()
                       : benchmark::RunSpecifiedBenchmarks(&silence);
  session->finish();
  return 0;
}
