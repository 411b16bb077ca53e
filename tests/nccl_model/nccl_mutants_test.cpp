// A ring that states its dependencies badly, or whose ranks do not ask for the same hops, is found
// out by the stand-in for NCCL: wrong numbers, a complaint, or a hang that the signs of life end.
#include <gtest/gtest.h>

#include "cuda/nccl/run_on_nccl.h"
#include "tests/nccl_model/nccl_run.h"

namespace ringscope::cuda {
namespace nccl_mutants_test {

const RingReference& problem() {
  static const RingReference reference({1, 1, 1, 22, 4}, DType::f32, "full", 0.5f, 91);
  return reference;
}

// How a run with the mistake shows it, under any of some orders of streams; empty: not at all.
std::string shows(Mistake mistake, std::uint64_t seeds, double timeout_s) {
  constexpr int kRanks = 4;
  Problem config = problem().config(PartitionKind::zigzag, kRanks);
  config.timeout_s = timeout_s;
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < kRanks; ++rank) seats.push_back({rank, 0});
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    reset_models();
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    model::set_stream_seed(seed);
    AttentionOutputs outputs;
    const auto error = error_of([&] {
      DeviceSetup setup("nccl", config, seats, quick_options().kernels);
      NcclWorld world(new_nccl_id(), kRanks, seats, {4, 20});
      NcclEngine engine(world, setup, quick_options(), RankLives::in_a_thread);
      outputs = run_with_mistake(engine, problem(), config, mistake);
    });
    if (error) return error->what();
    if (!model::nccl_complaints().empty()) return model::nccl_complaints().front();
    if (!same_numbers(outputs, problem().oracle)) return "wrong numbers";
  }
  return "";
}

class NcclMutants : public NcclTest {};

TEST_F(NcclMutants, NoneOfThemNothingShows) { EXPECT_EQ(shows(Mistake::nothing, 8, 20), ""); }

// (That a block has arrived before it is sent on needs no event: a rank's hops are in one stream.)
TEST_F(NcclMutants, AMissingDependencyShows) {
  for (const Mistake mistake : {Mistake::attends_before_arrival, Mistake::backward_before_arrival,
                                Mistake::adds_before_arrival, Mistake::receives_before_consumed,
                                Mistake::gradient_sent_before_summed})
    EXPECT_NE(shows(mistake, 40, 20), "") << "mistake " << static_cast<int>(mistake);
}

TEST_F(NcclMutants, AnUngroupedPairHangs) {
  EXPECT_NE(shows(Mistake::send_not_grouped, 1, 1).find("wait for each other"), std::string::npos);
}

TEST_F(NcclMutants, AHopLeftOutOnOneRankShows) {
  EXPECT_NE(shows(Mistake::hop_left_out, 1, 0.3), "");
}

}  // namespace nccl_mutants_test
}  // namespace ringscope::cuda
