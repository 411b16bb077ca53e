// The MPI ring over a real network connection, which is slow: the results are those of the threads.
#include <cmath>

#include "core/trace/chrome_trace.h"
#include "tests/mpi_link/two_hosts.h"

namespace ringscope {
namespace {

class SlowLink : public ProgramTest {
 protected:
  void SetUp() override {
    // What sanitizers find inside of MPI is not ours; mpi_driver looks for leaks.
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
    ::setenv("TSAN_OPTIONS",
             "print_suppressions=0:suppressions=" RINGSCOPE_SOURCE_DIR
             "/tests/core/processes/mpi/tsan.supp",
             1);
    if (run_well({"info"}).find("backend mpi   yes") == std::string::npos)
      GTEST_SKIP() << "this build has no MPI";
    const ProgramResult version = run_words({"/bin/sh", "-c", "mpirun --version"});
    if (version.status != 0) GTEST_SKIP() << "no mpirun on PATH (Debian: openmpi-bin)";
    if (version.out.find("Open MPI") == std::string::npos)
      GTEST_SKIP() << "this mpirun is not Open MPI's, whose options are used here";
    if (const std::string why = hosts_.make(path("")); !why.empty()) GTEST_SKIP() << why;
  }

  void limit(double bytes_per_s) const { ASSERT_EQ(hosts_.limit(bytes_per_s), ""); }
  ProgramResult run_ranks(int ranks_each, const Strings& arguments) const {
    return run_words(hosts_.mpirun(ranks_each) +
                     Strings{RINGSCOPE_PROGRAM, "run", "--backend", "mpi"} + arguments);
  }

 private:
  TwoHosts hosts_;
};

TEST_F(SlowLink, GivesTheBitsOfTheThreads) {
  limit(5e6);
  const Strings problem{"--random", "--seqlen", "701",    "--heads-kv",  "2",      "--head-dim",
                        "32",       "--mask",   "causal", "--partition", "zigzag", "--backward"};
  const Strings outputs{"--out", "--lse", "--dq", "--dk", "--dv"};
  Strings here, there;
  for (const std::string& flag : outputs) {
    here = here + Strings{flag, "cpu" + flag + ".npy"};
    there = there + Strings{flag, "mpi" + flag + ".npy"};
  }
  run_well(Strings{"run", "--world-size", "4"} + problem + here);
  const ProgramResult result = run_ranks(2, problem + there + Strings{"--trace", "t.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const std::string& flag : outputs)
    EXPECT_TRUE(contents_of(path("cpu" + flag + ".npy")) ==
                contents_of(path("mpi" + flag + ".npy")))
        << flag;
  // One machine, one clock: what the ranks found their clocks to be off by is an error.
  const RunInfo info = read_chrome_trace(path("t.json")).info;
  ASSERT_EQ(info.clock_offset_ns.size(), 4u);
  for (std::size_t rank = 1; rank < 4; ++rank) {
    EXPECT_GT(info.clock_error_ns[rank], 0);
    EXPECT_LE(std::abs(info.clock_offset_ns[rank]), info.clock_error_ns[rank]) << rank;
  }
}

}  // namespace
}  // namespace ringscope
