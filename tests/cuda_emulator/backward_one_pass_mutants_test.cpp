// Step 11 with one wait, arrival, turn or fence left out is found.
#define RINGSCOPE_TESTED_DIM 128
#include "tests/cuda_emulator/mutants.h"

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

constexpr int kAwaitTurn = 9;

// One block takes all items, with enough visits for every stage to be used twice.
TEST(BackwardOnePassMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  StepCase tested{
      .heads_kv = 2, .seqlen = 300, .head_dim = 128, .mask = "causal", .dtype = DType::bf16};
  const OnBlocks few(1);
  EXPECT_EQ(kNumbered, 41);
  // 1, the __syncwarp: the model's lanes do not fall a whole ring behind. 17 and 27, second fences, serve
  // the compiler. 26: copies arrive in order, so the first dO is there when Q is. 39, the
  // __syncthreads after the barriers are made: claiming registers waits for those that the maker
  // releases later.
  for (const int head_dim : {128, 192}) {
    tested.head_dim = head_dim;
    tested.head_dim_v = 128;
    tested.tile = head_dim == 192 ? 1 : 0;
    const Mutants mutants(backward_one_pass_kernel, backward_one_pass_mutant, tested);
    mutants.expect_all_found(kNumbered, {1, kAwaitTurn, 17, 26, 27, 39});
    mutants.expect_swizzle_needed();
  }
}

// Three blocks at once have parts of the same dQ.
TEST(BackwardOnePassMutants, TurnsAreMissed) {
  const StepCase tested{
      .heads = 1, .seqlen = 300, .head_dim = 128, .mask = "causal", .dtype = DType::bf16};
  const OnBlocks few(3);
  const Mutants mutants(backward_one_pass_kernel, backward_one_pass_mutant, tested);
  EXPECT_FALSE(mutants.is_wrong());
  left_out = kAwaitTurn;
  EXPECT_TRUE(mutants.is_wrong());
  left_out = -1;
}

}  // namespace
}  // namespace ringscope::cuda
