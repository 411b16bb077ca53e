// Each bug of the zoo is caught by the symptom that its page names, with three seeds, and a run
// without the bug lacks that symptom. The quiz gives no name away before it has asked.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/tools/explain/explain.h"
#include "lessons/book/zoo.h"
#include "tests/app/program.h"

namespace ringscope::lessons {
namespace {

bool passes(const Evidence& e, std::string_view name) {
  return std::any_of(e.verdict.tensors.begin(), e.verdict.tensors.end(),
                     [&](const TensorCheck& t) { return t.name() == name && t.passes(); });
}

// Return whether row `at` of out, of all heads after each other, is right.
bool is_right(const Evidence& e, std::size_t at) {
  const auto width = static_cast<std::size_t>(e.problem.shape.head_dim);
  for (std::size_t i = at * width; i < (at + 1) * width; ++i)
    if (!(std::abs(e.mine.out[i] - e.right.out[i]) <= 1e-5)) return false;
  return true;
}

// Return whether `f` holds for every row: its index, and its position in the text.
bool all_rows(const Evidence& e, const std::function<bool(std::size_t, Index)>& f) {
  for (std::size_t at = 0; at < e.mine.lse.size(); ++at)
    if (!f(at, static_cast<Index>(at) % e.problem.shape.seqlen)) return false;
  return !e.mine.lse.empty();
}

// Return whether dQ of every rank is right but for one factor of its rows, not 1 for all.
bool has_a_factor_for_each_rank(const Evidence& e) {
  const auto width = static_cast<std::size_t>(e.problem.shape.head_dim);
  bool any_other_than_1 = false;
  for (int rank = 0; rank < e.problem.world_size; ++rank) {
    const LocalRows rows = e.problem.partition_of_sequence().rows_of(rank);
    double both = 0, right = 0, mine = 0;
    for (Index i = 0; i < rows.size(); ++i)
      for (auto at = static_cast<std::size_t>(rows.global_position(i)); at < e.mine.lse.size();
           at += static_cast<std::size_t>(e.problem.shape.seqlen))
        for (std::size_t x = at * width; x < (at + 1) * width; ++x) {
          both += e.mine.dq[x] * e.right.dq[x];
          right += e.right.dq[x] * e.right.dq[x];
          mine += e.mine.dq[x] * e.mine.dq[x];
        }
    if (!(std::abs(both * both - right * mine) <= 1e-6 * right * mine)) return false;
    any_other_than_1 = any_other_than_1 || std::abs(both / right - 1) > 0.01;
  }
  return any_other_than_1;
}

using Symptom = std::function<bool(const Evidence&)>;

// How to look for each symptom that a page may name, but those that take another run.
const std::map<std::string, Symptom>& symptoms() {
  static const std::map<std::string, Symptom> all = {
      {"Out is NaN in some rows, and their lse is right",
       [](const Evidence& e) {
         return passes(e, "lse") && std::any_of(e.mine.out.begin(), e.mine.out.end(),
                                                [](double x) { return std::isnan(x); });
       }},
      {"The last rows have no key at all",
       [](const Evidence& e) {
         const Index seqlen = e.problem.shape.seqlen, most = seqlen - seqlen % e.problem.world_size;
         return most < seqlen && all_rows(e, [&](std::size_t at, Index position) {
                  return std::isinf(e.mine.lse[at]) == (position >= most);
                });
       }},
      {"Lse is right, and out is wrong",
       [](const Evidence& e) { return passes(e, "lse") && !passes(e, "out"); }},
      {"Where one block has all keys, out is right and lse is 1.4427 times too large",
       [](const Evidence& e) {
         return all_rows(e, [&](std::size_t at, Index position) {
           return position >= 6 || (is_right(e, at) && std::abs(e.mine.lse[at] / e.right.lse[at] -
                                                                std::numbers::log2e) <= 1e-4);
         });
       }},
      {"Rows that don't fill the window are right, and all others are wrong",
       [](const Evidence& e) {
         const Index window = e.problem.mask.for_seqlen(e.problem.shape.seqlen).window;
         return all_rows(e, [&](std::size_t at, Index position) {
           return is_right(e, at) == (position < window);
         });
       }},
      {"The forward pass is right, and dQ is off by one factor for each rank",
       [](const Evidence& e) { return passes(e, "out") && has_a_factor_for_each_rank(e); }},
      {"Every hop is over before the computing beside it begins",
       [](const Evidence& e) {
         const auto [hops, over] = hops_over_before_computing(e.recording);
         return hops > 0 && hops == over;
       }},
      {"`explain` names a slow rank, the last one",
       [](const Evidence& e) {
         const Explanation why = explain(e.recording);
         return !why.findings.empty() && why.findings[0].cause == Cause::slow_rank &&
                why.findings[0].rank == e.problem.world_size - 1;
       }},
      {"The run stands still, and the ranks wait for each other in a circle",
       [](const Evidence& e) { return e.ending.ends_with("0 for 1 for 2 for 3 for 0"); }}};
  return all;
}

// Return whether the symptom of the bug's page is there in a run with these inputs.
bool shows_symptom(const Bug& bug, std::uint64_t seed, bool with_bug) {
  const Evidence e = evidence_of(bug, seed, with_bug);
  if (bug.symptom == "`check` names it")
    return !e.verdict.suspects.empty() && name_of(e.verdict.suspects[0].mistake) == bug.name;
  if (bug.symptom == "Out is right on two ranks, and wrong on four")
    return !passes(e, "out") && passes(evidence_of(bug, seed, with_bug, 2), "out");
  const auto found = symptoms().find(bug.symptom);
  if (found == symptoms().end())
    throw std::logic_error("nobody knows how to look for '" + bug.symptom + "'");
  return found->second(e);
}

class EveryBug : public testing::TestWithParam<int> {
 protected:
  const Bug& bug() const { return zoo()[static_cast<std::size_t>(GetParam())]; }
};

TEST_P(EveryBug, IsCaughtByItsSymptom) {
  for (const std::uint64_t seed : {11u, 12u, 13u}) {
    EXPECT_TRUE(shows_symptom(bug(), seed, true)) << "seed " << seed;
    EXPECT_FALSE(shows_symptom(bug(), seed, false)) << "seed " << seed;
  }
}

TEST_P(EveryBug, HasAPageThatIsWhole) {
  for (const char* const part :
       {"- **Seen:** ", "- **Found:** ", "- **Happened:** [", "https://github.com/"})
    EXPECT_NE(bug().text.find(part), std::string::npos) << part;
  for (const std::string& choice : bug().choices) EXPECT_EQ(bug_of(choice).name, choice);
  EXPECT_EQ(std::set<std::string>(bug().choices.begin(), bug().choices.end()).size(), 4u);
  EXPECT_EQ(evidence_of(bug(), 1).text().find(bug().name), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryBug, testing::Range(0, static_cast<int>(zoo().size())),
                         [](const auto& bug) {
                           std::string name = zoo()[static_cast<std::size_t>(bug.param)].name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// What the pages say beside the symptom.
TEST(Zoo, PagesSayWhatElseIsSeen) {
  const auto on = [](const char* name, int ranks) {
    return evidence_of(bug_of(name), 11, true, ranks);
  };
  EXPECT_NE(on("rounds-each-hop", 1).verdict.result, CheckResult::wrong);
  EXPECT_EQ(on("rounds-each-hop", 4).verdict.result, CheckResult::wrong);

  EXPECT_TRUE(passes(on("causal-in-local-order", 1), "out"));
  const Evidence local = on("causal-in-local-order", 2);
  for (int rank = 0; rank < 2; ++rank) {
    const LocalRows rows = local.problem.partition_of_sequence().rows_of(rank);
    bool all_right = true;
    for (Index i = 0; i < rows.size(); ++i)
      all_right = all_right && is_right(local, static_cast<std::size_t>(rows.global_position(i)));
    EXPECT_FALSE(all_right) << rank;
  }

  Bug unmasked = bug_of("wrong-neighbour");
  std::replace(unmasked.words.begin(), unmasked.words.end(), std::string("causal"),
               std::string("full"));
  const Evidence neighbour = evidence_of(unmasked, 11);
  for (const char* const right : {"out", "lse", "dq", "dk", "dv"})
    EXPECT_TRUE(passes(neighbour, right));

  const Evidence hop = on("gradient-one-hop-short", 4), mean = on("mean-instead-of-sum", 4);
  const auto width = static_cast<std::size_t>(hop.problem.shape.head_dim),
             rows = width * static_cast<std::size_t>(hop.problem.shape.seqlen);
  for (const Tensor tensor : {Tensor::dk, Tensor::dv}) {
    NaiveResult<double> mine = hop.mine, right = hop.right;
    const std::vector<double>&found = values_of(mine, tensor), &exact = values_of(right, tensor);
    for (std::size_t head = 0; head < found.size(); head += rows)
      for (std::size_t x = 0; x < width; ++x) {
        double found_sum = 0, exact_sum = 0;
        for (std::size_t at = head + x; at < head + rows; at += width)
          found_sum += found[at], exact_sum += exact[at];
        EXPECT_NEAR(found_sum, exact_sum, 1e-4);
      }
    NaiveResult<double> small = mean.mine, whole = mean.right;
    for (std::size_t i = 0; i < values_of(whole, tensor).size(); ++i)
      EXPECT_NEAR(4 * values_of(small, tensor)[i], values_of(whole, tensor)[i], 1e-5);
  }
}

TEST(Zoo, RefusesAFlagThatItCantRun) {
  Bug bug = bug_of("scale");
  bug.words.insert(bug.words.end(), {"--tail", "3"});
  EXPECT_THROW(evidence_of(bug, 1), std::logic_error);
}

TEST(Zoo, HasTwentyBugsAndMore) { EXPECT_GE(zoo().size(), 20u); }

TEST(Zoo, RefusesAPageThatLacksAPart) {
  EXPECT_THROW(parse_zoo("## scale\n\n    ./ringscope run --inject scale \n\nNothing.\n"),
               std::logic_error);
}

// A question comes with four choices, and only then the one that it is. The reader may stop.
TEST(Zoo, AsksWhichBugItIs) {
  std::string seen, question;
  int asked = 0;
  Console console{[&](std::string_view text) { seen += text; }};
  console.height = 1000;
  console.read_line = [&]() -> std::optional<std::string> {
    if (++asked == 2) return "q";
    question = std::exchange(seen, "");
    return "";
  };
  Terminal terminal(console);
  ask_for_bugs(terminal, 3);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(question.find("Seen: "), std::string::npos) << question;
  const auto bug = std::ranges::find_if(
      zoo(), [&](const Bug& b) { return seen.starts_with("\nIt is " + b.name + ".\n"); });
  ASSERT_NE(bug, zoo().end()) << seen;
  for (const std::string& choice : bug->choices)
    EXPECT_NE(question.find("\n  - " + choice + "\n"), std::string::npos) << question;
  EXPECT_NE(seen.find("Seen: "), std::string::npos) << seen;
}

// The choices of a question have the same settings, so that these give no name away.
TEST(Zoo, SettingsGiveNoNameAway) {
  std::map<std::string, std::string> heads;
  for (const Bug& bug : zoo()) {
    const std::string text = evidence_of(bug, 1).text();
    heads[bug.name] = text.substr(0, text.find('\n'));
  }
  heads.erase("send-first");  // it fails, so it needs no backward pass
  for (const auto& [name, head] : heads)
    for (const std::string& choice : bug_of(name).choices)
      EXPECT_TRUE(!heads.contains(choice) || head == heads[choice]) << name << ", " << choice;
}

class ZooCommand : public ProgramTest {};

// What the pages give to type runs, and exits with 0, with 1 if numbers are wrong, or with 3.
TEST_F(ZooCommand, RunsWhatThePagesSay) {
  for (const Bug& bug : zoo()) {
    std::vector<std::string> words(bug.words.begin() + 1, bug.words.end());
    const ProgramResult result = run(words);
    const bool is_timing = bug.name == "straggler" || bug.name == "no-overlap";
    EXPECT_EQ(result.status, is_timing                  ? 0
                             : bug.name == "send-first" ? 3
                                                        : 1)
        << bug.name << ": " << result.err;
  }
}

TEST_F(ZooCommand, ListsShowsAndAsks) {
  const std::string page = run_well({"lesson", "zoo", "scale"});
  EXPECT_NE(page.find("--inject scale"), std::string::npos) << page;
  const std::string all = run_well({"lesson", "zoo", "--no-pause"});
  for (const Bug& bug : zoo())
    EXPECT_NE(all.find("\nIt is " + bug.name + ".\n"), std::string::npos) << bug.name;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"lesson", "zoo", "lion"}, {"lesson", "zoo", "scale", "scale"}}) {
    const ProgramResult result = run(words);
    EXPECT_EQ(result.status, 2);
    expect_one_line(result);
    EXPECT_NE(result.err.find("accepted"), std::string::npos) << result.err;
  }
}

// ---
// The challenges: what their tables say is what the program gives.

class Challenges : public ProgramTest {
 protected:
  const std::string page_ = contents_of(RINGSCOPE_SOURCE_DIR "/lessons/challenges.md");

