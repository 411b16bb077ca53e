// Texts as inputs. The weights that a query gives to the keys are read off the gradient of V: when
// dO is one for that query and zero elsewhere, dV at a key is the weight.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/app/program.h"

namespace ringscope {
namespace {

const std::string kText =
    "the ring turns and every rank sends its block on, while other words (queue, lane, 42) pass "
    "by; "
    "in a ring no rank waits long, so the block comes home: ring of ranks, ring of blocks.\n";

class TextInputTest : public ProgramTest {
 protected:
  // The weights of query `at` in `text`, in head 0.
  std::vector<float> weights_of(const std::string& text, Index at,
                                const std::string& head_dim) const {
    const Index seqlen = static_cast<Index>(text.size()), width = std::stoll(head_dim);
    write_text("t.txt", text);
    write_tensor("do.npy", {1, 1, seqlen, width},
                 [&](Index i) { return i / width == at ? 1.0 : 0.0; });
    run_well({"run", "--text", "t.txt", "--heads", "1", "--head-dim", head_dim, "--mask", "causal",
              "--backward", "--dout", "do.npy", "--dv", "dv.npy"});
    const std::vector<float> dv = read_npy(path("dv.npy")).values;
    std::vector<float> weights;
    for (Index j = 0; j < seqlen; ++j) weights.push_back(dv[j * width]);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-4);
    return weights;
  }
};

// Of the weight that the last byte of the last "ring" gives away to other bytes, nearly all goes to
// the last bytes of the earlier ones, and each of those gets more than any other byte.
TEST_F(TextInputTest, RepeatedWordsAttendToTheirEarlierOccurrences) {
  const Index query = static_cast<Index>(kText.rfind("ring") + 3);
  for (const char* head_dim : {"64", "65", "128", "33"}) {
    std::vector<float> weights = weights_of(kText, query, head_dim);
    weights[query] = 0;
    double equal = 0, least_equal = 1;
    for (std::size_t at = kText.find("ring"); at + 3 < static_cast<std::size_t>(query);
         at = kText.find("ring", at + 1)) {
      equal += weights[at + 3];
      least_equal = std::min<double>(least_equal, weights[at + 3]);
      weights[at + 3] = 0;
    }
    const double others = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double largest_other = *std::max_element(weights.begin(), weights.end());
    EXPECT_GE(equal, 4 * others) << "head_dim " << head_dim;
    EXPECT_GE(least_equal, 2 * largest_other) << "head_dim " << head_dim;
  }
}

// "sing" ends as "ring" does, but is another word.
TEST_F(TextInputTest, SimilarWordsAreOtherWords) {
  const std::string text = "ring sing ring";
  const std::vector<float> weights = weights_of(text, static_cast<Index>(text.size()) - 1, "64");
  EXPECT_GE(weights[3], 20 * weights[8]);
}

// Positions are turned into K and Q: of two equal words the nearer one gets more, and both a lot.
TEST_F(TextInputTest, NearerOccurrencesGetMore) {
  const std::string text = "zip" + std::string(60, '.') + " zip; zip";
  const std::vector<float> weights = weights_of(text, static_cast<Index>(text.size()) - 1, "64");
  const std::size_t near = text.rfind("zip;") + 2;
  EXPECT_GT(weights[near], 1.5 * weights[2]);
  EXPECT_GT(weights[2], 0.01);
}

TEST_F(TextInputTest, LengthIsThatOfTheFileDividedByTheBatch) {
  write_text("t.txt", kText);
  const Index bytes = static_cast<Index>(kText.size());
  for (const Index batch : {1, 2, 3, 7}) {
    run_well({"run", "--text", "t.txt", "--batch", std::to_string(batch), "--out", "o.npy",
              "--head-dim", "4"});
    EXPECT_EQ(read_npy(path("o.npy")).shape, (std::array<Index, 4>{batch, 4, bytes / batch, 4}));
  }
}

// Every batch entry is a text of its own: the second window gives what it gives alone.
TEST_F(TextInputTest, WindowsAreIndependent) {
  write_text("both.txt", kText.substr(0, 100));
  write_text("second.txt", kText.substr(50, 50));
  const Strings rest = "--seqlen 50 --mask causal --head-dim 16 --out o.npy";
  const auto outputs = [&](const Strings& arguments) {
    run_well(arguments + rest);
    return read_npy(path("o.npy")).values;
  };
  const std::vector<float> both = outputs({"run", "--text", "both.txt", "--batch", "2"});
  const std::vector<float> second = outputs({"run", "--text", "second.txt"});
  ASSERT_EQ(both.size(), 2 * second.size());
  EXPECT_TRUE(std::equal(second.begin(), second.end(),
                         both.begin() + static_cast<std::ptrdiff_t>(second.size())));
}

TEST_F(TextInputTest, HeadsDiffer) {
  write_text("t.txt", kText);
  run_well("run --text t.txt --heads 4 --heads-kv 2 --head-dim 8 --mask causal --lse lse.npy");
  const std::size_t rows = kText.size();
  const std::vector<float> lse = read_values("lse.npy", 4 * rows);
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_FALSE(std::equal(&lse[a * rows], &lse[a * rows] + rows, &lse[b * rows]))
          << a << " and " << b;
}

}  // namespace
}  // namespace ringscope
