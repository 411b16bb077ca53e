// Tests all claims together: none is missing, none lacks a part, and the page is the committed one.
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>

#include "tests/claims/claim.h"

namespace ringscope::claims {
namespace {

// This many claims were listed before the tests were written. Of those found since, some are gone,
// and the others keep their numbers.
constexpr int kListed = 53;

std::string id_of(int number) { return (number < 10 ? "C0" : "C") + std::to_string(number); }

TEST(Ledger, HasEveryListedClaimOnce) {
  const std::vector<Claim>& claims = all_claims();
  ASSERT_GE(std::ssize(claims), kListed);
  for (int i = 0; i < kListed; ++i) EXPECT_EQ(claims[static_cast<std::size_t>(i)].id, id_of(i + 1));
  for (std::size_t i = kListed; i < claims.size(); ++i) EXPECT_LT(claims[i - 1].id, claims[i].id);
}

TEST(Ledger, LacksNoPartOfAClaim) {
  const std::set<std::string> sources = {"S0", "S1", "S2", "S3", "S4"};
  for (const Claim& claim : all_claims()) {
    EXPECT_GE(claim.claim.size(), 20u) << claim.id;
    EXPECT_GE(claim.correct.size(), 20u) << claim.id;
    EXPECT_FALSE(claim.place.empty()) << claim.id;
    EXPECT_GE(claim.source.size(), 2u) << claim.id;
    for (std::size_t at = 0; at < claim.source.size(); at += 4)
      EXPECT_TRUE(sources.contains(claim.source.substr(at, 2))) << claim.id << ": " << claim.source;
    EXPECT_FALSE(claim.figures.empty()) << claim.id;
    EXPECT_TRUE(claim.test.starts_with(claim.id + "_")) << claim.test;
    for (const Figure& figure : claim.figures) {
      EXPECT_FALSE(figure.what.empty()) << claim.id;
      EXPECT_FALSE(figure.broken.how.empty()) << claim.id << ", " << figure.what;
    }
    EXPECT_NO_THROW(filled_in(claim.correct, claim.figures)) << claim.id;
    EXPECT_TRUE(is_on_the_page(claim)) << claim.id << ": " << claim.topic;
  }
}

// No test of a claim passes whatever is computed: with any one figure computed otherwise, the same
// checks have a complaint. Nor does one pass with the opposite verdict, or with a figure that comes
// out the same when it is computed otherwise.
TEST(Ledger, EveryClaimIsRejectedWithOneThingChanged) {
  for (const Claim& claim : all_claims()) {
    EXPECT_TRUE(complaints(claim).empty()) << claim.id;
    for (std::size_t i = 0; i < claim.figures.size(); ++i) {
      const Figure& figure = claim.figures[i];
      Claim changed = claim;
      changed.figures[i].value = figure.broken.value;
      EXPECT_FALSE(complaints(changed).empty())
          << claim.id << ", " << figure.what << ": " << figure.broken.how;
      Claim harmless = claim;
      harmless.figures[i].broken.value = figure.value;
      EXPECT_FALSE(complaints(harmless).empty()) << claim.id << ", " << figure.what;
    }
    Claim opposite = claim;
    opposite.verdict = claim.verdict == Verdict::holds ? Verdict::wrong : Verdict::holds;
    EXPECT_FALSE(complaints(opposite).empty()) << claim.id;
  }
}

// The verdict follows from the figures, and one that does not is reported.
TEST(Ledger, VerdictsFollowFromFigures) {
  const Figure supports("", 1, exactly(1), {"", 2}, 1), refutes("", 1, exactly(1), {"", 2}, 2);
  const Figure silent("", 1, exactly(1), {"", 2});
  const auto agrees = [](Verdict verdict, const std::vector<Figure>& figures) {
    Claim claim{"", "", figures};
    claim.verdict = verdict;
    return agreement(claim).empty();
  };
  EXPECT_TRUE(agrees(Verdict::holds, {supports, silent}));
  EXPECT_FALSE(agrees(Verdict::holds, {supports, refutes}));
  EXPECT_FALSE(agrees(Verdict::holds, {silent}));
  EXPECT_TRUE(agrees(Verdict::wrong, {supports, refutes}));
  EXPECT_FALSE(agrees(Verdict::wrong, {supports}));
  for (const Verdict verdict : {Verdict::holds_if, Verdict::ambiguous}) {
    EXPECT_TRUE(agrees(verdict, {supports, refutes}));
    EXPECT_FALSE(agrees(verdict, {supports}));
    EXPECT_FALSE(agrees(verdict, {refutes}));
  }
}

TEST(Ledger, NanIsInNoRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(near(0, 1).holds(nan));
  EXPECT_FALSE(at_most(1).holds(nan));
  EXPECT_FALSE(at_least(1).holds(nan));
}

TEST(Ledger, ThePageIsTheCommittedOne) {
  std::ifstream file(RINGSCOPE_SOURCE_DIR "/lessons/claims.md", std::ios::binary);
  const std::string committed{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(page_of(all_claims()), committed)
      << "lessons/claims.md is stale; write it with: claims_tests --page lessons/claims.md";
}

}  // namespace
}  // namespace ringscope::claims

// `claims_tests --page FILE` writes the page of claims; otherwise the tests are run.
int main(int argc, char** argv) {
  using namespace ringscope::claims;
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::string(argv[1]) == "--page") {
    std::ofstream file(argv[2], std::ios::binary);
    file << page_of(all_claims());
    file.close();
    if (file) return 0;
    std::cerr << argv[2] << ": can't be written\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}
