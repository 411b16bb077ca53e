// Step 05 with one thing wrong is found: a barrier or a wait left out, a swizzle that the writer
// does not know.
#include "tests/cuda_model/mutants.h"

namespace ringscope::cuda {
namespace {

template <int Columns, int Rows, int Threads, class Element>
void copy_rows_async_mutated(Element* tile, const Element* matrix, int row, int valid_first,
                             int valid_last, int thread) {
  if (swizzled)
    return copy_rows_async<Columns, Rows, Threads>(tile, matrix, row, valid_first, valid_last,
                                                   thread);
  for (int i = thread; i < Rows * Columns / kChunkValues; i += Threads) {
    const int from = row + i * kChunkValues / Columns;
    ptx::cp_async_16(tile + i * kChunkValues,
                     matrix + static_cast<std::ptrdiff_t>(row) * Columns + i * kChunkValues,
                     valid_first <= from && from < valid_last);
  }
}

}  // namespace
}  // namespace ringscope::cuda
#define copy_rows_async copy_rows_async_mutated

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
}

}  // namespace
}  // namespace ringscope::cuda
