// What the viewer's panels say of a run is what its summary and its simulation say.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <regex>
#include <set>
#include <utility>

#include "core/tools/explain/explain.h"
#include "core/tools/sim/recording.h"
#include "core/trace/summary.h"
#include "core/trace/trace.h"
#include "tests/crossings/drawn_run.h"
#include "tests/viz_data/hand_made.h"
#include "viz/data/analysis/comparison.h"
#include "viz/data/analysis/wait_reason.h"
#include "viz/data/analysis/what_if.h"
#include "viz/data/session/selection.h"

namespace ringscope::viz {
namespace {

double compared(const Document& document, const std::string& name) {
  for (const ComparedFigure& figure : compare({&document, &document}).figures)
    if (figure.name == name) return figure.values[0];
  ADD_FAILURE() << "no figure " << name;
  return NAN;
}

double sum_of(const WorkTable& table, int rank, std::int64_t WorkCell::*figure) {
  double sum = 0;
  for (int step = 0; step < table.steps; ++step)
    sum += static_cast<double>(table.at(rank, step).*figure);
  return sum;
}

// Return the rank that a sentence about `waiting` blames, and the one that it sends to, if it does.
std::pair<int, int> blamed_by(const std::string& reason, int waiting) {
  std::smatch found;
  if (std::regex_search(reason, found, std::regex("rank (\\d+) computes")))
    return {std::stoi(found[1].str()), -1};
  const auto end = [&](const std::string& way) {
    return std::regex_search(reason, found, std::regex(way + " rank (\\d+)"))
               ? std::stoi(found[1].str())
               : waiting;
  };
  return {end("from"), end("to")};
}

// One link or one rank is slow, and the reason of every long wait ends there.
TEST(Viewed, WaitsAreForWhatExplainFinds) {
  DrawnRuns runs(10);
  int waits = 0;
  for (int i = 0; i < drawn_runs(); ++i) {
    Scenario drawn;
    Problem& job = drawn.job;
    const int n = job.world_size = runs.pick({3, 4, 6, 8, 12}), slow = runs.below(n);
    const bool is_link = runs.below(2) == 0;
    job.shape = {.batch = 1, .num_heads = 2, .num_heads_kv = 2, .seqlen = 64 * n, .head_dim = 16};
    job.mask = MaskSpec::parse(runs.pick<std::string>({"full", "causal"}));
    job.partition = PartitionKind::zigzag;
    job.backward = runs.below(2) == 0;
    job.kv_buffers = 2 + runs.below(3);
    drawn.pace = runs.below(3) == 0 ? Pace::in_step : Pace::buffers;
    drawn.rates = {
        .forward_flops = 1e9, .backward_flops = 1e9, .bytes_per_s = 1e9, .latency_s = 1e-6};
    (is_link ? drawn.slow_links : drawn.stragglers) = {{slow, is_link ? 0.01 : 0.3}};
    const Trace trace = to_trace(record(drawn, n).recording, "drawn");
    const Explanation why = explain(trace);
    ASSERT_FALSE(why.findings.empty());
    SCOPED_TRACE(text_of(drawn) + ", explained by " + headline_of(why.findings[0]));
    EXPECT_EQ(is_link ? why.findings[0].from : why.findings[0].rank, slow);
    std::int64_t longest = 0;
    for_each_slice(trace, Lane::wait, [&](int, const TraceEvent& wait) {
      longest = std::max(longest, wait.duration_ns());
    });
    for (int rank = 0; rank < n; ++rank)
      for (std::uint32_t k = 0; k < trace.slices_of(rank, Lane::wait).size(); ++k) {
        const SliceId id{trace.row_of(rank, Lane::wait), k};
        const TraceEvent& wait = trace.slice(id);
        // A rank waits for none but itself where the hop is its own.
        if (wait.duration_ns() < longest / 2 || wait.peer() == rank) continue;
        const std::vector<std::string> reasons = reasons_of_wait(trace, id);
        SCOPED_TRACE(fmt::format("rank {} waits at {} ns: {}", rank, wait.begin_ns,
                                 fmt::join(reasons, "; ")));
        ASSERT_FALSE(reasons.empty());
        EXPECT_EQ(blamed_by(reasons.back(), rank),
                  is_link ? std::pair(slow, (slow + 1) % n) : std::pair(slow, -1));
        std::set<std::string> subjects;
        for (const std::string& reason : reasons) {
          std::smatch subject;
          if (std::regex_search(reason, subject, std::regex("^(?:.*: )?(rank \\d+) "))) {
            EXPECT_TRUE(subjects.insert(subject[1].str()).second) << subject[1];
          }
        }
        ++waits;
      }
  }
  EXPECT_GT(waits, drawn_runs());
}

TEST(Viewed, BalanceCompareAndAMeasureAreTheSummary) {
  DrawnRuns runs(9);
  for (int i = 0; i < drawn_runs(); ++i) {
    const Scenario drawn = runs.next();
    SCOPED_TRACE(text_of(drawn));
    const RecordedSimulation run = record(drawn, drawn.job.world_size);
    const RunSummary summary = summarize(run.recording);
    Session session = session_of(to_trace(run.recording, "drawn"));
    const Document& document = session.document();
    const WorkTable& table = document.balance;
    ASSERT_NEAR(table.imbalance, summary.imbalance, 1e-12);
    ASSERT_NEAR(table.balance_ceiling, summary.balance_ceiling, 1e-12);
    ASSERT_NEAR(table.measured_imbalance, summary.measured_imbalance, 1e-12);
    ASSERT_NEAR(table.measured_balance_ceiling, summary.measured_balance_ceiling, 1e-12);
    ASSERT_NEAR(table.exposed_s, summary.exposed_s, 1e-12);
    const std::vector<NamedOverlap> overlaps = overlaps_of(document, false);
    ASSERT_EQ(overlaps.size(), summary.ranks.size() + 1);
    double compute_ns = 0, wait_ns = 0, bytes = 0, most_ns = 0, exposed_s = 0;
    for (int rank = 0; rank < drawn.job.world_size; ++rank) {
      const RankSummary& of_rank = summary.ranks[static_cast<std::size_t>(rank)];
      ASSERT_NEAR(sum_of(table, rank, &WorkCell::compute_ns), 1e9 * of_rank.compute_s, 1e-3);
      const RankOverlap& overlap = overlaps[rank].overlap;
      const RankIdle& idle = document.idle.ranks[rank];
      ASSERT_NEAR(1e-9 * overlap.compute, of_rank.compute_s, 1e-12);
      ASSERT_NEAR(1e-9 * overlap.exposed, of_rank.exposed_s, 1e-12);
      ASSERT_NEAR(1e-9 * overlap.span, document.why.wall_s, 1e-12);
      ASSERT_EQ(overlap.exposed + overlap.idle(),
                std::accumulate(idle.by_cause.begin(), idle.by_cause.end(),
                                idle.hops + idle.in_vain + idle.rest));
      ASSERT_GE(std::min(overlap.overlapped(), overlap.idle()), 0);
      compute_ns += 1e9 * of_rank.compute_s;
      most_ns = std::max(most_ns, 1e9 * of_rank.compute_s);
      wait_ns += 1e9 * of_rank.wait_s;
      bytes += static_cast<double>(of_rank.bytes_sent);
      exposed_s += of_rank.exposed_s;
    }
    const double wall_ns = 1e9 * run.simulation.wall_s();
    EXPECT_NEAR(compared(document, "wall time"), wall_ns, 4);
    EXPECT_NEAR(compared(document, "computing, busiest rank"), most_ns, 1e-3);
    EXPECT_NEAR(compared(document, "waiting, all ranks"), wait_ns, 1e-3);
    EXPECT_NEAR(compared(document, "exposed communication, worst rank"), 1e9 * summary.exposed_s,
                1e-3);
    EXPECT_EQ(compared(document, "bytes sent, all ranks"), bytes);
    EXPECT_NEAR(static_cast<double>(overlaps.back().overlap.compute), compute_ns, 1e-3);
    // What is of the worst rank elsewhere is a sum here, and says so.
    EXPECT_EQ(overlaps.back().name, "sum of all");
    EXPECT_NEAR(1e-9 * static_cast<double>(overlaps.back().overlap.exposed), exposed_s, 1e-12);
    EXPECT_NEAR(summary.exposed_s, run.simulation.exposed_s(),
                2e-9 * static_cast<double>(run.recording.events[0].size() + 1));
    session.measure = Measure{0, session.length()};
    const auto times = measured_times(session);
    EXPECT_NEAR(static_cast<double>(times[static_cast<int>(Lane::compute)]), compute_ns, 1e-3);
    EXPECT_NEAR(static_cast<double>(times[static_cast<int>(Lane::wait)]), wait_ns, 1e-3);
  }
}

// Numbers that a recording names, so that it tells its links exactly.
std::string name_of_link(double bytes_per_s, double latency_s) {
  return fmt::format("{},{}", bytes_per_s / 1e9, 1e6 * latency_s);
}

TEST(Viewed, APredictionIsTheSimulationOfItsSettings) {
  DrawnRuns runs(12);
  int refused = 0, compared = 0;
  for (int i = 0; i < drawn_runs(); ++i) {
    Scenario drawn = runs.next();
    if (!is_offered(drawn.job.scheme)) set_scheme(drawn.job, "ring");
    if (drawn.job.scheme->course != Course::steps) drawn.pace = Pace::buffers;
    if (drawn.job.world_size % 2 == 0 && runs.below(2) == 0) {
      drawn.job.nodes = 2;
      drawn.between = find_link(name_of_link(drawn.rates.bytes_per_s / 5, 3e-6));
    }
    Recording recording = record(drawn, drawn.job.world_size).recording;
    recording.info.machine->link = name_of_link(drawn.rates.bytes_per_s, drawn.rates.latency_s);
    recording.info.machine->between = drawn.between.name;
    WhatIf what_if(make_document(to_trace(std::move(recording), "drawn")));
    ASSERT_EQ(what_if.refusal(), "") << text_of(drawn);

    Scenario asked = drawn;
    asked.job.hops = what_if.settings.job.hops;  // those that the recording shows
    asked.job.shape.num_heads = runs.pick<Index>({8, 12, 16});
    asked.job.shape.num_heads_kv = runs.pick<Index>({1, 2, 4});
    asked.job.world_size = runs.pick({drawn.job.world_size, 2, 4, 6});
    asked.job.nodes = runs.pick({1, 2});
    if (asked.job.nodes > 1)
      asked.between = find_link(name_of_link(drawn.rates.bytes_per_s / 10, 2e-6));
    asked.nics = 1 + runs.below(2);
    asked.job.mask = MaskSpec::parse(runs.pick<std::string>({"causal", "causal+window:30"}));
    asked.job.shape.seqlen = 40 * asked.job.world_size;
    const std::string text =
        fmt::format("heads={},heads-kv={},world-size={},nodes={},nics={},mask={},seqlen={}{}",
                    asked.job.shape.num_heads, asked.job.shape.num_heads_kv, asked.job.world_size,
                    asked.job.nodes, asked.nics, asked.job.mask.name(), asked.job.shape.seqlen,
                    asked.job.nodes > 1 ? ",between=" + asked.between.name : "");
    SCOPED_TRACE(text_of(drawn) + " as " + text);
    const Scenario& recorded = what_if.unmoved_settings();
    if (asked.job.nodes > asked.job.world_size) {
      EXPECT_THROW(apply(what_if.settings, recorded, text), InputError);
      continue;
    }
    apply(what_if.settings, recorded, text);
    Scenario again = recorded;  // from the command that shows it
    apply(again, recorded, settings_of(recorded, what_if.settings));
    EXPECT_EQ(settings_of(what_if.settings, again), "");
    what_if.finish();
    if (obstacle(asked)) {
      ++refused;
      EXPECT_NE(what_if.shown()->refusal, "");
      continue;
    }
    ++compared;
    ASSERT_EQ(what_if.shown()->refusal, "");
    const double simulated = run_scenario(asked, work_of(asked)).wall_s;
    EXPECT_NEAR(what_if.shown()->figures.wall_s, simulated, 1e-4 * simulated);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(compared, drawn_runs() / 2);
}

// A real rank or link that is slow by the fit is so only if `explain` names it.
TEST(Viewed, WhatIfKnowsOnlyTheSlowThatExplainNames) {
  DrawnRuns runs(14);
  int slow = 0, named = 0;
  for (int i = 0; i < drawn_runs(); ++i) {
    const Scenario drawn = runs.next();
    const int ranks = drawn.job.world_size, odd = runs.below(ranks);
    Recording recording = record(drawn, ranks).recording;
    recording.info.backend = "cpu";
    recording.info.machine.reset();
    for (TraceEvent& e : recording.events[static_cast<std::size_t>(odd)])
      if (e.lane == Lane::compute) e.cpu_ns = 3 * e.duration_ns() / 2;
    const Trace trace = to_trace(std::move(recording), "real");
    const RunRates rates = rates_of_run(trace);
    if (!rates.refusal.empty()) continue;
    SCOPED_TRACE(text_of(drawn));
    std::set<std::pair<int, int>> called;
    for (const Diagnosis& finding : explain(trace).findings)
      called.insert(finding.alike.begin(), finding.alike.end());
    named += called.contains({odd, -1});
    if (const Straggler one = slowest_of(rates.scenario); one.speed < 1) {
      ++slow;
      EXPECT_TRUE(called.contains({one.rank, -1})) << "rank " << one.rank;
    }
    for (int from = 0; from < std::ssize(rates.link_slowness); ++from)
      if (rates.link_slowness[static_cast<std::size_t>(from)] > 1)
        EXPECT_TRUE(called.contains({from, (from + 1) % ranks})) << "link from " << from;
  }
  EXPECT_GT(named, 0);
  EXPECT_GE(slow, named);
}

// Unequal work hides a slow link, and the link hides that: what both cost is not what each costs alone.
TEST(Viewed, ADifferenceNamesWhatCausesCostTogether) {
  Scenario even;
  even.job.shape = {
      .batch = 1, .num_heads = 32, .num_heads_kv = 32, .seqlen = 65536, .head_dim = 128};
  even.job.dtype = DType::bf16;
  even.job.mask = MaskSpec::parse("causal");
  even.job.world_size = 8;
  even.job.partition = PartitionKind::zigzag;
  even.rates = {
      .forward_flops = 6.4e14, .backward_flops = 5e14, .bytes_per_s = 2.25e11, .latency_s = 3e-6};
  Scenario uneven = even;
  uneven.job.partition = PartitionKind::contiguous;
  uneven.slow_links = {{4, 0.2}};
  const Difference made = difference_between(make_document(to_trace(record(uneven).recording, "a")),
                                             make_document(to_trace(record(even).recording, "b")));
  ASSERT_EQ(made.refusal, "");
  EXPECT_NE(made.headline.find(" causes in combination"), std::string::npos) << made.headline;
  EXPECT_EQ(made.parts.back().name, "all else");
  EXPECT_LT(std::abs(made.parts.back().seconds), 0.05 * std::abs(made.to_s - made.from_s))
      << made.headline;
}

TEST(Viewed, ADifferenceAddsUpToThatOfTheSimulations) {
  DrawnRuns runs(10);
  int told = 0;
  for (int i = 0; i < drawn_runs(); ++i) {
    const Scenario from = runs.next();
    Scenario to = from;
    to.job.partition = kAllPartitions[runs.below(4)];
    to.rates.bytes_per_s *= runs.pick({0.5, 1.0, 2.0});
    SCOPED_TRACE(text_of(from) + " to " + text_of(to));
    const RecordedSimulation first = record(from, from.job.world_size);
    const RecordedSimulation second = record(to, to.job.world_size);
    const Difference difference =
        difference_between(make_document(to_trace(first.recording, "from")),
                           make_document(to_trace(second.recording, "to")));
    // Deals of which one needs fewer steps than the other have no cells in common.
    if (difference.refusal == "ranks or steps") continue;
    ASSERT_EQ(difference.refusal, "");
    ++told;
    EXPECT_NEAR(difference.from_s, first.simulation.wall_s(), 4e-9);
    EXPECT_NEAR(difference.to_s, second.simulation.wall_s(), 4e-9);
    double sum = 0;
    for (const Difference::Part& part : difference.parts) sum += part.seconds;
    EXPECT_NEAR(sum, difference.to_s - difference.from_s, 1e-12);
  }
  EXPECT_GT(told, drawn_runs() / 2);
}

}  // namespace
}  // namespace ringscope::viz
