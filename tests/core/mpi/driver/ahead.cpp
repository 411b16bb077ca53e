// Blocks that come in ahead while a rank is at work, between processes (tests/core/ring/run_ahead.h): the
// progress thread starts the hops that were posted ahead as soon as they may be, whatever the rank does.
#include <memory>
#include <utility>

#include "core/mpi/mpi_communicator.h"
#include "core/mpi/run_on_mpi.h"
#include "core/run/rank.h"
#include "tests/core/attention/random_problem.h"
#include "tests/core/mpi/driver/driver.h"
#include "tests/core/ring/run_ahead.h"

namespace ringscope {
namespace {

class WaitingRank : public RankEngine {
 public:
  WaitingRank(std::unique_ptr<RankEngine> inner, HopsAhead hops)
      : inner_(std::move(inner)),
        hops_(std::move(hops)),
        communicator_(inner_->communicator(), hops_),
        backend_(inner_->backend(), hops_) {}
  Communicator& communicator() override { return communicator_; }
  BlockBackend& backend() override { return backend_; }
  void finish() override { inner_->finish(); }
  void finish_failed() override { inner_->finish_failed(); }
  Index scratch_bytes() const override { return inner_->scratch_bytes(); }

 private:
  std::unique_ptr<RankEngine> inner_;
  HopsAhead hops_;
  WatchedCommunicator communicator_;
  WaitingBackend backend_;
};

class WaitingEngine : public MpiEngine {
 public:
  using MpiEngine::MpiEngine;
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    const Problem& config = rank.config();
    return std::make_unique<WaitingRank>(
        MpiEngine::make(rank, listener),
        HopsAhead{config.used_kv_buffers(), config.world_size, {}});
  }
};

}  // namespace

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
    from.generated = &whole;
    WaitingEngine engine(session.lifeline());
    const RingRun run = run_one_rank(session, config, from, true, engine);
    if (session.rank() != 0) continue;
    EXPECT_EQ(run.outputs.out, run_on_threads(config, inputs).outputs.out);
    std::printf("%d buffers: %d ahead\n", kv_buffers, config.used_kv_buffers() - 1);
  }
}

}  // namespace ringscope
