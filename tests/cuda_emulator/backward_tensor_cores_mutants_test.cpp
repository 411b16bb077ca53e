// Step 09 with one thing wrong is found: a barrier, a turn or the wait for copies left out, a swizzle
// that the writer does not know.
#define RINGSCOPE_TESTED_DIM 64
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel backward_tensor_cores_mutant;
}
#define backward_tensor_cores_kernel backward_tensor_cores_mutant
#include "cuda/kernels/09_backward_tensor_cores.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef backward_tensor_cores_kernel

namespace ringscope::cuda {
namespace {

// Two blocks at once have parts of the same dQ, and of the second step those that add to what is there.
TEST(BackwardTensorCoresMutants, EveryBarrierTurnWaitAndSwizzleIsMissed) {
  StepCase tested{
      .heads = 1, .seqlen = 260, .head_dim = 64, .world_size = 2, .dtype = DType::bf16, .tile = 1};
  EXPECT_EQ(kNumbered, 8);
  // 6, the __syncwarp after a warp's turn has come: the shuffle that follows waits for the warp as well, but
  // only a barrier promises an order of memory accesses. The model keeps that order anyway.
  for (const int head_dim : {64, 192}) {
    tested.head_dim = head_dim;
    tested.head_dim_v = std::min(head_dim, 128);
    const Mutants mutants(backward_tensor_cores_kernel, backward_tensor_cores_mutant, tested);
    mutants.expect_all_found(kNumbered, {6});
    mutants.expect_swizzle_needed();
  }
}

}  // namespace
}  // namespace ringscope::cuda
