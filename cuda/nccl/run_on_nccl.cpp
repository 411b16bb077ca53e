#include "cuda/nccl/run_on_nccl.h"

#include <algorithm>

#include "core/ring/loop_counts.h"
#include "core/threads/rank.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/placement.h"
#include "cuda/ring/run_on_gpu.h"

namespace ringscope::cuda {

NcclEngine::NcclEngine(NcclWorld& world, DeviceSetup& setup, const NcclOptions& options,
                       RankLives lives)
    : DeviceEngine(setup), world_(world), lives_(lives) {
  leave_multiprocessors(world.world_size() == 1 ? 0 : std::max(0, options.max_ctas));
}

DeviceEngine::Link NcclEngine::link(Rank& rank) {
  const int number = rank.rank();
  const DeviceClock& clock = clocks_[number];
  return {.clock = clock,
          .communicator = with_faults(
              std::make_unique<NcclCommunicator>(world_, number, clock, rank.counts().hops),
              rank.config(), lives_, world_.memory_of(number)),
          .ends_by_abort = true};
}

std::string NcclEngine::notes() const { return "NCCL " + nccl_version_text(nccl_version()) + "\n"; }

RingRun run_on_nccl(const Problem& config, RowSource& rows, const Progress& progress,
                    const NcclOptions& options) {
  check_config(config);
  allow_many_streams();
  nccl_or_throw();
  std::string why_not;
  const RankGpus seen = visible_gpus(why_not);
  if (seen.gpus.empty()) throw RunError("backend nccl: " + why_not);
  const Placement placement = place_ranks(std::vector<RankGpus>(config.world_size, seen));
  apply(nccl_environment(placement, nccl_version(), false, 0));
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < config.world_size; ++rank)
    seats.push_back({rank, placement.devices[rank]});
  DeviceSetup setup("nccl", config, seats, options.kernels);
  NcclWorld world(new_nccl_id(), config.world_size, seats,
                  {options.max_ctas, config.timeout_s, !is_plain(config)});
  NcclEngine engine(world, setup, options, RankLives::in_a_thread);
  return with_transfer_times([&] { return run_ranks(config, rows, engine, progress); });
}

}  // namespace ringscope::cuda
