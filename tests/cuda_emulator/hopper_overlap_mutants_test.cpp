// Step 07 with one wait, arrival or fence left out is found.
#define RINGSCOPE_NUMBERED(name) name##InStep7
#define RINGSCOPE_TESTED_DIM 128
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel hopper_overlap_mutant, hopper_overlap_alone_mutant, hopper_ping_pong_mutant,
    hopper_persistent_mutant, hopper_wide_tiles_mutant;
}
#define hopper_overlap_kernel hopper_overlap_mutant
#define hopper_overlap_alone hopper_overlap_alone_mutant
#define hopper_ping_pong hopper_ping_pong_mutant
#define hopper_persistent hopper_persistent_mutant
#define hopper_wide_tiles hopper_wide_tiles_mutant
#include "cuda/kernels/07_hopper_overlap.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef hopper_overlap_kernel
#undef hopper_overlap_alone

namespace ringscope::cuda {
namespace {

TEST(HopperOverlapMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  StepCase tested = causal_case(560, DType::f16);
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  const OnBlocks few(1);
  const Mutants mutants(hopper_overlap_kernel, hopper_overlap_mutant, tested);
  // 7, the meeting after Q's signs change: a product of the model begins when all threads of its
  // warpgroup have come. 8, the turns between warpgroups, are there for speed. 16, the second fence of
  // the loop, serves the compiler alone. 22, 23, the __syncthreads around the order of tiles: without
  // them a block takes tiles that there are not, and reads anywhere.
  mutants.expect_all_found(kNumbered, {7, 8, 16, 22, 23});
  mutants.expect_swizzle_needed();
  tested.head_dim = 192;
  tested.head_dim_v = 128;
  tested.sinks = {1};
  Mutants(hopper_overlap_kernel, hopper_overlap_mutant, tested)
      .expect_all_found(kNumbered, {7, 8, 16, 22, 23});
}

// One item a block, so Q's buffer (2) is empty; a first step, which reads no state (0); no turns (8)
// and no order of tiles (22). 23: claiming registers waits for those that the maker of barriers releases
// later.
TEST(HopperOverlapMutants, EveryWaitOfOverlapAloneIsMissed) {
  const StepCase tested = causal_case(400, DType::bf16);
  const Mutants mutants(hopper_overlap_alone, hopper_overlap_alone_mutant, tested);
  mutants.expect_all_found(kNumbered, {0, 2, 7, 8, 16, 22, 23});
}

}  // namespace
}  // namespace ringscope::cuda
