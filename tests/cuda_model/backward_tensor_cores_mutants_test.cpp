// Step 09 with one thing wrong is caught: a barrier left out, the wait for copies left out or a reader
// that does not know the swizzle.
#include <array>
#include <limits>
#include <numbers>

#include "cuda/base/launch.h"
#include "cuda/base/shared_memory.h"
#include "cuda/kernels/backward_rows.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/mma_tile.h"
#include "tests/cuda_model/backward_mutants.h"

namespace ringscope::cuda {

const BackwardKernel& backward_tensor_cores_with_mutations();

namespace {

bool waits = true, knows_swizzle = true;

template <int Columns, class Element>
void load_b_transposed_mutated(std::uint32_t (&b)[4], const Element* tile, int row, int column,
                               int lane) {
  if (knows_swizzle) return load_b_transposed<Columns>(b, tile, row, column, lane);
  const mma::SquareRow mine = mma::down_then_right(lane);
  ptx::ldmatrix_x4_trans(b, tile + (row + mine.row) * Columns + column + mine.half * kChunkValues);
}

}  // namespace

namespace ptx {
namespace {

template <int Pending>
void cp_async_wait_mutated() {
  if (waits) cp_async_wait<Pending>();
}

}  // namespace
}  // namespace ptx
}  // namespace ringscope::cuda

#define backward_tensor_cores_kernel backward_tensor_cores_with_mutations
#define cp_async_wait cp_async_wait_mutated
#define load_b_transposed load_b_transposed_mutated

constexpr int kFirstBarrier = __COUNTER__ + 1;
#include "cuda/kernels/09_backward_tensor_cores.cu"
constexpr int kBarriers = __COUNTER__ - kFirstBarrier;
#undef backward_tensor_cores_kernel

namespace ringscope::cuda {
namespace {

class BackwardTensorCoresMutants : public testing::Test {
 protected:
  BackwardTensorCoresMutants() {
    tested_.dtype = DType::bf16;
    tested_.tile = 1;
    in_ = random_tensors(tested_.shape(), tested_.seed, tested_.dtype);
    right_ = run_backward(backward_tensor_cores_kernel(), tested_, in_);
  }
  ~BackwardTensorCoresMutants() override {
    left_out = -1;
    waits = knows_swizzle = true;
  }
  bool is_wrong() {
    return found_wrong(backward_tensor_cores_with_mutations(), tested_, in_, right_);
  }

  StepCase tested_{.heads = 2, .heads_kv = 1, .seqlen = 200, .head_dim = 64, .mask = "causal"};
  Tensors<float> in_;
  BackwardRun right_;
};

TEST_F(BackwardTensorCoresMutants, WithoutMutationNothingIsWrong) { EXPECT_FALSE(is_wrong()); }

TEST_F(BackwardTensorCoresMutants, EveryBarrierIsMissed) {
  EXPECT_EQ(kBarriers, 2);
  for (left_out = 0; left_out < kBarriers; ++left_out)
    EXPECT_TRUE(is_wrong()) << "without barrier " << left_out;
}

TEST_F(BackwardTensorCoresMutants, TheWaitIsMissed) {
  waits = false;
  EXPECT_TRUE(is_wrong());
}

TEST_F(BackwardTensorCoresMutants, AReaderThatDoesNotKnowTheSwizzleIsFound) {
  knows_swizzle = false;
  EXPECT_TRUE(is_wrong());
}

}  // namespace
}  // namespace ringscope::cuda
