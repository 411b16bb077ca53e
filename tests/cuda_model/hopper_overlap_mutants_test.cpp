// Step 07 with one wait, arrival or fence left out is found.
#define RINGSCOPE_NUMBERED(name) name##InStep7
#include "tests/cuda_model/mutants.h"

#define launch_hopper_overlap launch_hopper_overlap_mutant
namespace ringscope::cuda {
void launch_hopper_overlap(const ForwardStep& step, DType dtype, int tile, int blocks,
                           cudaStream_t stream);
}
namespace ringscope::cuda {
extern const Kernel hopper_overlap_mutant;
}
#define hopper_overlap_kernel hopper_overlap_mutant
#include "cuda/kernels/07_hopper_overlap.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef hopper_overlap_kernel

namespace ringscope::cuda {
namespace {

TEST(HopperOverlapMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  StepCase tested{.heads = 1, .seqlen = 560, .head_dim = 128, .mask = "causal"};
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  tested.dtype = DType::f16;
  tested.score_deviation = -1;
  Kernel mutant = hopper_overlap_mutant;
  mutant.launch_forward = [](const ForwardStep& step, DType dtype, int tile, cudaStream_t stream) {
    launch_hopper_overlap(step, dtype, tile, 1, stream);
  };
  const Mutants mutants(hopper_overlap_kernel, mutant, tested);
  // 9, 10, the __syncthreads around the order of tiles: without them a block takes tiles that there
  // are not, and reads anywhere. 18, the second fence of the loop, serves the compiler alone. 7, the
  // meeting after Q's signs change: a product of the model begins when all threads of its warpgroup
  // have come. 8, the turns between warpgroups, are there for speed.
  mutants.expect_all_found(kNumbered, {7, 8, 18}, {9, 10});
  mutants.expect_swizzle_needed();
}

}  // namespace
}  // namespace ringscope::cuda
