// All ranks agree, or all end with one and the same line that names rank and option.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <future>
#include <thread>

#include "core/process/agreement.h"
#include "tests/core/process/job.h"

namespace ringscope {
namespace {

constexpr int kRanks = 3;

struct Brought {
  Terms terms;
  std::string bad_input;
};

// What every rank sees of an agreement about what `brought` says by rank.
std::vector<std::string> agreements(const std::vector<Brought>& brought) {
  const int world_size = static_cast<int>(brought.size());
  LifelineDoor door;
  const std::string invitation = door.invitation();
  std::vector<std::future<std::string>> seen;
  for (int rank = 0; rank < world_size; ++rank)
    seen.push_back(std::async(std::launch::async, [&, rank]() -> std::string {
      const auto line = rank == 0 ? Lifeline::host(std::move(door), world_size, kPatience)
                                  : Lifeline::join(invitation, rank, world_size, kPatience);
      const Brought& mine = brought[static_cast<std::size_t>(rank)];
      std::string outcome = "agreed";
      try {
        agree(*line, mine.terms, mine.bad_input);
      } catch (const InputError& error) {
        outcome = std::string("bad input: ") + error.what();
      } catch (const RunError& error) {
        outcome = std::string("run: ") + error.what();
      }
      line->leave();  // everybody lives
      return outcome;
    }));
  std::vector<std::string> all;
  for (auto& each : seen) all.push_back(each.get());
  return all;
}

std::vector<std::string> all_see(const std::string& outcome, int ranks = kRanks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks), outcome);
}

const Terms kTerms = {{"version", "0.1.0+1a2b3c"},
                      {"shape", "1,8,8,4096,64"},
                      {"--mask", "full"},
                      {"--dtype", "f32"}};

TEST(Agreement, OfEqualTerms) {
  EXPECT_EQ(agreements({{kTerms, ""}, {kTerms, ""}, {kTerms, ""}}), all_see("agreed"));
  EXPECT_EQ(agreements({{kTerms, ""}}), all_see("agreed", 1));
  EXPECT_EQ(agreements({{{}, ""}, {{}, ""}}), all_see("agreed", 2));
}

TEST(Agreement, NamesWhateverTermDiffersOnWhateverRank) {
  for (std::size_t i = 0; i < kTerms.size(); ++i)
    for (std::size_t rank = 1; rank < kRanks; ++rank) {
      std::vector<Brought> brought(kRanks, {kTerms, ""});
      brought[rank].terms[i].second = "other";
      EXPECT_EQ(agreements(brought),
                all_see(fmt::format("run: rank {} has {} other, rank 0 has {} {}", rank,
                                    kTerms[i].first, kTerms[i].first, kTerms[i].second)));
    }
}

TEST(Agreement, NamesTheLowestRankThatDiffers) {
  std::vector<Brought> brought(kRanks, {kTerms, ""});
  brought[0].terms[2].second = "causal";
  EXPECT_EQ(agreements(brought), all_see("run: rank 1 has --mask full, rank 0 has --mask causal"));
}

TEST(Agreement, NamesALackingTerm) {
  std::vector<Brought> brought(kRanks, {kTerms, ""});
  brought[2].terms.pop_back();
  EXPECT_EQ(agreements(brought), all_see("run: rank 2 has no --dtype, rank 0 has --dtype f32"));
  brought[1].terms.push_back({"--scale", "0.5"});
  EXPECT_EQ(agreements(brought), all_see("run: rank 1 has --scale 0.5, rank 0 has no --scale"));
}

TEST(Agreement, BadInputOfAnyRankIsEverybodysAsItStands) {
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    std::vector<Brought> brought(kRanks, {kTerms, ""});
    brought[rank] = {{}, "--q q.npy: no such file"};  // such a rank may bring less
    EXPECT_EQ(agreements(brought), all_see("bad input: --q q.npy: no such file"));
  }
  EXPECT_EQ(agreements({{kTerms, ""}, {kTerms, "first"}, {kTerms, "second"}}),
            all_see("bad input: first"));
}

// A long value is shown where it differs.
TEST(Agreement, ShowsOfLongValuesWhereTheyDiffer) {
  std::string lengths;
  for (int i = 0; i < 20000; ++i) lengths += fmt::format("{},", 1000 + i);
  std::vector<Brought> brought(2, {{{"--mask", lengths}}, ""});
  brought[1].terms[0].second[50001] = 'X';
  const std::vector<std::string> seen = agreements(brought);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_LT(seen[0].size(), 250u);
  const std::size_t shown = seen[0].find("X");
  ASSERT_NE(shown, std::string::npos) << seen[0];
  expect_contains(seen[0],
                  "..." + lengths.substr(49981, 20) + "X" + lengths.substr(50002, 39) + "...");
  expect_contains(seen[0], "rank 0 has --mask ..." + lengths.substr(49981, 60) + "...");

  brought[1].terms[0].second = lengths + "1";
  expect_contains(agreements(brought)[0], lengths.substr(lengths.size() - 20) + "1");
}

TEST(Agreement, EndsWithALostRank) {
  Job job(kRanks, [](Place& place) -> std::string {
    const auto line = place.enter();
    place.mark();
    if (place.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
    agree(*line, kTerms);
    return "agreed";
  });
  job.wait_for_marks();
  job.send_signal(1, SIGKILL);
  for (const int rank : {0, 2})
    EXPECT_EQ(job.outcome(rank), "RunError rank 1, step -1: its process ended");
}

}  // namespace
}  // namespace ringscope
