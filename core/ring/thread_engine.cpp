#include "core/ring/thread_engine.h"

#include "core/ring/cpu_backend.h"
#include "core/ring/rank.h"
#include "core/ring/recording.h"

namespace ringscope {

namespace {

class ThreadRankEngine : public RankEngine {
 public:
  ThreadRankEngine(ThreadRing& ring, Rank& rank, const Engine::Listener& listener)
      : threads_(ring, rank.rank()),
        cpu_(rank.problem().params, rank.config().backward, &rank.meter()),
        scratch_bytes_(
            BlockwiseScratch::bytes(rank.config().shape.head_dim, rank.config().backward)),
        communicator_(threads_, rank.recorder(), 4 * static_cast<std::size_t>(ring.world_size())),
        backend_(cpu_, rank.recorder(), rank.problem().params, rank.rank(), listener) {}

  Communicator& communicator() override { return communicator_; }
  BlockBackend& backend() override { return backend_; }
  void finish() override { communicator_.flush(); }
  Index scratch_bytes() const override { return scratch_bytes_; }

 private:
  ThreadCommunicator threads_;
  CpuBackend cpu_;
  Index scratch_bytes_;
  RecordingCommunicator communicator_;
  RecordingBackend backend_;
};

}  // namespace

std::unique_ptr<RankEngine> ThreadEngine::make(Rank& rank, const Listener& listener) {
  return std::make_unique<ThreadRankEngine>(ring_, rank, listener);
}

}  // namespace ringscope
