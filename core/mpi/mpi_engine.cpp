#include "core/mpi/mpi_engine.h"

#include "core/ring/cpu_rank_engine.h"

namespace ringscope {

std::unique_ptr<RankEngine> MpiEngine::make(Rank& rank, const Listener& listener) {
  MpiCommunicator::Options options;
  options.pulse = &rank.pulse();
  options.on_failure = [this](const RunError& error) { line_.fail(error); };
  return std::make_unique<CpuRankEngine>(
      std::make_unique<MpiCommunicator>(waits_, rank.rank(), rank.config().world_size,
                                        std::move(options)),
      rank, listener, RankLives::in_a_process);
}

}  // namespace ringscope
