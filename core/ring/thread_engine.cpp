#include "core/ring/thread_engine.h"

#include "core/ring/cpu_rank_engine.h"

namespace ringscope {

std::unique_ptr<RankEngine> ThreadEngine::make(Rank& rank, const Listener& listener) {
  return std::make_unique<CpuRankEngine>(std::make_unique<ThreadCommunicator>(ring_, rank.rank()),
                                         rank, listener, RankLives::in_a_thread);
}

}  // namespace ringscope
