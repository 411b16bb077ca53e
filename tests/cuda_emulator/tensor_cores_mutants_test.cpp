// Step 05 with one thing wrong is found: a barrier or a wait left out, a swizzle that the writer
// does not know.
#define RINGSCOPE_NUMBERED(name) name##InStep5
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel tensor_cores_mutant;
}
#define tensor_cores_kernel tensor_cores_mutant
#include "cuda/kernels/05_tensor_cores.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef tensor_cores_kernel

namespace ringscope::cuda {
namespace {

TEST(TensorCoresMutants, EveryBarrierWaitAndSwizzleIsMissed) {
  StepCase tested{.heads = 1, .seqlen = 280, .head_dim = 64, .mask = "causal"};
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  tested.dtype = DType::bf16;
  tested.score_deviation = -1;  // takes the way with the most barriers
  EXPECT_EQ(kNumbered, 6);
  Mutants(tensor_cores_kernel, tensor_cores_mutant, tested).expect_all_found(kNumbered);
  for (tested.head_dim = 64; tested.head_dim <= 128; tested.head_dim += 64)
    Mutants(tensor_cores_kernel, tensor_cores_mutant, tested).expect_swizzle_needed();
  tested.head_dim = 192;
  tested.head_dim_v = 128;
  tested.sinks = {1};
  tested.tile = 1;
  const Mutants latent(tensor_cores_kernel, tensor_cores_mutant, tested);
  // 3, the barrier after Q's signs change: Q that is not kept is read after the loop's own barrier.
  latent.expect_all_found(kNumbered, {3});
  latent.expect_swizzle_needed();
}

}  // namespace
}  // namespace ringscope::cuda
