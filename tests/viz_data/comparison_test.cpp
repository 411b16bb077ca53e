// Recordings side by side: figures, names, and which one is best.
#include "viz/data/analysis/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/tools/sim/recording.h"
#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"

namespace ringscope::viz {
namespace {

const ComparedFigure* figure(const Comparison& comparison, const std::string& name) {
  for (const ComparedFigure& f : comparison.figures)
    if (f.name == name) return &f;
  return nullptr;
}

Document two_ranks(const std::string& partition, std::int64_t pairs_of_rank_1) {
  HandMade made(2, partition, "causal");
  made.compute(0, 0, 0, 100, 10).wait(0, 1, 100, 160).compute(0, 1, 160, 200, 5);
  made.compute(1, 0, 0, 10 * pairs_of_rank_1, pairs_of_rank_1).hop(1, 0, 150, 160, 1000);
  return make_document(made.trace());
}

TEST(Comparison, FiguresOfTwo) {
  const Document first = two_ranks("contiguous", 40), second = two_ranks("zigzag", 20);
  const Comparison compared = compare({&first, &second});
  const ComparedFigure* wall = figure(compared, "wall time");
  ASSERT_NE(wall, nullptr);
  EXPECT_EQ(wall->values, (std::vector<double>{400, 200}));
  EXPECT_EQ(wall->texts, (std::vector<std::string>{"400 ns", "200 ns"}));
  EXPECT_EQ(wall->ratios, (std::vector<std::string>{"", "0.5x"}));
  EXPECT_EQ(wall->best, 1);

  // All read the same: none is best.
  const ComparedFigure* waiting = figure(compared, "waiting, all ranks");
  ASSERT_NE(waiting, nullptr);
  EXPECT_EQ(waiting->texts, (std::vector<std::string>{"60 ns", "60 ns"}));
  EXPECT_EQ(waiting->ratios, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(waiting->best, -1);
  EXPECT_EQ(figure(compared, "bytes sent, all ranks")->values, (std::vector<double>{1000, 1000}));

  // More is better here. 64 rows on 2 ranks under a causal mask: in step 1 rank 0 has nothing.
  const ComparedFigure* ceiling = figure(compared, "balance ceiling, predicted");
  ASSERT_NE(ceiling, nullptr);
  EXPECT_EQ(ceiling->best, 1);
  EXPECT_EQ(ceiling->texts[1], "100 %");
  EXPECT_NEAR(ceiling->values[0], 2080.0 / 2 / (528 + 1024), 1e-12);
}

// The parts lead exactly from one wall time to the other, whatever the causes.
TEST(Difference, PartsAddUp) {
  Scenario uneven = simulated_scenario(4), even = simulated_scenario(4, PartitionKind::zigzag);
  even.stragglers = {{2, 0.8}};
  const Document from = make_document(simulated_trace(uneven));
  const Document to = make_document(simulated_trace(even));
  const Difference made = difference_between(from, to);
  ASSERT_EQ(made.refusal, "");
  EXPECT_DOUBLE_EQ(made.from_s, from.balance.wall_s);
  double sum = 0;
  for (const Difference::Part& part : made.parts) sum += part.seconds;
  EXPECT_NEAR(sum, to.balance.wall_s - from.balance.wall_s, 1e-12);
  const auto part = [&](const std::string& name) {
    for (const Difference::Part& each : made.parts)
      if (each.name == name) return each.seconds;
    return 0.0;
  };
  EXPECT_LT(part("imbalance"), 0);
  // The table beside it says the same.
  const std::vector<ComparedFigure> figures = compare({&from, &to}).figures;
  const auto lost = std::find_if(figures.begin(), figures.end(), [](const ComparedFigure& figure) {
    return figure.name == "wall time lost to imbalance";
  });
  ASSERT_NE(lost, figures.end());
  EXPECT_NEAR(1e-9 * (lost->values[1] - lost->values[0]), part("imbalance"), 1e-12);
  EXPECT_GT(part("slow rank"), 0);
  EXPECT_EQ(made.parts.back().name, "all else");
  EXPECT_NE(made.headline.find(" imbalance"), std::string::npos) << made.headline;
  EXPECT_EQ(made.unpaired, 0u);
  for (std::size_t i = 0; i < made.change.cells.size(); ++i)
    EXPECT_EQ(made.change.cells[i].compute_ns,
              to.balance.cells[i].compute_ns - from.balance.cells[i].compute_ns);
  // Without pairs there is no pace to differ from.
  EXPECT_EQ(from.balance.at(0, 1).pace_ns, 0);
  EXPECT_GT(to.balance.at(0, 1).pace_ns, 0);
  EXPECT_EQ(made.change.at(0, 1).pace_ns, 0);
  EXPECT_GT(made.change.at(2, 0).pace_ns, 0);
  // Causes of one run alone are no changes.
  Document unexplained = to;
  unexplained.why = {};
  EXPECT_EQ(difference_between(from, unexplained).parts.size(), 1u);
}

TEST(Difference, OfARunFromItselfIsNothing) {
  const Document document = make_document(simulated_trace(simulated_scenario(3)));
  const Difference made = difference_between(document, document);
  ASSERT_EQ(made.parts.size(), 1u);
  EXPECT_EQ(made.parts[0].seconds, 0);
  for (const WorkCell& cell : made.change.cells) EXPECT_EQ(cell.compute_ns, 0);
}

TEST(Difference, UnequalProblemsAndPartnersAreSaid) {
  Document from = make_document(simulated_trace(simulated_scenario(3)));
  Document to = make_document(simulated_trace(simulated_scenario(3)));
  for (std::vector<TraceEvent>& slices : to.trace.events)
    for (TraceEvent& slice : slices)
      if (slice.lane == Lane::compute && slice.step == 1) slice.kv_owner = 0;
  const Difference made = difference_between(from, to);
  EXPECT_EQ(made.unpaired, 2u);  // of ranks 0 and 2
  EXPECT_EQ(difference_between(from, make_document(simulated_trace(simulated_scenario(4)))).refusal,
            "ranks or steps");
  to.trace.info.failure = RunEnd{"killed", 1, 0};
  EXPECT_EQ(difference_between(from, to).refusal, "how they ended");
  to.trace.info.mask = "full";
  EXPECT_EQ(difference_between(from, to).refusal, "mask");
}

TEST(Comparison, HeadlineFromWhatIsPredicted) {
  const Document first = two_ranks("contiguous", 40), second = two_ranks("zigzag", 20);
  EXPECT_EQ(
      compare({&first, &second}).headline,
      "zigzag could finish 1.49 times sooner than contiguous: its ranks could be busy 100 % of "
      "the time instead of 67 %.");
  EXPECT_EQ(compare({&second, &first}).headline, compare({&first, &second}).headline);
  const Document again = two_ranks("zigzag", 20);
  EXPECT_EQ(compare({&second, &again}).headline,
            "All are balanced alike: ranks could be busy 100 % of the time.");
  EXPECT_EQ(compare({&first}).headline, "");
  // Of other work, ceilings say nothing.
  const Document other = make_document(HandMade(2, "zigzag", "full").trace());
  const Comparison unequal = compare({&first, &other});
  EXPECT_EQ(unequal.headline,
            "These runs differ in mask, so their figures are shown without ratios and without a "
            "best.");
  for (const ComparedFigure& line : unequal.figures) {
    EXPECT_EQ(line.best, -1) << line.name;
    for (const std::string& ratio : line.ratios) EXPECT_EQ(ratio, "") << line.name;
  }
}

// Who takes turns on a core may be done first with the most work to wait for.
TEST(Comparison, NoTimeOfSharedCoresIsBest) {
  Document first = two_ranks("contiguous", 10), second = two_ranks("zigzag", 40);
  Comparison compared = compare({&first, &second});
  EXPECT_EQ(compared.remark, "");
  EXPECT_EQ(figure(compared, "wall time")->best, 0);
  for (const int cores : {2, 0}) {  // enough, or unknown
    second.trace.info.machine.emplace().cores = cores;
    compared = compare({&first, &second});
    EXPECT_EQ(compared.remark, "");
    EXPECT_EQ(figure(compared, "wall time")->best, 0);
    EXPECT_EQ(compared.headline.rfind("zigzag could finish ", 0), 0u) << compared.headline;
  }
  second.trace.info.machine->cores = 1;
  compared = compare({&first, &second});
  EXPECT_EQ(compared.remark,
            "2 ranks shared 1 core: times show how they took turns, so none is called best.");
  EXPECT_EQ(compared.headline.rfind("With a core for each rank, zigzag could finish ", 0), 0u)
      << compared.headline;
  for (const ComparedFigure& line : compared.figures)
    EXPECT_EQ(line.best >= 0, line.name.starts_with("balance ceiling")) << line.name;
  EXPECT_NE(figure(compared, "wall time")->ratios[1], "");
}

TEST(Comparison, IdealTimelinesAreCalledSimulated) {
  const auto ideal = [](PartitionKind partition) {
    return make_document(
        trace_of(ideal_timeline(record_run(partition, "causal", scheme_named("ring"), 4, false))));
  };
  const Document contiguous = ideal(PartitionKind::contiguous),
                 zigzag = ideal(PartitionKind::zigzag), real = two_ranks("zigzag", 20);
  const Comparison compared = compare({&contiguous, &zigzag});
  EXPECT_EQ(compared.remark.rfind("Times are simulated: ", 0), 0u) << compared.remark;
  EXPECT_EQ(figure(compared, "computing, busiest rank")->best, 1);
  EXPECT_EQ(figure(compared, "balance ceiling, measured"), nullptr);  // nothing was
  EXPECT_EQ(compare({&contiguous, &real}).remark, "");
  EXPECT_NE(figure(compare({&contiguous, &real}), "balance ceiling, measured"), nullptr);
}

// Columns have names that differ, and what was only predicted is never the best of the recordings.
TEST(Comparison, NamesTellRecordingsApart) {
  Document first = two_ranks("zigzag", 20), second = two_ranks("zigzag", 30),
           predicted = two_ranks("zigzag", 10), other = two_ranks("contiguous", 40);
  first.trace.path = "runs/a.json";
  second.trace.path = "runs/b.json";
  predicted.predicted_from = "ring.json";
  const Comparison compared = compare({&first, &second, &other, &predicted});
  EXPECT_EQ(compared.names,
            (std::vector<std::string>{"zigzag \u00b7 a.json", "zigzag \u00b7 b.json", "contiguous",
                                      "zigzag, predicted"}));
  for (const ComparedFigure& line : compared.figures) EXPECT_NE(line.best, 3) << line.name;
  using Names = std::vector<std::string>;
  second.trace.path = "other/a.json";
  EXPECT_EQ(compare({&first, &second}).names,
            (Names{"zigzag \u00b7 runs/a.json", "zigzag \u00b7 other/a.json"}));
  // A ring that was inferred from a folder has the folder's name.
  for (Document* ring : {&first, &second}) ring->trace.info.backend = "profile";
  EXPECT_EQ(compare({&first, &second}).names, (Names{"zigzag \u00b7 runs", "zigzag \u00b7 other"}));
  for (const char* path : {"", "/", "/rank0.json", "./rank0.json", "runs/a.json"}) {
    second.trace.path = path;
    EXPECT_NE(compare({&first, &second}).names[0], compare({&first, &second}).names[1]) << path;
  }
}

TEST(Comparison, OddTraces) {
  EXPECT_TRUE(compare({}).figures.empty());
  const Document foreign = make_document(Trace{});
  EXPECT_TRUE(compare({&foreign}).figures.empty());
  const Document empty = make_document(HandMade(3).trace());
  EXPECT_FALSE(compare({&empty, &foreign}).figures.empty());
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const Document d = make_document(random_trace(seed));
    for (const ComparedFigure& f : compare({&d, &d}).figures) {
      EXPECT_EQ(f.best, -1) << f.name;
      EXPECT_EQ(f.texts[0].find("nan"), std::string::npos) << f.name;
    }
  }
}

}  // namespace
}  // namespace ringscope::viz
