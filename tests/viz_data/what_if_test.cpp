// Predictions: an unmoved one is the recorded run again, a moved one is what its settings say, and
// none ever throws.
#include "viz/data/analysis/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"

namespace ringscope::viz {
namespace {

WhatIf what_if_of(const Scenario& scenario) {
  return WhatIf(make_document(simulated_trace(scenario)));
}

// Slice by slice, up to the rounding of both to nanoseconds.
void expect_alike(const Trace& a, const Trace& b, std::int64_t within_ns) {
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (std::size_t row = 0; row < a.rows.size(); ++row) {
    const auto &left = a.slices(row), &right = b.slices(row);
    ASSERT_EQ(left.size(), right.size()) << "row " << row;
    for (std::size_t i = 0; i < left.size(); ++i) {
      EXPECT_LE(std::abs(left[i].begin_ns - right[i].begin_ns), within_ns);
      EXPECT_LE(std::abs(left[i].end_ns - right[i].end_ns), within_ns);
      EXPECT_EQ(std::tie(left[i].step, left[i].kv_owner, left[i].bytes, left[i].pairs),
                std::tie(right[i].step, right[i].kv_owner, right[i].bytes, right[i].pairs));
    }
  }
}

void expect_predicts_itself(const Scenario& scenario) {
  const Document recorded = make_document(simulated_trace(scenario));
  WhatIf what_if(recorded);
  ASSERT_EQ(what_if.refusal(), "");
  what_if.finish();
  ASSERT_NE(what_if.unmoved(), nullptr);
  ASSERT_EQ(what_if.unmoved()->refusal, "");
  EXPECT_EQ(what_if.unmoved(), what_if.shown());
  EXPECT_EQ(settings_of(what_if.unmoved_settings(), what_if.unmoved()->settings), "");
  const double recorded_s = what_if.recorded().wall_s;
  EXPECT_NEAR(what_if.unmoved()->figures.wall_s, recorded_s, 1e-5 * recorded_s);
  EXPECT_NEAR(what_if.unmoved()->figures.efficiency, what_if.recorded().efficiency, 1e-4);
  EXPECT_NEAR(what_if.unmoved()->figures.imbalance, what_if.recorded().imbalance, 1e-9);
  EXPECT_NEAR(what_if.unmoved()->figures.balance_ceiling, what_if.recorded().balance_ceiling, 1e-9);
  const auto within = static_cast<std::int64_t>(1e4 * recorded_s) + 20;  // 1e-5 of it
  expect_alike(recorded.trace, what_if.unmoved()->document.trace, within);
}

TEST(WhatIf, AnUnmovedRingPredictsItself) {
  for (const PartitionKind partition : kAllPartitions)
    for (const bool backward : {false, true})
      for (const int ranks : {1, 2, 5, 8}) {
        SCOPED_TRACE(std::string(name_of(partition)) + (backward ? " backward " : " ") +
                     std::to_string(ranks));
        expect_predicts_itself(simulated_scenario(ranks, partition, backward));
      }
}

TEST(WhatIf, SoDoOtherWays) {
  for (const auto& change : std::vector<void (*)(Scenario&)>{
           [](Scenario& s) { s.pace = Pace::in_step; }, [](Scenario& s) { s.job.kv_buffers = 4; },
           [](Scenario& s) { s.rates.bytes_per_s = 0.1e9; },  // waits then show the link alone
           [](Scenario& s) { s.job.kv_buffers = 4, s.job.scheme = scheme_named("allgather"); },
           [](Scenario& s) { s.pace = Pace::in_step, s.job.scheme = scheme_named("allgather"); },
           [](Scenario& s) {
             s.step_s = 20e-6, s.rates.latency_s = 50e-6, s.stragglers = {{2, 0.5}};
           }}) {
    Scenario scenario = simulated_scenario(4, PartitionKind::contiguous, true);
    change(scenario);
    expect_predicts_itself(scenario);
  }
}

// A simulation says what it was given, so other settings give what a simulation of them gives, and
// without a fault the run is as it would have been.
TEST(WhatIf, OtherSettingsAreWhatASimulationOfThemGives) {
  for (const auto& spoil : std::vector<void (*)(Scenario&)>{
           [](Scenario&) {}, [](Scenario& s) { s.step_s = 50e-6, s.rates.latency_s = 20e-6; },
           [](Scenario& s) {
             s.stragglers.assign({{2, 0.5}, {3, 0.8}});
           },
           [](Scenario& s) { s.granularity.rows = 128, s.granularity.keys = 64; },
           [](Scenario& s) { s.jitter = 0.4; }}) {
    Scenario scenario = simulated_scenario(8, PartitionKind::striped, true);
    spoil(scenario);
    Recording recording = simulated_recording(scenario);
    recording.info.machine->link = scenario.rates.latency_s > 0 ? "4,20" : "4,0";
    WhatIf what_if(make_document(to_trace(recording, "given")));
    const Scenario& fitted = what_if.rates().scenario;
    EXPECT_EQ(fitted.rates.forward_flops, 100e9);
    EXPECT_EQ(fitted.rates.backward_flops, 80e9);
    EXPECT_EQ(fitted.rates.bytes_per_s, 4e9);
    EXPECT_DOUBLE_EQ(fitted.rates.latency_s, scenario.rates.latency_s);
    EXPECT_NEAR(fitted.step_s, scenario.step_s, 2e-9);
    EXPECT_NEAR(fitted.jitter, scenario.jitter, 0.15 * scenario.jitter);
    what_if.finish();
    EXPECT_NEAR(what_if.unmoved()->figures.wall_s, what_if.recorded().wall_s,
                (1e-5 + 0.1 * scenario.jitter) * what_if.recorded().wall_s);
    scenario.job.world_size = what_if.settings.job.world_size = 4;
    scenario.job.partition = what_if.settings.job.partition = PartitionKind::zigzag;
    scenario.jitter = what_if.settings.jitter = 0;
    for (Scenario* const changed : {&scenario, &what_if.settings}) set_speed(*changed, {2, 1});
    what_if.finish();
    const double expected = run_scenario(scenario, work_of(scenario)).wall_s;
    EXPECT_NEAR(what_if.shown()->figures.wall_s, expected, 1e-4 * expected);
  }
}

// A real run is predicted whatever its noise: by figures, not by chance.
TEST(WhatIf, ARealRunHasAPrediction) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    SCOPED_TRACE(what);
    const Document recorded = make_document(trace_of(recording));
    WhatIf what_if(recorded);
    ASSERT_EQ(what_if.refusal(), "");
    what_if.finish();
    ASSERT_NE(what_if.unmoved(), nullptr);
    EXPECT_EQ(what_if.unmoved()->refusal, "");
    EXPECT_GT(what_if.unmoved()->figures.wall_s, 0);
    EXPECT_EQ(what_if.unmoved()->document.trace.ranks.size(), recorded.trace.ranks.size());
    EXPECT_NEAR(what_if.unmoved()->figures.balance_ceiling, recorded.balance.balance_ceiling, 1e-9);
    EXPECT_NE(trust_of(what_if), "");
  });
}

