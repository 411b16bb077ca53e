// Step 12 with one wait, arrival, flag or fence left out is found.
#define RINGSCOPE_NUMBERED(name) name##InStep12
#define RINGSCOPE_TESTED_DIM 128
#include "cuda/ring/fused_run.h"
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
void launch_fused_mutant(const FusedRing& ring, DType dtype, cudaStream_t stream);
}
#define launch_fused_ring launch_fused_mutant
#include "cuda/kernels/12_fused_ring.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef launch_fused_ring

namespace ringscope::cuda {
namespace {

// Four ranks use one slot twice, chunks of two pieces go through shared memory, and an item has more key
// tiles than K has buffers: else the wait for Q's buffer would do for that for K's. A negative scale
// changes Q's signs there.
TEST(FusedRingMutants, EveryFlagBarrierWaitAndFenceIsMissed) {
  Problem problem{.shape = {1, 1, 1, 4 * 260, 128},
                  .dtype = DType::bf16,
                  .softmax_scale = -0.125,
                  .partition = PartitionKind::striped,
                  .world_size = 4};
  const Tensors<float> in = random_tensors(problem.shape, 93, problem.dtype);
  const AttentionInputs inputs{in.q, in.k, in.v, {}};
  const auto run_with = [&](decltype(launch_fused_ring)* launch) {
    return [&, launch] {
      FusedRun run(problem, 1);
      WholeInputs rows(problem.shape, inputs);
      run.take(rows);
      run.poison();
      run.launch(nullptr, launch);
      RINGSCOPE_CUDA(cudaDeviceSynchronize());
      AttentionOutputs outputs = run.outputs();
      return std::vector{std::move(outputs.out), std::move(outputs.lse)};
    };
  };
  const Mutants mutants(run_with(launch_fused_ring), run_with(launch_fused_mutant));
  EXPECT_EQ(kNumbered, 37);
  // 7, 8 and 16 are step 07's: a meeting that the model's products make up for, turns that are there for
  // speed, and a fence that serves the compiler. 22, 35 and 36, the __syncthreads around the order of
  // tiles: without them a block takes tiles that there are not, and reads anywhere. 33, the __syncwarp
  // before the state is read: the model's lanes keep that order anyway.
  mutants.expect_all_found(kNumbered, {7, 8, 16, 22, 33, 35, 36});
  mutants.expect_swizzle_needed();
}

}  // namespace
}  // namespace ringscope::cuda
