// Text from a checkpoint with a process a rank, by mpirun.
#include "tests/core/base/thrown.h"
#include "tests/core/mpi/mpirun.h"

namespace ringscope {
namespace {

// A power of two and another number: the tree is not the same.
TEST(MpiGenerate, SaysAndSendsWhatThreadsDo) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  for (const int world_size : {3, 4}) {
    const MpiResult run = run_driver(world_size, "generate");
    EXPECT_EQ(run.status, 0) << run.output;
    expect_contains(run.output, "16 texts compared\n");
  }
}

}  // namespace
}  // namespace ringscope