  // Expect a row of that name with the time that the page's command number `number` gives, with
  // its last word replaced.
  void expect_time(const std::string& name, int number, const std::string& last_word,
                   const std::string& key = "wall_s", const std::string& tile = "128x128") {
    std::size_t at = 0;
    for (int i = 0; i < number; ++i) at = page_.find("./ringscope simulate", at + 1);
    std::vector<std::string> words = words_of(page_.substr(at, page_.find('\n', at) - at));
    words.erase(words.begin());
    words.back() = last_word;
    std::replace(words.begin(), words.end(), std::string("128x128"), tile);
    words.emplace_back("--json");
    const std::string json = run_well(words);
    const double seconds = std::stod(json.substr(json.find("\"" + key + "\":") + key.size() + 3));
    expect_row(name, fmt::format("| {:.3f} ms |", 1e3 * seconds));
  }
  void expect_row(const std::string& name, const std::string& value) {
    EXPECT_NE(page_.find("| " + name + " " + value), std::string::npos) << name << " " << value;
  }
};

TEST_F(Challenges, SimulatedTablesAreRight) {
  for (const char* const partition : {"contiguous", "zigzag", "striped"})
    expect_time(partition, 1, partition);
  expect_time("best known", 1, "searched");
  expect_time("one ring", 2, "ring");
  expect_time("a ring of rings", 2, "two-level:2");
  expect_time("best known", 2, "hybrid:4");
  expect_time("an even share of the pairs", 1, "fold", "compute_s", "1x1");
  expect_time("computing alone", 2, "ring", "compute_s");
}

}  // namespace
}  // namespace ringscope::lessons