TEST(WhatIf, SettingsChangeWhatIsShown) {
  WhatIf what_if = what_if_of(simulated_scenario(4));
  what_if.update();
  const double unmoved = what_if.unmoved()->figures.wall_s;
  apply(what_if.settings, what_if.unmoved_settings(), "flops=2,bandwidth=2");
  what_if.update();
  EXPECT_FALSE(what_if.pending());  // at once
  EXPECT_NEAR(what_if.shown()->figures.wall_s, unmoved / 2, 1e-5 * unmoved);
  EXPECT_EQ(what_if.unmoved()->figures.wall_s, unmoved);

  const Prediction* before = what_if.shown();
  what_if.update();
  EXPECT_EQ(what_if.shown(), before);  // nothing changed, nothing done

  what_if.settings = what_if.unmoved_settings();
  what_if.settings.job.partition = PartitionKind::zigzag;
  what_if.settings.job.world_size = 8;
  what_if.update();
  EXPECT_EQ(what_if.shown()->document.trace.ranks.size(), 8u);
  EXPECT_EQ(what_if.shown()->document.trace.info.partition, "zigzag");
  EXPECT_NEAR(what_if.shown()->figures.balance_ceiling, 1, 0.01);
  EXPECT_LT(what_if.shown()->figures.wall_s, unmoved / 3);
  EXPECT_NE(what_if.shown()->document.trace.path, what_if.unmoved()->document.trace.path);

  what_if.settings = what_if.unmoved_settings();
  what_if.update();
  EXPECT_EQ(what_if.shown(), what_if.unmoved());
}

