// Whatever fails, on whatever rank at whatever time: every communicator is aborted, every rank
// ends, the error names its rank and step, and nothing is left.
#include <gtest/gtest.h>

#include <thread>

#include "core/ring/faults.h"
#include "cuda/nccl/nccl_communicator.h"
#include "tests/nccl_model/nccl_run.h"

namespace ringscope::cuda {
namespace {

constexpr int kWorldSize = 3;

const RingReference& problem() {
  static const RingReference reference({1, 1, 1, 14, 4}, DType::f32, "causal", 0.5f, 95);
  return reference;
}

Problem config_of(const Scheme* scheme = scheme_named("ring")) {
  Problem config = problem().config(PartitionKind::zigzag, kWorldSize, scheme);
  config.timeout_s = 20;
  return config;
}

struct FailingCall {
  const char* name;
  bool names_rank;  // at whatever time it fails
};

class NcclCall : public NcclTest, public testing::WithParamInterface<FailingCall> {};

// The 1st, 2nd, … call, in growing strides, until a run makes no more of them.
TEST_P(NcclCall, ThatFailsAtAnyTimeEndsAll) {
  int failures = 0;
  for (int nth = 1;; nth += 1 + nth / 2) {
    SCOPED_TRACE(testing::Message() << GetParam().name << " " << nth);
    reset_models();
    model::fail_nccl_call(GetParam().name, nth, ncclSystemError);
    const auto error = error_of([&] { run_nccl(problem(), config_of()); });
    expect_nothing_left();
    if (!error) break;
    ++failures;
    const std::string text = error->what();
    EXPECT_NE(text.find("unhandled system error"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    if (GetParam().names_rank) {
      EXPECT_GE(error->rank(), 0) << text;
    }
    EXPECT_LT(error->rank(), kWorldSize) << text;
    EXPECT_LT(error->step(), kWorldSize) << text;
  }
  EXPECT_GE(failures, 1) << GetParam().name << " is not called at all";
}

INSTANTIATE_TEST_SUITE_P(All, NcclCall,
                         testing::Values(FailingCall{"ncclGetUniqueId", false},
                                         FailingCall{"ncclCommInitRankConfig", true},
                                         FailingCall{"ncclCommGetAsyncError", true},
                                         FailingCall{"ncclGroupStart", true},
                                         FailingCall{"ncclGroupEnd", true},
                                         FailingCall{"ncclSend", true},
                                         FailingCall{"ncclRecv", true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

class NcclFaults : public NcclTest {};

// As when a peer's process is gone: NCCL finds out by itself, at any hop, or never gets connected.
TEST_F(NcclFaults, AnErrorThatNcclMeetsByItselfEndsAll) {
  for (int rank = 0; rank < kWorldSize; ++rank)
    for (int groups = 0; groups < 9; groups += 2) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << " after " << groups << " groups");
      reset_models();
      model::fail_nccl_rank(rank, groups, ncclRemoteError);
      const auto error = error_of([&] { run_nccl(problem(), config_of()); });
      expect_nothing_left();
      if (groups > 8) continue;  // a run has 8: the greeting, 2 + 2 of blocks, 3 of gradients
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->rank(), rank);
      EXPECT_NE(std::string(error->what()).find("remote process exited"), std::string::npos);
      EXPECT_EQ(model::aborted_communicators(), static_cast<std::size_t>(kWorldSize));
    }
}

// Also while no rank asks NCCL for anything: all wait for their GPUs, one of them for a hop that
// its peer has not asked for.
TEST_F(NcclFaults, AnErrorOfNcclsIsFoundWhileRanksWait) {
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  {
    NcclWorld world(new_nccl_id(), 2, {{0, 0}, {1, 0}}, {4, 20});
    DeviceClock clock;
    NcclCommunicator first(world, 0, clock, 1), second(world, 1, clock, 1);
    MemoryMeter meter(device_memory());
    Buffer<float> a(&meter, 8), b(&meter, 8);
    const Exchange of_first{Pass::forward, Payload::kv, 0, 0, a.data(), 16, 1, a.data() + 4, 16};
    const Exchange of_second{Pass::forward, Payload::kv, 0, 1, b.data(), 16, 0, b.data() + 4, 16};
    auto early = std::async(std::launch::async, [&] { first.exchange(of_first, {}); });
    second.exchange(of_second, {});
    early.get();
    const Completion alone = first.exchange(of_first, {});  // both are connected by now
    const auto error = error_of([&] {
      auto waiting = std::async(std::launch::async, [&] { alone->wait(); });
      model::fail_nccl_rank(1, 0, ncclRemoteError);
      waiting.get();
    });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->rank(), 1);
    EXPECT_NE(std::string(error->what()).find("remote process exited"), std::string::npos);
    // Ranks hear of the error before the last communicator is aborted.
    while (model::aborted_communicators() < 2) std::this_thread::yield();
    static_cast<void>(cudaDeviceSynchronize());
  }
  expect_nothing_left();
}

// A CUDA call that fails while transfers are under way.
TEST_F(NcclFaults, ACudaErrorEndsAll) {
  for (const auto& [call, status] : {std::pair{"cudaEventRecord", cudaErrorUnknown},
                                     std::pair{"cudaStreamWaitEvent", cudaErrorUnknown},
                                     std::pair{"kernel", cudaErrorIllegalAddress},
                                     std::pair{"cudaMalloc", cudaErrorMemoryAllocation}}) {
    for (int nth = 1;; nth += 1 + nth) {
      SCOPED_TRACE(testing::Message() << call << " " << nth);
      reset_models();
      model::fail_call(call, nth, status);
      const auto error = error_of([&] { run_nccl(problem(), config_of()); });
      expect_nothing_left();
      if (!error) break;
      EXPECT_GE(error->rank(), 0) << error->what();
    }
  }
}

std::optional<RunError> error_with(Fault fault, int rank, int step, double timeout_s) {
  Problem config = config_of();
  config.injection = Injection{fault, rank, step};
  config.timeout_s = timeout_s;
  return error_of([&] { run_nccl(problem(), config); });
}

TEST_F(NcclFaults, ARankThatDiesAtAnyStepEndsAllAndIsNamed) {
  for (int rank = 0; rank < kWorldSize; ++rank)
    for (int step = 0; step + 1 < kWorldSize; ++step) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << ", step " << step);
      reset_models();
      const auto error = error_with(Fault::killed_rank, rank, step, 20);
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->rank(), rank);
      EXPECT_EQ(error->step(), step);
      EXPECT_EQ(model::aborted_communicators(), static_cast<std::size_t>(kWorldSize));
      expect_nothing_left();
    }
}

