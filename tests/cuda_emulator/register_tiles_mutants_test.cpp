// Step 04 with one of its barriers left out is found.
#include "tests/cuda_emulator/mutants.h"

namespace ringscope::cuda {
extern const Kernel register_tiles_mutant;
}
#define register_tiles_kernel register_tiles_mutant
#include "cuda/kernels/04_register_tiles.cu"
constexpr int kNumbered = __COUNTER__ - kFirst;
#undef register_tiles_kernel

namespace ringscope::cuda {
namespace {

TEST(RegisterTilesMutants, EveryBarrierIsMissed) {
  StepCase tested{.heads = 1, .seqlen = 140, .head_dim = 40, .mask = "causal"};
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  Mutants(register_tiles_kernel, register_tiles_mutant, tested).expect_all_found(kNumbered);
}

}  // namespace
}  // namespace ringscope::cuda
