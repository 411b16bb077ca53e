// A run's time ends when its work is over, not when that has been recorded.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/threads/cpu_engine.h"
#include "core/threads/run.h"
#include "tests/core/ring/ring_case.h"

namespace ringscope {
namespace {

struct Moments {
  std::int64_t made = 0, began_to_record = 0;
};

// Records for longer than all that came before.
class LateRecorder : public RankEngine {
 public:
  LateRecorder(std::unique_ptr<RankEngine> inner, Moments& moments)
      : inner_(std::move(inner)), moments_(moments) {
    moments_.made = monotonic_ns();
  }
  Communicator& communicator() override { return inner_->communicator(); }
  BlockBackend& backend() override { return inner_->backend(); }
  void finish() override { inner_->finish(); }
  void record() override {
    moments_.began_to_record = monotonic_ns();
    const std::int64_t lasted = moments_.began_to_record - moments_.made;
    while (monotonic_ns() <= moments_.began_to_record + lasted) {
    }
    inner_->record();
  }
  Index scratch_bytes() const override { return inner_->scratch_bytes(); }

 private:
  std::unique_ptr<RankEngine> inner_;
  Moments& moments_;
};

class LateRecording : public ThreadEngine {
 public:
  LateRecording() : ThreadEngine(1) {}
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<LateRecorder>(ThreadEngine::make(rank, listener), moments);
  }
  Moments moments;
};

TEST(WallTime, EndsBeforeTheRunIsRecorded) {
  const RingReference problem({1, 1, 1, 9, 4}, DType::f32, "causal", 0.5f, 31);
  LateRecording engine;
  const RingRun run =
      run_ranks(problem.config(PartitionKind::contiguous, 1), problem.inputs, engine);
  EXPECT_LE(run.wall_s,
            static_cast<double>(engine.moments.began_to_record - engine.moments.made) * 1e-9);
}

}  // namespace
}  // namespace ringscope
