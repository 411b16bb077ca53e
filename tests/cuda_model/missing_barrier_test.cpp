// Step 03 with one barrier taken out is caught.
#include "cuda/base/launch.h"
#include "cuda/base/shared_memory.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/query_tile.h"
#include "cuda/kernels/row_state.h"
#include "cuda/kernels/step_problem.h"
#include "tests/cuda_model/numbered_barriers.h"

#define shared_tiles_kernel shared_tiles_with_numbered_barriers
namespace ringscope::cuda {
const ForwardKernel& shared_tiles_with_numbered_barriers();
}

constexpr int kFirstBarrier = __COUNTER__ + 1;
#include "cuda/kernels/03_shared_tiles.cu"
constexpr int kBarriers = __COUNTER__ - kFirstBarrier;

namespace ringscope::cuda {
namespace {

TEST(MissingBarrier, InSharedTilesIsFound) {
  expect_every_barrier_is_missed(shared_tiles_with_numbered_barriers(), kBarriers);
}

}  // namespace
}  // namespace ringscope::cuda
