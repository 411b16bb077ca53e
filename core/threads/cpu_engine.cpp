#include "core/threads/cpu_engine.h"

namespace ringscope {

CpuRankEngine::CpuRankEngine(std::unique_ptr<Communicator> blocks, Rank& rank,
                             const Engine::Listener& listener, RankLives lives)
    : blocks_(with_faults(std::move(blocks), rank.config(), lives, host_memory(), &rank.pulse())),
      cpu_(rank.ring_problem().params, rank.config().backward, &rank.meter(), &rank.pulse()),
      delayed_(with_delays(cpu_, rank.config(), rank.rank())),
      scratch_bytes_(BlockwiseScratch::bytes(rank.config().shape, rank.config().backward)),
      communicator_(*blocks_, rank.recorder(), 4 * static_cast<std::size_t>(blocks_->world_size()),
                    &rank.pulse()),
      backend_(delayed_ ? *delayed_ : cpu_, rank.recorder(), rank.ring_problem().params,
               {rank.rank(), blocks_->world_size()}, rank.next_attended(), listener,
               &rank.pulse()) {
  if (const auto& tile = rank.config().recorded_tile; tile && tile->rank == rank.rank())
    backend_.record_tile(tile->step);
}

std::unique_ptr<RankEngine> ThreadEngine::make(Rank& rank, const Listener& listener) {
  return std::make_unique<CpuRankEngine>(std::make_unique<ThreadCommunicator>(ring_, rank.rank()),
                                         rank, listener, RankLives::in_a_thread);
}

}  // namespace ringscope
