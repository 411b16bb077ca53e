// Step 11 with one wait, arrival, turn or fence left out is found.
#include "tests/cuda_model/mutants.h"

namespace ringscope::cuda {
extern const Kernel backward_one_pass_mutant, backward_any_order_mutant;
}
#define backward_one_pass_kernel backward_one_pass_mutant
#define backward_any_order backward_any_order_mutant
#include "cuda/kernels/11_backward_one_pass.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef backward_one_pass_kernel

namespace ringscope::cuda {
namespace {

// Enough visits for every stage to be used twice.
TEST(BackwardOnePassMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  const StepCase tested{.seqlen = 300, .head_dim = 128, .mask = "causal", .dtype = DType::bf16};
  const Mutants mutants(backward_one_pass_kernel, backward_one_pass_mutant, tested);
  EXPECT_EQ(kNumbered, 37);
  // 4: the model runs one block after another, so every turn has come. 16, the __syncwarp: the model's
  // lanes do not fall a whole ring behind. 18 and 32: its copies arrive in order, so K, V and dO are
  // there when Q is. 22 and 25, second fences, serve the compiler and the registers of an operand. 36, the
  // __syncthreads: without it, the work is not known.
  mutants.expect_all_found(kNumbered, {4, 16, 18, 22, 25, 32}, {36});
  mutants.expect_swizzle_needed();
}

}  // namespace
}  // namespace ringscope::cuda
