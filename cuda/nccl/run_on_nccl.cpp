#include "cuda/nccl/run_on_nccl.h"

#include "core/ring/loop_counts.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/nccl_engine.h"
#include "cuda/nccl/placement.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {

RingRun run_on_nccl(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                    const NcclOptions& options) {
  check_run(config, inputs);
  allow_many_streams();
  nccl_or_throw();
  std::string why_not;
  const RankGpus seen = visible_gpus(why_not);
  if (seen.gpus.empty()) throw RunError("backend nccl: " + why_not);
  const Placement placement =
      place_ranks(std::vector<RankGpus>(static_cast<std::size_t>(config.world_size), seen));
  apply(nccl_environment(placement, nccl_version(), false, 0));
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < config.world_size; ++rank)
    seats.push_back({rank, placement.devices[static_cast<std::size_t>(rank)]});
  DeviceSetup setup("nccl", config, seats, options.kernels, options.activity_records);
  NcclWorld world(new_nccl_id(), config.world_size, seats,
                  {options.max_ctas, config.timeout_s, !is_plain(config)});
  NcclEngine engine(world, setup, options, RankLives::in_a_thread);
  return with_transfer_times([&] { return run_ranks(config, inputs, engine, progress); });
}

}  // namespace ringscope::cuda
