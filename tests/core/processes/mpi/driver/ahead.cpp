// Blocks that come in ahead while a rank is at work, between processes (tests/core/ring/run_ahead.h): the
// progress thread starts the hops that were posted ahead as soon as they may be, whatever the rank does.
#include "core/processes/mpi/mpi_communicator.h"
#include "core/processes/mpi/run_on_mpi.h"
#include "tests/core/attention/random_problem.h"
#include "tests/core/processes/mpi/driver/driver.h"
#include "tests/core/ring/ring_harness.h"
#include "tests/core/ring/run_ahead.h"

namespace ringscope {
void ahead(MpiSession& session) {
  for (const int kv_buffers : {2, 3, session.world_size()}) {
    Problem config;
    config.shape = {1, 2, 2, 41, 8};
    config.world_size = session.world_size();
    config.partition = PartitionKind::zigzag;
    config.backward = true;
    config.kv_buffers = kv_buffers;
    const Tensors<float> drawn = random_tensors(config.shape, 1, config.dtype);
    const AttentionInputs inputs{drawn.q, drawn.k, drawn.v, drawn.dout};
    WholeInputs whole(config.shape, inputs);
    ProcessInputs from;
    from.rows = &whole;
    MpiEngine mpi(session.lifeline());
    HopsAhead hops{config.used_kv_buffers(), config.world_size, {}};
    WrappedEngine engine(
        mpi, [&](Rank&, Communicator& inner) { return WatchedCommunicator(inner, hops); },
        [&](Rank&, BlockBackend& inner) { return WaitingBackend(inner, hops); });
    const RingRun run = run_one_rank(session, config, from, true, engine);
    if (session.rank() != 0) continue;
    EXPECT_EQ(run.outputs.out, run_on_threads(config, inputs).outputs.out);
    std::printf("%d buffers: %d ahead\n", kv_buffers, config.used_kv_buffers() - 1);
  }
}

}  // namespace ringscope
