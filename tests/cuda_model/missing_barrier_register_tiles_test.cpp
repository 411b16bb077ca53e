// Step 04 with one barrier taken out is caught.
#include "cuda/base/launch.h"
#include "cuda/base/shared_memory.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/query_tile.h"
#include "cuda/kernels/row_state.h"
#include "cuda/kernels/step_problem.h"
#include "tests/cuda_model/numbered_barriers.h"

#define register_tiles_kernel register_tiles_with_numbered_barriers
namespace ringscope::cuda {
const ForwardKernel& register_tiles_with_numbered_barriers();
}

constexpr int kFirstBarrier = __COUNTER__ + 1;
#include "cuda/kernels/04_register_tiles.cu"
constexpr int kBarriers = __COUNTER__ - kFirstBarrier;

namespace ringscope::cuda {
namespace {

TEST(MissingBarrier, InRegisterTilesIsFound) {
  expect_every_barrier_is_missed(register_tiles_with_numbered_barriers(), kBarriers);
}

}  // namespace
}  // namespace ringscope::cuda
