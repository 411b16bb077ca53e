// Step 06 with one wait, arrival or fence left out is found.
#define RINGSCOPE_NUMBERED(name) name##InStep6
#include "tests/cuda_model/mutants.h"

namespace ringscope::cuda {
extern const Kernel hopper_mutant;
}
#define hopper_kernel hopper_mutant
#include "cuda/kernels/06_hopper.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef hopper_kernel

namespace ringscope::cuda {
namespace {

// A negative scale changes Q's signs in shared memory; two steps carry state; and three key tiles
// come round to the first of two buffers again.
TEST(HopperMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  StepCase tested{.heads = 1, .seqlen = 560, .head_dim = 128, .mask = "causal"};
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  tested.dtype = DType::f16;
  tested.score_deviation = -1;
  const Mutants mutants(hopper_kernel, hopper_mutant, tested);
  // 1: Q's buffer is empty for a block's only item. 7, the meeting after Q's signs change: a product
  // of the model begins when all threads of its warpgroup have come. 8, the __syncthreads after the
  // barriers are made: claiming registers waits for those that the maker releases later.
  mutants.expect_all_found(kNumbered, {1, 7, 8});
  mutants.expect_swizzle_needed();
}

}  // namespace
}  // namespace ringscope::cuda
