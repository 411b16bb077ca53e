// The ring over the real NCCL, on whatever GPUs there are: also on a single one, which ranks share,
// slowly, as processes or, from NCCL 2.30.3 on, as threads. Skipped where there is no GPU or no NCCL.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "cuda/nccl/run_on_nccl.h"
#include "cuda/ring/run_on_gpu.h"
#include "tests/nccl/forked_ranks.h"

namespace ringscope::cuda {
namespace {

constexpr double kLimitS = 120;

class NcclRing : public testing::Test {
 protected:
  void SetUp() override {
    if (!nccl_machine().why_not.empty()) GTEST_SKIP() << nccl_machine().why_not;
  }
};

// Lengths that no world_size divides, in f32 and bf16, with two masks.
const std::vector<std::unique_ptr<RingReference>>& problems() {
  static const auto all = [] {
    // Under compute-sanitizer everything is slow.
    const bool small = std::getenv("RINGSCOPE_SMALL_TESTS") != nullptr;
    std::vector<std::unique_ptr<RingReference>> made;
    made.push_back(std::make_unique<RingReference>(AttentionShape{1, 2, 1, small ? 61 : 203, 64},
                                                   DType::f32, "causal", 0.125f, 301));
    made.push_back(std::make_unique<RingReference>(AttentionShape{1, 4, 2, small ? 97 : 517, 128},
                                                   DType::bf16, "causal+window:300", 0.1f, 302));
    return made;
  }();
  return all;
}

// Every partition, both schemes in turn, forward and backward.
std::vector<NcclCase> cases_of(int world_size) {
  std::vector<NcclCase> cases;
  for (const auto& problem : problems())
    for (const PartitionKind partition : kAllPartitions)
      cases.push_back({problem.get(), problem->config(partition, world_size)});
  cases.push_back(
      {problems().front().get(),
       problems().front()->config(PartitionKind::zigzag, world_size, scheme_named("allgather"))});
  for (NcclCase& one : cases) one.config.timeout_s = 40;
  return cases;
}

void expect_right(const std::vector<NcclCase>& cases, const ForkedRuns& runs) {
  for (std::size_t rank = 0; rank < runs.ends.size(); ++rank)
    ASSERT_TRUE(runs.ends[rank].ended_well)
        << "process " << rank << ", signal " << runs.ends[rank].signal << ": rank "
        << runs.ends[rank].rank << ", step " << runs.ends[rank].step << ": "
        << runs.ends[rank].what;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(std::string(name_of(cases[i].config.partition)) + ", " + cases[i].problem->mask);
    check(cases[i], runs.outputs[i]);
  }
}

RingRun by_nccl(const NcclCase& one) {
  NcclOptions options;
  options.kernels = one.kernels();
  return run_on_nccl(one.config, one.problem->inputs, {}, options);
}

TEST_F(NcclRing, OfOneRank) {
  const std::vector<NcclCase> cases = cases_of(1);
  expect_right(cases, run_in_one_process(cases, by_nccl, kLimitS));
}

TEST_F(NcclRing, OfTwoProcesses) {
  const std::vector<NcclCase> cases = cases_of(2);
  expect_right(cases, run_a_process_a_rank(cases, kLimitS));
}

TEST_F(NcclRing, OfFourProcesses) {
  const std::vector<NcclCase> cases = cases_of(4);
  expect_right(cases, run_a_process_a_rank(cases, kLimitS));
}

TEST_F(NcclRing, OfEightProcesses) {
  const std::vector<NcclCase> cases = cases_of(8);
  expect_right(cases, run_a_process_a_rank(cases, kLimitS));
}

TEST_F(NcclRing, OfFourProcessesWithTheBestKernels) {
  if (nccl_machine().architecture != 90) GTEST_SKIP() << "kernels 07 and 11 need another GPU";
  std::vector<NcclCase> cases;
  for (NcclCase one : cases_of(4)) {
    one.by_best_kernels = true;
    if (one.config.dtype == DType::bf16) cases.push_back(one);
  }
  expect_right(cases, run_a_process_a_rank(cases, kLimitS));
}

TEST_F(NcclRing, OfThreads) {
  constexpr int kSharesGpus = 23003;
  if (nccl_machine().gpus < 2 && nccl_machine().version < kSharesGpus)
    GTEST_SKIP() << "one GPU, and an NCCL older than 2.30.3 takes one rank a GPU within a process";
  const std::vector<NcclCase> cases = cases_of(2);
  expect_right(cases, run_in_one_process(cases, by_nccl, kLimitS));
}

// Not NCCL's: the same blocks moved by copy engines.
TEST_F(NcclRing, ByCopyEnginesBetweenGpus) {
  const int gpus = nccl_machine().gpus;
  if (gpus < 2) GTEST_SKIP() << "one GPU alone";
  const std::vector<NcclCase> cases = cases_of(2);
  const auto by_copies = [](const NcclCase& one) {
    GpuOptions options;
    options.kernels = one.kernels();
    options.gpus = 2;
    return run_on_gpu(one.config, one.problem->inputs, {}, options);
  };
  expect_right(cases, run_in_one_process(cases, by_copies, kLimitS));
}

// A rank that is gone, or a receive that is never asked for: the others end, and name it.
class NcclRingFaults : public NcclRing {
 protected:
  static constexpr double kTimeoutS = 8;

  static ForkedRuns run_with(Fault fault) {
    NcclCase one{problems().front().get(), problems().front()->config(PartitionKind::zigzag, 2)};
    one.config.timeout_s = kTimeoutS;
    one.config.injection = Injection{fault, 1, 0};
    return run_a_process_a_rank({one}, kLimitS);
  }
};

TEST_F(NcclRingFaults, AKilledRankIsNamedByTheOther) {
  const ForkedRuns runs = run_with(Fault::killed_rank);
  EXPECT_EQ(runs.ends[1].signal, 9);
  EXPECT_EQ(runs.ends[0].signal, 0) << "it had to be killed";
  EXPECT_FALSE(runs.ends[0].ended_well);
  EXPECT_EQ(runs.ends[0].rank, 1) << runs.ends[0].what;
}

TEST_F(NcclRingFaults, AReceiveThatIsNotPostedEndsAll) {
  const ForkedRuns runs = run_with(Fault::unposted_recv);
  for (const RankEnd& end : runs.ends) {
    EXPECT_EQ(end.signal, 0) << "it had to be killed";
    EXPECT_FALSE(end.ended_well);
    EXPECT_NE(end.what.find("no progress"), std::string::npos) << end.what;
  }
}

}  // namespace
}  // namespace ringscope::cuda