// Schemes that the sliders don't offer stay what they were, until another is chosen.
TEST(WhatIf, AnUnmovedSchemePredictsItself) {
  for (const char* scheme : {"bidirectional", "pass-q", "mesh:2x4", "hybrid:2", "two-level:2"}) {
    SCOPED_TRACE(scheme);
    Scenario scenario = simulated_scenario(8, PartitionKind::zigzag);
    scenario.pace = Pace::buffers;
    set_scheme(scenario.job, scheme);
    WhatIf what_if = what_if_of(scenario);
    what_if.finish();
    ASSERT_NE(what_if.unmoved(), nullptr);
    ASSERT_EQ(what_if.unmoved()->refusal, "");
    const double recorded = what_if.recorded().wall_s;
    EXPECT_NEAR(what_if.unmoved()->figures.wall_s, recorded, 0.01 * recorded);
  }
}

TEST(WhatIf, SaysWhatCanNotBe) {
  WhatIf what_if = what_if_of(simulated_scenario(4));
  what_if.settings.job.scheme = scheme_named("ulysses");
  what_if.settings.job.world_size = 9;  // of 8 heads
  what_if.finish();
  EXPECT_NE(what_if.shown()->refusal, "");
  EXPECT_EQ(what_if.unmoved()->refusal, "");
  EXPECT_NE(headline_of(what_if).find("9 ranks, Ulysses: "), std::string::npos);
  what_if.settings.job.world_size = 8;
  what_if.finish();
  EXPECT_EQ(what_if.shown()->refusal, "");
  what_if.settings.job.scheme = scheme_named("ring");
  what_if.settings.pace = Pace::in_step;
  what_if.settings.cores = 2;
  what_if.finish();
  EXPECT_NE(what_if.shown()->refusal.find("cores are shared"), std::string::npos);
}

// Of many ranks a sample is kept, and it is worked on beside.
TEST(WhatIf, ManyRanksTakeTheirTimeInTheBackground) {
  WhatIf what_if = what_if_of(simulated_scenario(4, PartitionKind::striped));
  what_if.update();
  const Prediction* before = what_if.shown();
  ASSERT_NE(before, nullptr);
  what_if.settings.job.world_size = 200;
  what_if.update();
  if (what_if.pending()) {
    EXPECT_EQ(what_if.shown(), before);  // the last one stays
  }
  what_if.finish();
  EXPECT_FALSE(what_if.pending());
  const Prediction& shown = *what_if.shown();
  EXPECT_EQ(shown.settings.job.world_size, 200);
  EXPECT_FALSE(shown.whole);
  const Trace& trace = shown.document.trace;
  EXPECT_EQ(trace.info.world_size, 200);
  EXPECT_EQ(trace.ranks.size(), 32u);
  EXPECT_EQ(trace.ranks.front().name, "rank 0");
  EXPECT_EQ(trace.ranks.back().name, "rank 199");
  EXPECT_GT(trace.slice_count, 0u);
  EXPECT_NEAR(shown.figures.wall_s, 1e-9 * static_cast<double>(trace.end_ns),
              0.01 * shown.figures.wall_s);
}

// The settings of the moment count when it is ready, not those on the way.
TEST(WhatIf, TheLastSettingsWin) {
  WhatIf what_if = what_if_of(simulated_scenario(4, PartitionKind::striped));
  for (int ranks = 130; ranks < 140; ++ranks) {
    what_if.settings.job.world_size = ranks;
    what_if.update();
  }
  what_if.finish();
  EXPECT_EQ(what_if.shown()->settings.job.world_size, 139);
  what_if.settings.job.world_size = 150;
  what_if.update();  // and nobody waits for it
}

// What a sample does not show is not made up from the ranks that it lacks.
TEST(WhatIf, ARecordingOfSomeRanksIsPredictedToo) {
  Recording recording = simulated_recording(simulated_scenario(8, PartitionKind::striped));
  const WhatIf whole(make_document(to_trace(recording, "whole")));
  for (const std::size_t rank : {1, 2, 4, 5}) recording.events[rank].clear();
  WhatIf some(make_document(to_trace(recording, "some")));
  some.finish();
  EXPECT_NEAR(some.unmoved()->figures.wall_s, whole.recorded().wall_s,
              1e-4 * whole.recorded().wall_s);
  EXPECT_NEAR(some.recorded().efficiency, whole.recorded().efficiency, 0.05);
  EXPECT_TRUE(std::isnan(some.recorded().imbalance));
  for (const WhatIfFigure& figure : figures_of(some))
    EXPECT_EQ(figure.recorded == "–",
              figure.name == "imbalance" || figure.name == "balance ceiling")
        << figure.name;
}

