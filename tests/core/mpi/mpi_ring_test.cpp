// Ranks as processes, by mpirun: the same bits as threads, and runs that fail end.
#include "core/mpi/mpi_session.h"
#include "tests/core/base/thrown.h"
#include "tests/core/mpi/mpirun.h"

namespace ringscope {
namespace {

class MpiRing : public testing::TestWithParam<int> {};

TEST_P(MpiRing, EqualsTheRingOnThreadsBitForBit) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(GetParam(), "sweep");
  EXPECT_EQ(run.status, 0) << run.output;
  expect_contains(run.output, " runs compared\n");
}

INSTANTIATE_TEST_SUITE_P(WorldSize, MpiRing, testing::Range(1, 9),
                         [](const auto& tested) { return std::to_string(tested.param); });

TEST(MpiMessages, BlocksOfManyMessagesAndEmptyOnesGoRound) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  for (const int world_size : {2, 3}) {
    const MpiResult run = run_driver(world_size, "messages");
    EXPECT_EQ(run.status, 0) << run.output;
  }
}

// TP 2 x CP 2: every process is in two rings.
TEST(MpiGroups, TensorParallelHeadsWithARingEqualThoseOnThreadsBitForBit) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(4, "tensor_parallel");
  EXPECT_EQ(run.status, 0) << run.output;
  expect_contains(run.output, "12 runs compared\n");
}

TEST(MpiBuffers, BlocksComeInAheadWhileARankIsAtWork) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  for (const int world_size : {2, 5}) {
    const MpiResult run = run_driver(world_size, "ahead");
    EXPECT_EQ(run.status, 0) << run.output;
    expect_contains(run.output,
                    "3 buffers: " + std::to_string(world_size == 2 ? 1 : 2) + " ahead\n");
  }
}

// Every rank says the same, and each once.
void expect_all_end(const MpiResult& run, int world_size, const std::string& error) {
  EXPECT_NE(run.status, 0);
  for (int rank = 0; rank < world_size; ++rank) {
    const std::string line = "rank " + std::to_string(rank) + " ends: " + error + "\n";
    expect_contains(run.output, line);
  }
  EXPECT_EQ(run.output.find("no failure"), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("recorded: 0 events"), std::string::npos) << run.output;
  EXPECT_LT(run.seconds, 10);
}

TEST(MpiFailure, AWrongCountNamesBothSides) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  // A block of 13 rows, 2 heads and 8 dimensions, K and V in f32, sent a row short.
  expect_all_end(
      run_driver(3, "fail wrong-count@1:1"), 3,
      "rank 1, step 1: sent 1664 bytes of owner 0 (kv), where rank 2 expected 1792 bytes "
      "of owner 0 (kv)");
}

TEST(MpiFailure, AReceiveThatIsNeverPostedEndsByTheTimeout) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(2, "fail unposted-recv@1:0");
  expect_all_end(
      run, 2, "rank 1, step 0: no progress for 1 s; others wait for it, and it waits for nobody");
  EXPECT_GT(run.seconds, 1);
}

TEST(MpiFailure, InputThatRankZeroCannotReadEndsTheOthersWhoWaitForIt) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(3, "fail source");
  EXPECT_NE(run.status, 0);
  for (const char* rank : {"rank 0", "rank 1", "rank 2"})
    expect_contains(run.output, std::string(rank) + " ends: rank 0, step -1: the disk is gone\n");
}

TEST(MpiSession, KnowsItsLibraryAndItsLauncher) {
  expect_contains(mpi_version(), ", MPI ");
  EXPECT_FALSE(launched_by_mpi());
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_TRUE(launched_by_mpi());
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace ringscope
