// Step 09 with one thing wrong is found: a barrier or the wait for copies left out, a swizzle
// that the writer does not know.
#include "tests/cuda_model/mutants.h"

namespace ringscope::cuda {
extern const Kernel backward_tensor_cores_mutant;
}
#define backward_tensor_cores_kernel backward_tensor_cores_mutant
#include "cuda/kernels/09_backward_tensor_cores.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef backward_tensor_cores_kernel

namespace ringscope::cuda {
namespace {

TEST(BackwardTensorCoresMutants, EveryBarrierWaitAndSwizzleIsMissed) {
  const StepCase tested{.heads = 2,
                        .heads_kv = 1,
                        .seqlen = 200,
                        .head_dim = 64,
                        .mask = "causal",
                        .dtype = DType::bf16,
                        .tile = 1};
  EXPECT_EQ(kNumbered, 3);
  const Mutants mutants(backward_tensor_cores_kernel, backward_tensor_cores_mutant, tested);
  mutants.expect_all_found(kNumbered);
  mutants.expect_swizzle_needed();
}

}  // namespace
}  // namespace ringscope::cuda
