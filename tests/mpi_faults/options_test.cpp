// One rank was started with other options than the rest: named, before anything is computed.
#include "tests/mpi_faults/job.h"

namespace ringscope {
namespace {

using OtherOption = FaultTest;

TEST_F(OtherOption, OfAnyRankIsNamed) {
  struct Option {
    std::string name;
    Strings given;  // to one rank
    std::string said, said_of_others;
  };
  const std::vector<Option> options = {
      {"--mask", {"--mask", "causal"}, "causal", "full"},
      {"--partition", {"--partition", "zigzag"}, "zigzag", "contiguous"},
      {"--scheme", {"--scheme", "allgather"}, "allgather", "ring"},
      {"--kv-buffers", {"--kv-buffers", "3"}, "3", "2"},
      {"--dtype", {"--dtype", "bf16"}, "bf16", "f32"},
      {"--seqlen", {"--seqlen", "60"}, "60", "61"},
      {"--head-dim", {"--head-dim", "4"}, "4", "8"},
      {"--seed", {"--seed", "1"}, "1", "0"},
      {"--scale", {"--scale", "2"}, "2", ""},
      {"--backward", {"--backward"}, "", ""},
      {"--timeout", {"--timeout", "7"}, "7", "5"},
      {"--inject", {"--inject", "slow-rank@1"}, "slow-rank@1", ""}};
  constexpr int kOddRanks = 3;
  for_each(options.size(), 4, [&](std::size_t i) {
    const Option& option = options[i];
    const auto odd = i % kOddRanks;
    SCOPED_TRACE(option.name + " of rank " + std::to_string(odd));
    const std::vector<std::pair<std::string, std::string>> common = {
        {"--seqlen", "61"}, {"--head-dim", "8"}, {"--timeout", "5"}};
    std::vector<Strings> arguments(kOddRanks, Strings{"--random"});
    for (std::size_t rank = 0; rank < kOddRanks; ++rank) {
      for (const auto& [name, value] : common)
        if (rank != odd || name != option.name)
          arguments[rank] = arguments[rank] + Strings{name, value};
      if (rank == odd) arguments[rank] = arguments[rank] + option.given;
      arguments[rank] = arguments[rank] + Strings{"--out", "o.npy", "--trace", "t.json"};
    }
    const auto job = start(ranks_each(arguments));
    const JobEnd end = job->end();
    // The others are told against rank 0, whoever of them is the odd one.
    const std::string of_0 = odd == 0 ? option.said : option.said_of_others;
    const std::string of_another = odd == 0 ? option.said_of_others : option.said;
    expect_failed(end, kStartSeconds + kEndSeconds,
                  {"rank " + std::to_string(odd == 0 ? 1 : odd) + " has", option.name, of_another,
                   "rank 0 has", of_0});
    EXPECT_EQ(job->files(), std::set<std::string>{});
  });
}

}  // namespace
}  // namespace ringscope
