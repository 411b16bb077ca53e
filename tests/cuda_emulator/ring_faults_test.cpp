// Whatever call of CUDA fails, on whatever rank at whatever step: every rank ends, the error names
// the call, its place, rank and step, and nothing stays allocated.
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <optional>

#include "cuda/ring/device_communicator.h"
#include "tests/cuda/one_gpu_ring.h"
#include "tests/cuda_emulator/model_run.h"
#include "tests/schemes.h"

namespace ringscope::cuda {
namespace ring_faults_test {

constexpr int kWorldSize = 3;

const RingReference& problem() {
  static const RingReference reference({1, 1, 1, 14, 4}, DType::f32, "causal", 0.5f, 95);
  return reference;
}

class RingFaults : public ModelTest {};

enum class Made { by_all, by_a_rank, in_a_step };

// A call, the status that it returns, and where it is made at the earliest: for all ranks together
// before they start, for a rank that is made ready, or only in a step.
struct Fault {
  const char* call;
  cudaError_t status;
  Made made;
};

class RingFaultsOf : public ModelTest, public testing::WithParamInterface<Fault> {};

// The 1st, 2nd, … call, in growing strides, until a run makes no more of them.
TEST_P(RingFaultsOf, AnyCallEndsAllAndIsNamed) {
  const Fault fault = GetParam();
  const bool is_kernel = std::string(fault.call) == "kernel";
  for (const Scheme* scheme : kRunSchemes) {
    const Problem config = problem().config(PartitionKind::zigzag, kWorldSize, scheme);
    int failures = 0;
    for (int nth = 1;; nth += 1 + nth / 2) {
      SCOPED_TRACE(testing::Message() << fault.call << " " << nth << ", " << name_of(scheme));
      model::reset_device();
      model::fail_call(fault.call, nth, fault.status);
      const std::optional<RunError> error = error_of([&] { run(problem(), config); });
      expect_nothing_left();
      if (!error) break;
      ++failures;
      const std::string text = error->what();
      if (!is_kernel) {
        EXPECT_NE(text.find(std::string(fault.call) + "("), std::string::npos) << text;
      }
      EXPECT_NE(text.find(cudaGetErrorName(fault.status)), std::string::npos) << text;
      EXPECT_NE(text.find(", cuda/"), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_LT(error->rank(), kWorldSize) << text;
      EXPECT_LT(error->step(), kWorldSize) << text;
      EXPECT_GE(error->rank(), fault.made == Made::by_all ? -1 : 0) << text;
      EXPECT_GE(error->step(), fault.made == Made::in_a_step ? 0 : -1) << text;
    }
    EXPECT_GE(failures, 1) << fault.call << " is not called at all";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RingFaultsOf,
    testing::Values(Fault{"cudaMalloc", cudaErrorMemoryAllocation, Made::by_a_rank},
                    Fault{"cudaMallocHost", cudaErrorMemoryAllocation, Made::by_a_rank},
                    Fault{"cudaMemcpyPeerAsync", cudaErrorInvalidValue, Made::by_a_rank},
                    Fault{"cudaMemsetAsync", cudaErrorInvalidValue, Made::by_a_rank},
                    Fault{"cudaMemcpy", cudaErrorInvalidValue, Made::by_a_rank},
                    Fault{"cudaLaunchKernelEx", cudaErrorLaunchOutOfResources, Made::by_a_rank},
                    Fault{"cudaStreamWaitEvent", cudaErrorInvalidResourceHandle, Made::in_a_step},
                    Fault{"cudaStreamCreateWithPriority", cudaErrorMemoryAllocation, Made::by_all},
                    Fault{"cudaEventCreateWithFlags", cudaErrorMemoryAllocation, Made::by_all},
                    Fault{"cudaEventRecord", cudaErrorInvalidResourceHandle, Made::by_all},
                    Fault{"cudaEventSynchronize", cudaErrorUnknown, Made::by_all},
                    Fault{"cudaStreamSynchronize", cudaErrorUnknown, Made::by_all},
                    Fault{"cudaEventElapsedTime", cudaErrorUnknown, Made::by_all},
                    Fault{"kernel", cudaErrorIllegalAddress, Made::by_a_rank}),
    [](const auto& tested) { return std::string(tested.param.call); });

// Ranks run their own way, so to make the next launch fail on one rank, all others are kept out
// meanwhile. Nothing that is started there waits for another rank.
class GatedBackend : public ForwardingBackend {
 public:
  GatedBackend(int rank, BlockBackend& inner, std::mutex& gate, int bad_rank, int bad_step,
               Pass bad_pass)
      : ForwardingBackend(inner),
        gate_(gate),
        strikes_([=](BlockOperation which, const StepInfo* step) {
          const bool attends =
              which == BlockOperation::attend || which == BlockOperation::attend_backward;
          return attends && rank == bad_rank && step->step == bad_step && step->pass == bad_pass;
        }) {}

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override {
    wait_on(elsewhere_.get(), after);  // what may wait for a peer
    const std::lock_guard lock(gate_);
    if (strikes_(which, step))
      model::fail_call("cudaLaunchKernelEx", 1, cudaErrorLaunchOutOfResources);
    return start(after);
  }

  Stream elsewhere_;
  std::mutex& gate_;
  std::function<bool(BlockOperation, const StepInfo*)> strikes_;
};

TEST_F(RingFaults, ALaunchThatFailsIsNamedByItsRankAndStep) {
  Problem config = problem().config(PartitionKind::zigzag, kWorldSize);
  config.mask = MaskSpec::parse("full");  // a kernel at every step
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (int rank = 0; rank < kWorldSize; ++rank)
      for (int step = 0; step < kWorldSize; ++step) {
        SCOPED_TRACE(testing::Message() << name_of(pass) << ", rank " << rank << ", step " << step);
        model::reset_device();
        std::mutex gate;
        const std::optional<RunError> error = error_of([&] {
          DeviceSetup setup = setup_for(config);
          GpuEngine gpu(setup, config.world_size, true);
          WrappedEngine engine(
              gpu, [](Rank&, Communicator& inner) { return ForwardingCommunicator(inner); },
              [&](Rank& its_rank, BlockBackend& inner) {
                return GatedBackend(its_rank.rank(), inner, gate, rank, step, pass);
              });
          run_ranks(config, problem().inputs, engine);
        });
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->rank(), rank);
        EXPECT_EQ(error->step(), step);
        expect_nothing_left();
      }
}

// The copy of a hop is enqueued by whichever of the two ranks asks later; its failure is the
// receiver's.
TEST_F(RingFaults, ACopyThatFailsIsNamedByItsReceiverAndStep) {
  for (const bool receiver_first : {true, false}) {
    model::reset_device();
    {
      MemoryMeter meter(device_memory());
      Buffer<float> a(&meter, 8), b(&meter, 8);
      DeviceRing ring(2);
      DeviceCommunicator first(ring, 0), second(ring, 1);
      const Exchange of_first{Pass::forward, Payload::kv, 5, 0, a.data(), 16, 1, a.data() + 4, 16};
      const Exchange of_second{Pass::forward, Payload::kv, 5, 1, b.data(), 16, 0, b.data() + 4, 16};
      const auto error = error_of([&] {
        const Completion early =
            receiver_first ? first.exchange(of_first, {}) : second.exchange(of_second, {});
        model::fail_call("cudaMemcpyPeerAsync", 1, cudaErrorInvalidValue);
        receiver_first ? second.exchange(of_second, {}) : first.exchange(of_first, {});
      });
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->rank(), 0);  // whose copy is the first that is tried
      EXPECT_EQ(error->step(), 5);
      cudaDeviceSynchronize();
    }
    expect_nothing_left();
  }
}

// Ranks that don't agree about a message get an error, not a wrong answer.
TEST_F(RingFaults, BlocksThatWereNotExpectedAreRefused) {
  const auto outcome = [](Index recv_bytes, int recv_owner, Payload payload) {
    MemoryMeter meter(device_memory());
    Buffer<float> a(&meter, 8), b(&meter, 8);
    DeviceRing ring(2);
    DeviceCommunicator first(ring, 0), second(ring, 1);
    const auto error = error_of([&] {
      second.exchange({Pass::forward, Payload::kv, 3, 1, b.data(), 16, 0, b.data() + 4, 16}, {});
      wait_for(first.exchange(
          {Pass::forward, payload, 3, 0, a.data(), 16, recv_owner, a.data() + 4, recv_bytes}, {}));
    });
    cudaDeviceSynchronize();
    return error;
  };
  EXPECT_FALSE(outcome(16, 1, Payload::kv).has_value());
  for (const auto& error :
       {outcome(12, 1, Payload::kv), outcome(16, 0, Payload::kv), outcome(16, 1, Payload::dkv)}) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->rank(), 0);
    EXPECT_EQ(error->step(), 3);
  }
}

TEST_F(RingFaults, TooLittleMemoryIsFoundBeforehand) {
  const Problem config = problem().config(PartitionKind::zigzag, kWorldSize);
  Index needed = 0;
  for (int rank = 0; rank < kWorldSize; ++rank) needed += predicted_gpu_rank_bytes(config, rank);
  model::set_memory_limit(static_cast<std::size_t>(needed) - 1);
  model::fail_call("cudaMalloc", 1, cudaErrorUnknown);  // is not reached
  const std::optional<RunError> error = error_of([&] { run(problem(), config); });
  ASSERT_TRUE(error.has_value());
  for (const char* part : {"out of device memory", "3 ranks", "GiB", "--seqlen", "--backend cpu"})
    expect_contains(error->what(), part);
  expect_nothing_left();

  model::reset_device();
  model::set_memory_limit(static_cast<std::size_t>(needed) + (64 << 20));
  EXPECT_FALSE(error_of([&] { run(problem(), config); }).has_value());
}

}  // namespace ring_faults_test
}  // namespace ringscope::cuda
