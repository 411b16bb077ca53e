// Step 11 with one wait, arrival, turn or fence left out is found.
#define RINGSCOPE_TESTED_DIM 128
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel backward_one_pass_mutant, backward_any_order_mutant, backward_by_head_mutant,
    backward_warps_arrive_mutant;
}
#define backward_one_pass_kernel backward_one_pass_mutant
#define backward_any_order backward_any_order_mutant
#define backward_by_head backward_by_head_mutant
#define backward_warps_arrive backward_warps_arrive_mutant
#include "cuda/kernels/11_backward_one_pass.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef backward_one_pass_kernel
#undef backward_by_head

namespace ringscope::cuda {
namespace {

constexpr int kAwaitTurn = 9;
// Of items of single heads. 36, the __syncwarp after a turn, is not among them: lanes exchange values
// before they add, and so wait for the one that waits for the turn.
constexpr int kOfHeads[] = {35, 37, 38};

// One block takes all items, with enough visits for every stage to be used twice.
TEST(BackwardOnePassMutants, EveryBarrierWaitFenceAndSwizzleIsMissed) {
  StepCase tested{
      .heads_kv = 2, .seqlen = 300, .head_dim = 128, .mask = "causal", .dtype = DType::bf16};
  const OnBlocks few(1);
  EXPECT_EQ(kNumbered, 39);
  // 1, the __syncwarp: the model's lanes do not fall a whole ring behind. 22, a second fence, serves the
  // compiler. 33, the __syncthreads after the barriers are made: claiming registers waits for those
  // that the maker releases later.
  for (const int head_dim : {128, 192}) {
    tested.head_dim = head_dim;
    tested.head_dim_v = 128;
    tested.tile = head_dim == 192 ? 1 : 0;
    const Mutants mutants(backward_one_pass_kernel, backward_one_pass_mutant, tested);
    mutants.expect_all_found(kNumbered, {1, kAwaitTurn, 22, 33, 35, 36, 37, 38});
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

// Eight heads add to the same dK and dV.
TEST(BackwardOnePassMutants, TurnsOfHeadsAreMissed) {
  const StepCase tested{
      .heads = 8, .seqlen = 200, .head_dim = 128, .mask = "causal", .dtype = DType::bf16};
  const OnBlocks few(3);
  const Mutants mutants(backward_by_head, backward_by_head_mutant, tested);
  EXPECT_FALSE(mutants.is_wrong());
  for (const int number : kOfHeads) {
    left_out = number;
    EXPECT_TRUE(mutants.is_wrong()) << "without number " << number;
  }
  left_out = -1;
}

// A variant that computes the same in another order of time.
TEST(BackwardOnePassVariants, WarpsThatArriveGiveTheSameBits) {
  const StepCase tested{.seqlen = 300, .head_dim = 128, .mask = "causal", .dtype = DType::bf16};
  const OnBlocks few(2);
  EXPECT_FALSE(Mutants(backward_one_pass_kernel, backward_warps_arrive, tested).is_wrong());
}

}  // namespace
}  // namespace ringscope::cuda