// Of very many ranks the recorded ones are fitted in samples. If all are, links between them count.
TEST(WhatIf, ASlowRankAmongVeryManyIsFound) {
  for (const int recorded : {6, 320}) {
    Scenario scenario = simulated_scenario(320, PartitionKind::striped);
    scenario.job.shape.seqlen = 32'000;
    scenario.granularity = {128, 64};
    scenario.stragglers = {{237, 0.5}};
    Machine machine = ringscope::machine_of(scenario);
    for (int rank = 0; recorded == 320 && rank < 320; ++rank)
      machine.to_next.push_back({scenario.rates.bytes_per_s / (rank % 8 == 7 ? 400 : 100), 0});
    const RecordedSimulation made = record({.job = scenario.job, .pace = scenario.pace},
                                           work_of(scenario), machine, "striped", recorded);
    WhatIf what_if(make_document(to_trace(made.recording, "sample")));
    EXPECT_EQ(slowest_of(what_if.rates().scenario).rank, 237);
    EXPECT_NEAR(slowest_of(what_if.rates().scenario).speed, 0.5, 1e-4);
    ASSERT_EQ(what_if.rates().link_slowness.size(), recorded == 320 ? 320u : 0u);
    EXPECT_NEAR(recorded == 320 ? what_if.rates().link_slowness[279] : 4, 4, 1e-3);
    what_if.finish();
    const double wall_s = made.simulation.wall_s();
    EXPECT_NEAR(what_if.unmoved()->figures.wall_s, wall_s, 1e-4 * wall_s);
  }
}

TEST(WhatIf, WordsSayWhatIsChangedAndByHowMuch) {
  WhatIf what_if = what_if_of(simulated_scenario(4));
  what_if.finish();
  EXPECT_NE(headline_of(what_if).find("the same"), std::string::npos) << headline_of(what_if);
  what_if.settings.job.world_size = 8;
  what_if.settings.job.partition = PartitionKind::zigzag;
  what_if.settings.rates.bytes_per_s *= 0.5;
  what_if.finish();
  EXPECT_EQ(changes_of(what_if.unmoved_settings(), what_if.settings),
            (std::vector<std::string>{"8 ranks", "zigzag", "bandwidth × 0.5"}));
  const std::string headline = headline_of(what_if);
  EXPECT_TRUE(headline.starts_with("8 ranks, zigzag, bandwidth × 0.5: ")) << headline;
  EXPECT_NE(headline.find("times as fast"), std::string::npos) << headline;
  what_if.settings = what_if.unmoved_settings();
  set_speed(what_if.settings, {1, 0.25});
  what_if.finish();
  EXPECT_TRUE(headline_of(what_if).starts_with("Rank 1 takes 4 times as long: "));
  EXPECT_NE(headline_of(what_if).find("times as long"), std::string::npos);
}

TEST(WhatIf, FiguresSayWhatGotBetter) {
  WhatIf what_if = what_if_of(simulated_scenario(8));
  what_if.settings.job.partition = PartitionKind::zigzag;
  what_if.finish();
  const auto figures = figures_of(what_if);
  const auto named = [&](const std::string& name) {
    const auto found = std::find_if(figures.begin(), figures.end(),
                                    [&](const WhatIfFigure& f) { return f.name == name; });
    EXPECT_NE(found, figures.end()) << name;
    return *found;
  };
  EXPECT_EQ(named("wall time").better, 1);
  EXPECT_NE(named("wall time").change, "");
  EXPECT_EQ(named("balance ceiling").recorded, "53 %");
  EXPECT_EQ(named("balance ceiling").unmoved, "53 %");
  EXPECT_EQ(named("balance ceiling").shown, "100 %");
  EXPECT_EQ(named("balance ceiling").better, 1);
  what_if.settings = what_if.unmoved_settings();
  what_if.finish();
  for (const WhatIfFigure& figure : figures_of(what_if)) {
    EXPECT_EQ(figure.better, 0) << figure.name;
    EXPECT_EQ(figure.change, "") << figure.name;
    EXPECT_EQ(figure.shown, figure.unmoved) << figure.name;
  }
}

}  // namespace
}  // namespace ringscope::viz
