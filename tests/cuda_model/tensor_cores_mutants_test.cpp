// Step 05 with one thing wrong is caught: a barrier left out, a wait left out, a swizzle that the
// writer does not know.
#include <cmath>
#include <limits>
#include <utility>

#include "cuda/base/launch.h"
#include "cuda/base/shared_memory.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/mma_tile.h"
#include "cuda/kernels/query_tile.h"
#include "cuda/kernels/row_state.h"
#include "cuda/kernels/step_problem.h"
#include "cuda/ptx/registers.h"
#include "tests/cuda_model/numbered_barriers.h"

namespace ringscope::cuda {

const ForwardKernel& tensor_cores_with_mutations();

namespace ptx {
namespace {

int wait_left_out = -1;  // by the number of groups that it lets pend

template <int Pending>
void cp_async_wait_but_one() {
  if (Pending != wait_left_out) cp_async_wait<Pending>();
}

}  // namespace
}  // namespace ptx

namespace {

bool writes_unswizzled = false;

template <int Columns, int Rows, int Threads, class Element>
void copy_rows_async_mutated(Element* tile, const Element* matrix, int row, int valid_first,
                             int valid_last, int thread) {
  if (!writes_unswizzled)
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

#define tensor_cores_kernel tensor_cores_with_mutations
#define cp_async_wait cp_async_wait_but_one
#define copy_rows_async copy_rows_async_mutated

constexpr int kFirstBarrier = __COUNTER__ + 1;
#include "cuda/kernels/05_tensor_cores.cu"
constexpr int kBarriers = __COUNTER__ - kFirstBarrier;

namespace ringscope::cuda {
namespace {

class TensorCoresMutants : public testing::Test {
 protected:
  TensorCoresMutants() {
    tested_.partition = PartitionKind::striped;
    tested_.world_size = 2;
    tested_.dtype = DType::bf16;
    tested_.score_deviation = -1;  // takes the way with the most barriers
    in_ = random_tensors(tested_.shape(), tested_.seed, tested_.dtype);
  }
  ~TensorCoresMutants() override {
    left_out = ptx::wait_left_out = -1;
    writes_unswizzled = false;
    model::set_schedule({});
  }

  // Whether numbers are wrong, or there is an error, under this order of threads.
  bool wrong_under(const model::Schedule& schedule) {
    model::set_schedule(schedule);
    testing::TestPartResultArray failures;
    ForwardRun run;
    try {
      const testing::ScopedFakeTestPartResultReporter taken_down(&failures);
      run = run_forward(tensor_cores_with_mutations(), tested_, in_);
    } catch (const std::exception&) {
      model::reset_device();
      return true;
    }
    const ExactForward exact = exact_forward(tested_, in_);
    return !(max_abs_error(run.out, exact.out) <= 0.02) || failures.size() > 0;
  }
  bool is_wrong() {
    for (const auto order : {model::ThreadOrder::ascending, model::ThreadOrder::descending,
                             model::ThreadOrder::shuffled})
      for (const bool late : {true, false})
        if (wrong_under({.order = order, .async_late = late})) return true;
    return false;
  }

  StepCase tested_{.heads = 1, .seqlen = 280, .head_dim = 64, .mask = "causal"};
  Tensors<float> in_;
};

TEST_F(TensorCoresMutants, WithoutMutationNothingIsWrong) { EXPECT_FALSE(is_wrong()); }

TEST_F(TensorCoresMutants, EveryBarrierIsMissed) {
  EXPECT_EQ(kBarriers, 4);
  for (left_out = 0; left_out < kBarriers; ++left_out)
    EXPECT_TRUE(is_wrong()) << "without barrier " << left_out;
}

// Late copies are enough to find it.
TEST_F(TensorCoresMutants, EveryWaitIsMissed) {
  for (ptx::wait_left_out = 0; ptx::wait_left_out < 2; ++ptx::wait_left_out)
    EXPECT_TRUE(wrong_under({})) << "without the wait for " << ptx::wait_left_out;
}

TEST_F(TensorCoresMutants, AWriterThatDoesNotSwizzleIsFound) {
  writes_unswizzled = true;
  for (int tile = 0; tile < static_cast<int>(tensor_cores_with_mutations().tiles.size()); ++tile) {
    tested_.tile = tile;
    EXPECT_TRUE(wrong_under({})) << "tile " << tile;
  }
}

}  // namespace
}  // namespace ringscope::cuda
