// When a rank that makes no progress is stuck, and when not, and input that rank 0 cannot read. The
// sessions have short timeouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "core/processes/mpi/rank_process.h"
#include "core/processes/mpi/run_on_mpi.h"
#include "core/training/training.h"
#include "tests/core/processes/mpi/driver/driver.h"
#include "tests/core/training/train_case.h"

namespace ringscope {
namespace {

struct LoneHop {
  LoneHop(Communicator& its_comm, RankPulse*) : comm(its_comm) {}

  void go_round() {
    wait_for(comm.exchange(
        {Pass::forward, Payload::kv, 3, comm.rank(), &sent, sizeof sent,
         (comm.rank() + comm.world_size() - 1) % comm.world_size(), &received, sizeof received},
        {}));
  }

  Communicator& comm;
  int sent = 1, received = 0;
};

class BrokenSource : public RowSource {
 public:
  void get(const RowsOfHead& piece, float* to) override {
    if (piece.tensor == Tensor::v) throw RunError("the disk is gone");
    std::fill_n(to, piece.count() * 8, 1.0f);
  }
};

}  // namespace

void slow_disk(MpiSession& session) {
  const TrainingPlan plan{
      small_settings(), {PartitionKind::zigzag, session.world_size()}, nullptr, 2};
  int steps = 0;
  train_on_mpi(session, plan, small_text(), [&](const StepReport&, const TrainingRank&) {
    if (++steps == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  });
  if (session.rank() == 0) std::printf("%d steps\n", steps);
}

void stuck(MpiSession& session) {
  RankProcess<LoneHop> process(session);
  process.run([&] {
    LoneHop& hop = process.join_ring();
    while (session.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    hop.go_round();
    process.leave_ring();
  });
}

void no_source(MpiSession& session) {
  Problem config;
  config.shape = {1, 2, 2, 40, 8};
  config.world_size = session.world_size();
  BrokenSource broken;
  ProcessInputs from;
  from.is_scattered = true;
  if (session.rank() == 0) from.rows = &broken;
  run_on_mpi(session, config, from, true);
}

}  // namespace ringscope
