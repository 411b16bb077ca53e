// Step 10 with one wait, arrival or fence left out is found.
#include "tests/cuda_model/mutants.h"

namespace ringscope::cuda {
extern const Kernel backward_hopper_mutant;
}
#define backward_hopper_kernel backward_hopper_mutant
#include "cuda/kernels/10_backward_hopper.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef backward_hopper_kernel

namespace ringscope::cuda {
namespace {

// Enough visits for every stage to be used twice.
TEST(BackwardHopperMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  const StepCase tested{
      .heads = 2, .heads_kv = 1, .seqlen = 300, .mask = "causal", .dtype = DType::bf16};
  const Mutants mutants(backward_hopper_kernel, backward_hopper_mutant, tested);
  EXPECT_EQ(kNumbered, 21);
  // 3 and 15, the __syncwarps: the model's lanes do not fall a whole ring behind. 5, the fence of the
  // instances that compute dS under dV: this one does not. 11, the wait for dV, is there for its
  // operand's registers alone. 20, the __syncthreads after the barriers are made: claiming registers
  // waits for those that the maker releases later.
  mutants.expect_all_found(kNumbered, {3, 5, 11, 15, 20});
  mutants.expect_swizzle_needed();
}

}  // namespace
}  // namespace ringscope::cuda