// What NCCL cannot notice ends by the signs of life.
TEST_F(NcclFaults, HangsOnPurposeEnd) {
  constexpr double kTimeout = 0.3;
  for (const Fault fault : {Fault::unposted_recv, Fault::send_first, Fault::wrong_count})
    for (const int step : {0, 1}) {
      SCOPED_TRACE(testing::Message() << name_of(fault) << ", step " << step);
      reset_models();
      const auto error = error_with(fault, 1, step, kTimeout);
      ASSERT_TRUE(error.has_value());
      EXPECT_NE(std::string(error->what()).find("no progress"), std::string::npos) << error->what();
      EXPECT_EQ(model::aborted_communicators(), static_cast<std::size_t>(kWorldSize));
      // A receive that is missing, or a circle, is no misuse of any one call.
      EXPECT_EQ(model::nccl_complaints().empty(), fault != Fault::wrong_count);
      expect_nothing_left(false);
    }
}

TEST_F(NcclFaults, ASlowRankIsWaitedFor) {
  EXPECT_FALSE(error_with(Fault::slow_rank, 1, 0, 20).has_value());
  expect_nothing_left();
}

// The numbers are wrong, and nobody notices: --verify would.
TEST_F(NcclFaults, ABlockThatIsOverwrittenGivesWrongNumbers) {
  Problem config = config_of();
  config.injection = Injection{Fault::early_reuse, 1, 0};
  const AttentionOutputs outputs = run_nccl(problem(), config).outputs;
  EXPECT_GT(max_abs_error(outputs.out, problem().oracle.out), 1e-2);
  expect_nothing_left();
}

// What had been recorded until then is there, and says how it ended.
TEST_F(NcclFaults, AFailedRunLeavesItsRecording) {
  Problem config = config_of();
  config.injection = Injection{Fault::killed_rank, 2, 1};
  try {
    run_nccl(problem(), config);
    ADD_FAILURE() << "nothing failed";
  } catch (const RunFailure& failure) {
    const RunInfo& info = failure.recording().info;
    EXPECT_EQ(info.backend, "nccl");
    ASSERT_TRUE(info.failure.has_value());
    EXPECT_EQ(info.failure->rank, 2);
    EXPECT_EQ(info.failure->step, 1);
    EXPECT_EQ(failure.recording().events.size(), static_cast<std::size_t>(kWorldSize));
  }
}

}  // namespace
}  // namespace ringscope::cuda
