// Step 06 with one wait, arrival or fence left out is found.
#define RINGSCOPE_NUMBERED(name) name##InStep6
#define RINGSCOPE_TESTED_DIM 128
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel hopper_mutant, hopper_without_roles_mutant;
}
#define hopper_kernel hopper_mutant
#define hopper_without_roles hopper_without_roles_mutant
#include "cuda/kernels/06_hopper.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef hopper_kernel
#undef hopper_without_roles

namespace ringscope::cuda {
namespace {

// A negative scale changes Q's signs in shared memory; two steps carry state; and three key tiles
// come round to the first of two buffers again.
TEST(HopperMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  StepCase tested = causal_case(560, DType::f16);
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  const Mutants mutants(hopper_kernel, hopper_mutant, tested);
  // 2: Q's buffer is empty for a block's only item. 7, the meeting after Q's signs change: a product
  // of the model begins when all threads of its warpgroup have come. 8, the __syncthreads after the
  // barriers are made: claiming registers waits for those that the maker releases later. 9 is of the
  // rung without roles.
  mutants.expect_all_found(kNumbered, {2, 7, 8, 9});
  mutants.expect_swizzle_needed();
}

// Four key tiles, so that the first stage comes round again. 0: a first step reads no state. 9, the
// __syncwarp after the copies begin: the model's lanes meet at the products.
TEST(HopperMutants, EveryWaitWithoutRolesIsMissed) {
  const StepCase tested = causal_case(400, DType::bf16);
  const Mutants mutants(hopper_without_roles, hopper_without_roles_mutant, tested);
  mutants.expect_all_found(kNumbered, {0, 2, 7, 9});
}

}  // namespace
}  // namespace ringscope::cuda
