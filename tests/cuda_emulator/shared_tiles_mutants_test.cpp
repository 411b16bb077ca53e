// Step 03 with one of its barriers left out is found.
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel shared_tiles_mutant;
}
#define shared_tiles_kernel shared_tiles_mutant
#include "cuda/kernels/03_shared_tiles.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef shared_tiles_kernel

namespace ringscope::cuda {
namespace {

TEST(SharedTilesMutants, EveryBarrierIsMissed) {
  StepCase tested{.heads = 1, .seqlen = 140, .head_dim = 40, .mask = "causal"};
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  Mutants(shared_tiles_kernel, shared_tiles_mutant, tested).expect_all_found(kNumbered);
}

}  // namespace
}  // namespace ringscope::cuda
