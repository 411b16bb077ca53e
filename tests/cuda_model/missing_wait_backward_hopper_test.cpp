// Step 10 with one of its waits left out, or waiting for the other parity, is caught. The kernel's
// file is compiled once more, with its waits numbered in the order in which they stand in the text.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <array>
#include <exception>
#include <set>

#include "cuda/base/launch.h"
#include "cuda/base/shared_memory.h"
#include "cuda/base/tensor_map.h"
#include "cuda/kernels/backward_hopper.h"
#include "cuda/kernels/kernels.h"
#include "cuda/model/runtime.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/tma.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda::ptx {
namespace {

int left_out = -1;  // number of the wait that is not there
int swapped = -1;   // of the wait for the other parity

template <int kNumber>
struct Numbered {
  static void barrier_wait(Barrier& barrier, std::uint32_t parity) {
    if (left_out != kNumber) ptx::barrier_wait(barrier, kNumber == swapped ? parity ^ 1 : parity);
  }
  template <int kPending>
  static void wgmma_wait() {
    if (left_out != kNumber) ptx::wgmma_wait<kPending>();
  }
};

}  // namespace
}  // namespace ringscope::cuda::ptx

#define backward_hopper_kernel backward_hopper_with_numbered_waits
namespace ringscope::cuda {
const BackwardKernel& backward_hopper_with_numbered_waits();
}

constexpr int kFirstWait = __COUNTER__ + 1;
#define barrier_wait Numbered<__COUNTER__ - kFirstWait>::barrier_wait
#define wgmma_wait Numbered<__COUNTER__ - kFirstWait>::wgmma_wait
#include "cuda/kernels/10_backward_hopper.cu"
#undef barrier_wait
#undef wgmma_wait
constexpr int kWaits = __COUNTER__ - kFirstWait;
#undef backward_hopper_kernel

namespace ringscope::cuda {
namespace {

// Whether some order of threads gives an error, or other bits than the kernel gives.
bool found_wrong(const StepCase& tested, const Tensors<float>& in, const BackwardRun& right) {
  for (const auto order : {model::ThreadOrder::ascending, model::ThreadOrder::descending,
                           model::ThreadOrder::shuffled}) {
    model::set_schedule({.order = order});
    testing::TestPartResultArray failures;
    try {
      const testing::ScopedFakeTestPartResultReporter taken_down(&failures);
      const BackwardRun run = run_backward(backward_hopper_with_numbered_waits(), tested, in);
      if (failures.size() > 0 || run.dq != right.dq || run.dk != right.dk || run.dv != right.dv)
        return true;
    } catch (const std::exception&) {
      model::reset_device();
      return true;
    }
  }
  return false;
}

TEST(MissingWait, InBackwardHopperIsFound) {
  // Enough visits for every stage to be used twice.
  const StepCase tested{
      .heads = 2, .heads_kv = 1, .seqlen = 300, .mask = "causal", .dtype = DType::bf16};
  const Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
  const BackwardRun right = run_backward(backward_hopper_kernel(), tested, in);
  ASSERT_EQ(kWaits, 10);
  EXPECT_FALSE(found_wrong(tested, in, right)) << "with all its waits";
  std::set<int> not_found;
  for (ptx::left_out = 0; ptx::left_out < kWaits; ++ptx::left_out)
    if (!found_wrong(tested, in, right)) not_found.insert(ptx::left_out);
  ptx::left_out = -1;
  // That for dV is there for its operand's registers alone. That for dK or dQ comes before its
  // visitors' stage is released; on the model copies are late whenever products are.
  EXPECT_EQ(not_found, (std::set<int>{5, 7}));
  for (const int barrier : {0, 2, 3, 6}) {
    ptx::swapped = barrier;
    EXPECT_TRUE(found_wrong(tested, in, right)) << "parity of wait " << barrier;
  }
  ptx::swapped = -1;
  model::set_schedule({});
}

}  // namespace
}  // namespace ringscope::cuda
