// Which ranks are taken for stuck, by mpirun.
#include "tests/core/base/thrown.h"
#include "tests/core/mpi/mpirun.h"

namespace ringscope {
namespace {

TEST(MpiStall, ARankThatWaitsForTheDiskIsNotStuck) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(2, "slow_disk");
  EXPECT_EQ(run.status, 0) << run.output;
  expect_contains(run.output, "2 steps\n");
}

// Its neighbours wait for it, not it for them.
TEST(MpiStall, TheRankThatTheOthersWaitForIsNamed) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(3, "stuck");
  EXPECT_EQ(run.status, 3) << run.output;
  EXPECT_LT(run.seconds, 10);
  for (const char* rank : {"0", "1", "2"})
    expect_contains(run.output,
                    std::string("rank ") + rank +
                        " ends: rank 1: no progress for 1 s; others wait for it, and it "
                        "waits for nobody\n");
}

}  // namespace
}  // namespace ringscope
