// Step 08 with one barrier taken out is caught.
#include <array>

#include "cuda/base/launch.h"
#include "cuda/base/shared_memory.h"
#include "cuda/kernels/backward_rows.h"
#include "cuda/kernels/kernels.h"
#include "tests/cuda_model/backward_mutants.h"

#define backward_tiled_kernel backward_tiled_with_numbered_barriers
namespace ringscope::cuda {
const BackwardKernel& backward_tiled_with_numbered_barriers();
}

constexpr int kFirstBarrier = __COUNTER__ + 1;
#include "cuda/kernels/08_backward_tiled.cu"
constexpr int kBarriers = __COUNTER__ - kFirstBarrier;
#undef backward_tiled_kernel

namespace ringscope::cuda {
namespace {

TEST(BackwardTiledMutants, EveryBarrierIsMissed) {
  const StepCase tested{
      .heads = 2, .heads_kv = 1, .seqlen = 80, .head_dim = 20, .mask = "causal", .tile = 2};
  const Tensors<float> in = random_tensors(tested.shape(), tested.seed);
  const BackwardRun right = run_backward(backward_tiled_kernel(), tested, in);
  const BackwardKernel& kernel = backward_tiled_with_numbered_barriers();
  EXPECT_EQ(kBarriers, 3);
  left_out = -1;
  EXPECT_FALSE(found_wrong(kernel, tested, in, right)) << "with all its barriers";
  for (left_out = 0; left_out < kBarriers; ++left_out)
    EXPECT_TRUE(found_wrong(kernel, tested, in, right)) << "without barrier " << left_out;
  left_out = -1;
}

}  // namespace
}  // namespace ringscope::cuda
