// Step 06 with one wait, arrival or fence taken out is caught.
#define RINGSCOPE_NUMBERED(name) name##InStep6
#include "tests/cuda_model/numbered_hopper_barriers.h"

#define hopper_kernel hopper_with_numbered_barriers
namespace ringscope::cuda {
const ForwardKernel& hopper_with_numbered_barriers();
}

constexpr int kFirstBarrier = __COUNTER__ + 1;
#include "cuda/kernels/06_hopper.cu"
constexpr int kBarriers = __COUNTER__ - kFirstBarrier;

namespace ringscope::cuda {
namespace {

TEST(MissingBarrier, InHopperIsFound) {
  // 0: Q's buffer is empty for a block's only item. 6, the __syncthreads after the barriers are
  // made: claiming registers waits for those that the maker releases later.
  expect_barriers_are_missed(hopper_with_numbered_barriers(), kBarriers, {0, 6});
}

}  // namespace
}  // namespace ringscope::cuda
