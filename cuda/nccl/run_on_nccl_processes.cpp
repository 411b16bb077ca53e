#include "core/ring/loop_counts.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {

RingRun run_on_nccl_processes(MpiSession& session, const Problem& config,
                              const ProcessInputs& inputs, bool gather_outputs,
                              const Progress& progress, const NcclOptions& options) {
  allow_many_streams();
  const ShownOutsideWork connects(session.lifeline().pulse());  // NCCL has a timeout of its own
  const AllGather all_gather = [&](const std::string& mine) { return session.all_gather(mine); };
  const std::vector<RankSeat> seats = {take_process_seat(session.rank(), all_gather).seat};
  DeviceSetup setup("nccl", config, seats, options.kernels);
  NcclWorld world(share_nccl_id(session.rank(), all_gather), session.world_size(), seats,
                  {options.max_ctas, config.timeout_s, !is_plain(config)});
  NcclEngine engine(world, setup, options, RankLives::in_a_process);
  return with_transfer_times(
      [&] { return run_one_rank(session, config, inputs, gather_outputs, engine, progress); });
}

}  // namespace ringscope::cuda
