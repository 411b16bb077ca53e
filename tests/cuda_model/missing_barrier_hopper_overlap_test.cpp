// Step 07 with one wait, arrival or fence taken out is caught.
#define RINGSCOPE_NUMBERED(name) name##InStep7
#include "tests/cuda_model/numbered_hopper_barriers.h"

#define hopper_overlap_kernel hopper_overlap_with_numbered_barriers
#define launch_hopper_overlap launch_hopper_overlap_with_numbered_barriers
namespace ringscope::cuda {
const ForwardKernel& hopper_overlap_with_numbered_barriers();
void launch_hopper_overlap(const ForwardStep& step, DType dtype, int tile, int blocks,
                           cudaStream_t stream);
}  // namespace ringscope::cuda

constexpr int kFirstBarrier = __COUNTER__ + 1;
#include "cuda/kernels/07_hopper_overlap.cu"
constexpr int kBarriers = __COUNTER__ - kFirstBarrier;

namespace ringscope::cuda {
namespace {

TEST(MissingBarrier, InHopperOverlapIsFound) {
  ForwardKernel kernel = hopper_overlap_with_numbered_barriers();
  kernel.launch = [](const ForwardStep& step, DType dtype, int tile, cudaStream_t stream) {
    launch_hopper_overlap(step, dtype, tile, 1, stream);
  };
  // 6, 7, the __syncthreads around the order of tiles: without them a block takes tiles that there
  // are not, and reads anywhere. 15, the second fence of the loop, serves the compiler alone.
  expect_barriers_are_missed(kernel, kBarriers, {15}, {6, 7});
}

}  // namespace
}  // namespace ringscope::cuda
