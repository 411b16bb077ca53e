// Ranks as processes, by mpirun: the same bits as threads, runs that fail end, and which ranks are
// taken for stuck.
#include "core/mpi/mpi_session.h"
#include "tests/core/base/thrown.h"
#include "tests/core/mpi/mpirun.h"

namespace ringscope {
namespace {

// What the driver is to do on so many ranks, and what it then says.
struct Well {
  int world_size;
  const char* arguments;
  std::string said;
};

class MpiRing : public testing::TestWithParam<Well> {};

TEST_P(MpiRing, EndsWell) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(GetParam().world_size, GetParam().arguments);
  EXPECT_EQ(run.status, 0) << run.output;
  expect_contains(run.output, GetParam().said);
}

std::string name_of_well(const testing::TestParamInfo<Well>& tested) {
  return std::string(tested.param.arguments) + "_" + std::to_string(tested.param.world_size);
}

std::vector<Well> sweeps() {
  std::vector<Well> all;
  for (int world_size = 1; world_size <= 8; ++world_size)
    all.push_back({world_size, "sweep", " runs compared\n"});
  return all;
}
INSTANTIATE_TEST_SUITE_P(BitForBitAsOnThreads, MpiRing, testing::ValuesIn(sweeps()), name_of_well);

// Blocks of many messages and empty ones; two rings a process (TP 2 x CP 2); blocks that come in
// ahead while a rank is at work; texts from a checkpoint, on a power of two of ranks and another
// number, because the tree is not the same; a rank that waits for the disk, which is not stuck.
INSTANTIATE_TEST_SUITE_P(Others, MpiRing,
                         testing::Values(Well{2, "messages", ""}, Well{3, "messages", ""},
                                         Well{4, "tensor_parallel", "12 runs compared\n"},
                                         Well{2, "ahead", "3 buffers: 1 ahead\n"},
                                         Well{5, "ahead", "3 buffers: 2 ahead\n"},
                                         Well{3, "generate", "16 texts compared\n"},
                                         Well{4, "generate", "16 texts compared\n"},
                                         Well{2, "slow_disk", "2 steps\n"}),
                         name_of_well);

// Every rank says the same.
void expect_said_by_all(const MpiResult& run, int world_size, const std::string& error) {
  EXPECT_NE(run.status, 0);
  for (int rank = 0; rank < world_size; ++rank)
    expect_contains(run.output, "rank " + std::to_string(rank) + " ends: " + error + "\n");
}

// Rank 0 has recorded something besides.
void expect_all_end(const MpiResult& run, int world_size, const std::string& error) {
  expect_said_by_all(run, world_size, error);
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
  expect_said_by_all(run_driver(3, "fail source"), 3, "rank 0, step -1: the disk is gone");
}

// Its neighbours wait for it, not it for them.
TEST(MpiFailure, TheRankThatTheOthersWaitForIsNamed) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(3, "stuck");
  EXPECT_EQ(run.status, 3) << run.output;
  expect_all_end(run, 3,
                 "rank 1: no progress for 1 s; others wait for it, and it waits for nobody");
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
