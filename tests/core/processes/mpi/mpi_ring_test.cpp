// Ranks as processes, by mpirun: the same bits as threads, runs that fail end, and which ranks are
// taken for stuck.
#include "core/processes/mpi/mpi_session.h"
#include "tests/core/base/thrown.h"
#include "tests/core/processes/mpi/mpirun.h"

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
  for (const int world_size : {1, 2, 3, 4, 5, 8})
    all.push_back({world_size, "sweep", " runs compared\n"});
  return all;
}
INSTANTIATE_TEST_SUITE_P(BitForBitAsOnThreads, MpiRing, testing::ValuesIn(sweeps()), name_of_well);

// Blocks of many messages and empty ones; blocks that come in ahead while a rank is at work; a rank that
// waits for the disk, which is not stuck.
INSTANTIATE_TEST_SUITE_P(Others, MpiRing,
                         testing::Values(Well{2, "messages", ""}, Well{3, "messages", ""},
                                         Well{2, "ahead", "3 buffers: 1 ahead\n"},
                                         Well{5, "ahead", "3 buffers: 2 ahead\n"},
                                         Well{2, "slow_disk", "2 steps\n"}),
                         name_of_well);

// What the driver is to do on three ranks, and the failure that all of them then end with.
struct Ill {
  const char *name, *arguments, *failure;
};

class MpiFailure : public testing::TestWithParam<Ill> {};

TEST_P(MpiFailure, EndsAllRanksAlike) {
  RINGSCOPE_SKIP_WITHOUT_MPIRUN();
  const MpiResult run = run_driver(3, GetParam().arguments);
  EXPECT_EQ(run.status, 3);
  const std::string said = std::string("a rank ends: ") + GetParam().failure + "\n";
  int count = 0;
  for (std::size_t at = 0; (at = run.output.find(said, at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 3) << run.output;
}

INSTANTIATE_TEST_SUITE_P(
    Failures, MpiFailure,
    testing::Values(
        // Its neighbours wait for it, not it for them.
        Ill{"Stuck", "stuck",
            "rank 1, step -1: no progress for 1 s; others wait for it, and it waits for nobody"},
        Ill{"InputThatRank0CannotRead", "no_source", "rank 0, step -1: the disk is gone"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(MpiSession, KnowsItsLibraryAndItsLauncher) {
  expect_contains(mpi_version(), ", MPI ");
  EXPECT_FALSE(launched_by_mpi());
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_TRUE(launched_by_mpi());
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace ringscope
