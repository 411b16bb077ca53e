#include "cuda/nccl/run_on_nccl.h"

#include <cstdlib>

#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/nccl_engine.h"
#include "cuda/nccl/nccl_setup.h"

namespace ringscope::cuda {

RingRun run_on_nccl(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                    const NcclOptions& options) {
  check_run(config, inputs);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // as in run_on_gpu.cpp
  nccl_or_throw();
  std::string why_not;
  const RankGpus seen = visible_gpus(why_not);
  if (seen.gpus.empty()) throw RunError("backend nccl: " + why_not);
  const Placement placement =
      place_ranks(std::vector<RankGpus>(static_cast<std::size_t>(config.world_size), seen));
  apply(nccl_environment(placement, nccl_version(), false, 0));
  std::vector<NcclSeat> seats;
  for (int rank = 0; rank < config.world_size; ++rank)
    seats.push_back({rank, placement.devices[static_cast<std::size_t>(rank)]});
  NcclSetup setup(config, seats, options);

  NcclWorld world(new_nccl_id(), config.world_size, seats, {options.max_ctas, config.timeout_s});
  NcclEngine engine(world, setup.kernels(), setup.tuner(), setup.activities(),
                    options.register_buffers, RankLives::in_a_thread);
  try {
    RingRun run = run_ranks(config, inputs, engine, progress);
    split_waiting_from_transfer(run.recording);
    return run;
  } catch (const RunFailure& failure) {
    Recording recording = failure.recording();
    split_waiting_from_transfer(recording);
    throw RunFailure(failure, std::move(recording));
  }
}

}  // namespace ringscope::cuda
