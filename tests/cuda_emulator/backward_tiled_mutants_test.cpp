// Step 08 with one of its barriers left out is found.
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel backward_tiled_mutant;
}
#define backward_tiled_kernel backward_tiled_mutant
#include "cuda/kernels/08_backward_tiled.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef backward_tiled_kernel

namespace ringscope::cuda {
namespace {

TEST(BackwardTiledMutants, EveryBarrierIsMissed) {
  const StepCase tested{
      .heads = 2, .heads_kv = 1, .seqlen = 80, .head_dim = 20, .mask = "causal", .tile = 1};
  EXPECT_EQ(kNumbered, 3);
  Mutants(backward_tiled_kernel, backward_tiled_mutant, tested).expect_all_found(kNumbered);
}

}  // namespace
}  // namespace ringscope::cuda
