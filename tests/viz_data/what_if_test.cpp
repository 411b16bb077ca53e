// Predictions: an unmoved one is the recorded run again, a moved one is what its settings say, and
// none ever throws.
#include "viz/data/analysis/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"
#include "viz/data/analysis/findings.h"

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
  EXPECT_NEAR(what_if.unmoved()->figures.wait_s, what_if.recorded().wait_s, 1e-4 * recorded_s);
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

// ---
// Recordings made from known rates give these rates back, and what can't be known is said.

// What a rank does on a machine of known rates. Times in nanoseconds, rates a nanosecond.
struct Known {
  double forward_flops = 2, backward_flops = 4;
  std::int64_t step_ns = 500, sleep_ns = 0;  // the latter: of rank 2 after every step
  double bytes = 0.5;
  std::int64_t latency_ns = 3000, held_up_ns = 0;  // the latter: two ranks' first hop
  std::function<double(int rank)> slowness = [](int) { return 1.0; };
};

std::int64_t pairs_of(int rank, int owner) {
  return rank < owner ? 0 : rank == owner ? 10'000 : 20'000;
}

// A causal ring: every rank computes its steps one after the other, and hops lie wherever they do.
HandMade made_of(const Known& known, int ranks, bool backward) {
  HandMade made(ranks, "contiguous", "causal", "ring", 64 * ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t now = 100 * rank;  // no two at once
    for (int pass = 0; pass < (backward ? 2 : 1); ++pass)
      for (int step = 0; step < ranks; ++step) {
        const std::int64_t pairs = pairs_of(rank, (rank - step + ranks) % ranks);
        if (pairs == 0) continue;
        const double flops = static_cast<double>(pairs) * (pass == 0 ? 4 : 10);
        const double rate = pass == 0 ? known.forward_flops : known.backward_flops;
        const std::int64_t ns = std::llround(flops / rate * known.slowness(rank));
        made.compute(rank, step, now, now + ns, pairs, static_cast<Pass>(pass));
        now += ns + known.step_ns + (rank == 2 ? known.sleep_ns : 0);
      }
    std::int64_t link = 0;
    const auto hop = [&](int step, Pass pass, Payload payload, std::int64_t bytes) {
      const std::int64_t ns = known.latency_ns + std::llround(bytes / known.bytes) +
                              (link == 0 && rank < 2 ? known.held_up_ns : 0);
      made.hop(rank, step, link, link + ns, bytes, payload, pass);
      link += ns;
    };
    for (int step = 0; step + 1 < ranks; ++step) hop(step, Pass::forward, Payload::kv, 4000);
    for (int step = 0; backward && step < ranks; ++step)
      hop(step, Pass::backward, Payload::dkv, 9000);
  }
  return made;
}

TEST(RunRates, KnownRatesComeBack) {
  for (const bool knows_cpu : {true, false}) {
    HandMade made = made_of({}, 4, true);
    for (auto& events : made.recording().events)
      for (TraceEvent& e : events) e.cpu_ns *= knows_cpu;
    const RunRates rates = rates_of_run(made.trace());
    ASSERT_EQ(rates.refusal, "");
    const Scenario& scenario = rates.scenario;
    EXPECT_NEAR(scenario.rates.forward_flops, 2e9, 2e9 * 1e-6);
    EXPECT_NEAR(scenario.rates.backward_flops, 4e9, 4e9 * 1e-6);
    EXPECT_NEAR(scenario.step_s, 500e-9, 1e-12);
    EXPECT_NEAR(scenario.rates.bytes_per_s, 0.5e9, 0.5e9 * 1e-6);
    EXPECT_NEAR(scenario.rates.latency_s, 3000e-9, 1e-11);
    EXPECT_EQ(scenario.cores, 0);
    EXPECT_TRUE(scenario.stragglers.empty());
    EXPECT_TRUE(rates.remarks.empty());
    EXPECT_EQ(scenario.jitter, 0);
  }
}

TEST(RunRates, TheJobIsWhatTheRecordingSays) {
  HandMade made = made_of({}, 3, true);
  RunInfo& info = made.recording().info;
  info.partition = "striped";
  info.mask = "causal+window:50";
  info.dtype = "bf16";
  info.kv_buffers = 3;
  info.shape = {.batch = 2, .num_heads = 4, .num_heads_kv = 2, .seqlen = 100, .head_dim = 16};
  const RunRates rates = rates_of_run(made.trace());
  ASSERT_EQ(rates.refusal, "");
  const Problem& job = rates.scenario.job;
  EXPECT_EQ(std::tuple(job.partition, job.mask.name(), job.dtype, job.scheme, job.backward),
            std::tuple(PartitionKind::striped, "causal+window:50", DType::bf16,
                       scheme_named("ring"), true));
  EXPECT_EQ(job.shape, info.shape);
  EXPECT_EQ(std::pair(job.world_size, job.kv_buffers), std::pair(3, 3));
  EXPECT_EQ(rates.scenario.pace, Pace::buffers);
  EXPECT_FALSE(rates_of_run(made_of({}, 3, false).trace()).scenario.job.backward);
  made.recording().info.kv_buffers = 0;  // not said
  EXPECT_EQ(rates_of_run(made.trace()).scenario.job.kv_buffers, 2);
}

// Blocks of one size can't tell the latency from the bytes.
TEST(RunRates, OneSizeOfBlocksHasNoLatency) {
  const RunRates rates = rates_of_run(made_of({}, 4, false).trace());
  EXPECT_EQ(rates.scenario.rates.latency_s, 0);
  EXPECT_NEAR(rates.scenario.rates.bytes_per_s, 4000 / (3000e-9 + 8000e-9), 1e3);
  EXPECT_NEAR(rates.scenario.step_s, 500e-9, 1e-12);  // diagonal blocks are half of others
}

// Blocks at the edge of the mask take longer for their pairs: that is not what every step costs, and
// rank 0, which has nothing else, is not slow.
TEST(RunRates, AnEdgeIsNoFixedTimeAndNoSlowRank) {
  HandMade made(3, "contiguous", "causal", "ring", 48);
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 0; step <= rank; ++step)
      made.compute(rank, step, 900 * step + rank, 900 * step + rank + 900, step == 0 ? 100 : 200);
  const RunRates rates = rates_of_run(made.trace());
  EXPECT_EQ(rates.scenario.step_s, 0);
  EXPECT_TRUE(rates.scenario.stragglers.empty());
}

TEST(RunRates, ASlowRankIsNotTheRateOfAll) {
  Known known;
  known.slowness = [](int rank) { return rank == 2 ? 3.0 : 1.0; };
  const RunRates rates = rates_of_run(made_of(known, 4, true).trace());
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 2e9, 2e9 * 1e-6);
  EXPECT_NEAR(rates.scenario.step_s, 500e-9, 1e-12);
  ASSERT_EQ(rates.scenario.stragglers.size(), 1u);
  EXPECT_EQ(slowest_of(rates.scenario).rank, 2);
  EXPECT_NEAR(1 / slowest_of(rates.scenario).speed, 3, 1e-4);
  ASSERT_EQ(rates.remarks.size(), 1u);
  EXPECT_EQ(rates.remarks[0], "Rank 2 took 3 times as long as the others to compute.");
}

TEST(RunRates, OtherOddRanksKeepTheirSpeed) {
  Known known;
  known.slowness = [](int rank) { return rank == 1 ? 2.0 : rank == 4 ? 5.0 : 1.0; };
  const RunRates rates = rates_of_run(made_of(known, 6, true).trace());
  EXPECT_EQ(slowest_of(rates.scenario).rank, 4);
  EXPECT_NEAR(1 / slowest_of(rates.scenario).speed, 5, 1e-3);
  ASSERT_EQ(rates.scenario.stragglers.size(), 2u);
  EXPECT_EQ(rates.scenario.stragglers[0].rank, 1);
  EXPECT_NEAR(rates.scenario.stragglers[0].speed, 0.5, 1e-4);
  // Rank 2 sleeps five times between computations of 225 us in all.
  const RunRates sleepy = rates_of_run(made_of({.sleep_ns = 50'000'000}, 4, true).trace());
  EXPECT_NEAR(1 / slowest_of(sleepy.scenario).speed, 1 + 5 * 50e-3 / 225e-6, 1);
  known.slowness = [](int rank) { return 1 + 0.05 * rank; };  // next to none
  const RunRates alike = rates_of_run(made_of(known, 4, true).trace());
  EXPECT_TRUE(alike.scenario.stragglers.empty());
}

// Ranks that compute as many steps of `pairs` in 4 * `pairs` ns each, and get `cpu_ns` of that.
// Rank r begins `apart` * r later.
Trace on_shared_cores(int ranks, std::int64_t pairs, std::int64_t cpu_ns, std::int64_t apart = 0) {
  HandMade made(ranks, "zigzag", "causal", "ring", 16 * ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < ranks; ++step) {
      const std::int64_t begin = 4 * pairs * step + apart * rank;
      made.compute(rank, step, begin, begin + 4 * pairs, pairs);
      made.recording().events[rank].back().cpu_ns = cpu_ns;
    }
  return made.trace();
}

TEST(RunRates, RanksThatShareCoresAreRatedByProcessorTime) {
  const RunRates rates = rates_of_run(on_shared_cores(4, 500, 1000, 1));
  EXPECT_EQ(rates.scenario.cores, 2);
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 4 * 500 / 1000e-9, 1e7);
  ASSERT_FALSE(rates.remarks.empty());
  EXPECT_EQ(rates.remarks[0], "4 ranks shared 2 cores: rates are by processor time.");
  // Others had a tenth of these cores' time.
  const RunRates fewer = rates_of_run(on_shared_cores(4, 500, 900));
  EXPECT_EQ(fewer.scenario.cores, 2);
  EXPECT_NEAR(fewer.scenario.rates.forward_flops, 4 * 500 / 1000e-9, 1e-3);
  // Nearly a whole core is one, and its rates are by the time that it took.
  const RunRates own = rates_of_run(on_shared_cores(2, 250, 950));
  EXPECT_EQ(own.scenario.cores, 0);
  EXPECT_NEAR(own.scenario.rates.forward_flops, 1e9, 1);
}

// Four ranks to a core wait long for their turns, which makes none of them slow. One that sleeps is.
TEST(RunRates, WaitingForACoreMakesNoRankSlow) {
  constexpr std::int64_t kMs = 1'000'000;
  for (const std::int64_t pause : {25, 60}) {
    HandMade made(8, "zigzag", "causal", "ring", 128);
    made.recording().info.machine.emplace().cores = 2;
    for (int rank = 0; rank < 8; ++rank)
      for (int step = 0; step < 8; ++step) {
        const std::int64_t begin = (8 + (rank == 5 ? pause : 12)) * kMs * step;
        made.compute(rank, step, begin, begin + 8 * kMs, 250);
        made.recording().events[rank].back().cpu_ns = 2 * kMs;
      }
    const Scenario scenario = rates_of_run(made.trace()).scenario;
    EXPECT_EQ(scenario.cores, 2);
    ASSERT_EQ(scenario.stragglers.size(), pause == 25 ? 0u : 1u);
    if (pause > 25) EXPECT_EQ(scenario.stragglers[0].rank, 5);
  }
}

// Slices too short to be interrupted look whole; but the machine has one core for all of these.
TEST(RunRates, RanksThatTakeTurnsShareACore) {
  HandMade made(3, "zigzag", "causal", "ring", 48);
  for (int step = 0; step < 3; ++step)
    for (int rank = 0; rank < 3; ++rank)
      made.compute(rank, step, 3000 * step + 1000 * rank, 3000 * step + 1000 * (rank + 1) + 5, 250);
  EXPECT_EQ(rates_of_run(made.trace()).scenario.cores, 0);  // nothing tells
  made.recording().info.machine.emplace().cores = 1;
  const RunRates rates = rates_of_run(made.trace());
  EXPECT_EQ(rates.scenario.cores, 1);
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 1e9 / 1.005, 1);
  ASSERT_FALSE(rates.remarks.empty());
  EXPECT_EQ(rates.remarks[0], "3 ranks have 1 core: no more of them compute at once.");
}

// The receiver has long asked when the sender comes.
TEST(RunRates, HopsBeginWhenBothEndsAreThere) {
  HandMade made(2);
  for (const int rank : {0, 1}) {
    made.compute(rank, 0, 0, 1000);
    made.compute(rank, 1, 9000 + rank, 10'000);
    made.hop(rank, 0, {5000, 9000}, {1000, 9000}, 4000);
  }
  EXPECT_NEAR(rates_of_run(made.trace()).scenario.rates.bytes_per_s, 1e9, 1);
}

TEST(RunRates, HopsThatWereHeldUpDoNotCount) {
  const RunRates rates = rates_of_run(made_of({.held_up_ns = 8'000'000}, 4, true).trace());
  EXPECT_NEAR(rates.scenario.rates.bytes_per_s, 0.5e9, 0.5e9 * 1e-6);
  EXPECT_NEAR(rates.scenario.rates.latency_s, 3000e-9, 1e-11);
}

TEST(RunRates, LinksThatNothingTellsOfAreAssumedAndSaid) {
  const RunRates alone = rates_of_run(HandMade(1).compute(0, 0, 0, 100).trace());
  ASSERT_EQ(alone.refusal, "");
  EXPECT_GT(alone.scenario.rates.bytes_per_s, 0);
  ASSERT_EQ(alone.remarks.size(), 1u);
  EXPECT_NE(alone.remarks[0].find("No hop"), std::string::npos);

  HandMade made(2);
  made.compute(0, 0, 0, 100).compute(1, 0, 1, 100).hop(0, 0, 50, 50).hop(1, 0, 60, 60);
  const RunRates endless = rates_of_run(made.trace());
  EXPECT_TRUE(std::isfinite(endless.scenario.rates.bytes_per_s));
  EXPECT_GT(endless.scenario.rates.bytes_per_s, 1e14);
  ASSERT_EQ(endless.remarks.size(), 1u);
  EXPECT_NE(endless.remarks[0].find("no time"), std::string::npos);
}

TEST(RunRates, SimulatedRanksMayBeInStep) {
  const auto pace = [](const std::string& backend, const std::string& scheme, int buffers,
                       bool waits_at_end) {
    HandMade made(3, "striped", "causal", scheme);
    made.recording().info.backend = backend;
    made.recording().info.kv_buffers = buffers;
    made.compute(0, 0, 100, 200).compute(1, 0, 110, 150).wait(1, 0, 100, 110);
    if (waits_at_end) made.wait(1, 2, 150, 200);
    return rates_of_run(made.trace()).scenario.pace;
  };
  EXPECT_EQ(pace("sim", "ring", 0, false), Pace::in_step);
  EXPECT_EQ(pace("sim", "ring", 2, true), Pace::buffers);
  EXPECT_EQ(pace("cpu", "ring", 0, true), Pace::buffers);
  EXPECT_EQ(pace("sim", "allgather", 0, true), Pace::in_step);
  EXPECT_EQ(pace("sim", "allgather", 0, false), Pace::buffers);
  EXPECT_EQ(pace("mpi", "allgather", 0, true), Pace::buffers);
  EXPECT_EQ(pace("sim", "ulysses", 0, true), Pace::buffers);
}

TEST(RunRates, SaysWhyItCanNot) {
  const auto refusal = [](const std::function<void(Trace&)>& spoil) {
    Trace trace = made_of({}, 2, false).trace();
    spoil(trace);
    return rates_of_run(trace).refusal;
  };
  EXPECT_EQ(refusal([](Trace&) {}), "");
  const auto names = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  names(refusal([](Trace& t) { t.is_ring = false; }), "does not say what was computed");
  names(refusal([](Trace& t) { t.info.failure = RunEnd{"killed", 1, 0}; }), "broke off");
  names(refusal([](Trace& t) { t.is_part = true; }), "cut off");
  names(refusal([](Trace& t) { t.slice_count = kMostSlices + 1; }), "too many");
  names(refusal([](Trace& t) { t.info.partition = "diagonal"; }), "diagonal");
  names(refusal([](Trace& t) { t.info.mask = "documents:3,4"; }), "document lengths");
  names(refusal([](Trace& t) { t.info.mask = "hexagonal"; }), "hexagonal");
  names(refusal([](Trace& t) { t.info.scheme = "pigeons"; }), "pigeons");
  names(refusal([](Trace& t) { t.info.dtype = "f8"; }), "f8");
  names(refusal([](Trace& t) { t.info.shape.seqlen = 0; }), "seqlen");
  names(rates_of_run(HandMade(2).trace()).refusal, "Nothing was recorded");
  names(rates_of_run(HandMade(2).hop(0, 0, 0, 10).trace()).refusal, "No computation");
  names(rates_of_run(HandMade(2).compute(0, 0, 10, 10).compute(1, 0, 9, 9).trace()).refusal,
        "No computation");
}

// Whatever lies in a trace, rates are numbers that a simulation can take.
TEST(RunRates, OddTimesMakeNoOddRates) {
  HandMade made(3);
  made.compute(0, 0, 0, 0).compute(0, 1, 0, 1'000).compute(1, 0, 5, 6).compute(2, 0, 7, 7, 0);
  made.hop(0, 0, 3, 3).hop(1, 0, 3, 1'000'000'000'000, 1).hop(2, 0, 3, 4, INT64_MAX / 2);
  const RunRates rates = rates_of_run(made.trace());
  ASSERT_EQ(rates.refusal, "");
  for (const double x : {rates.scenario.rates.forward_flops, rates.scenario.rates.backward_flops,
                         rates.scenario.rates.bytes_per_s, slowest_of(rates.scenario).speed}) {
    EXPECT_TRUE(std::isfinite(x));
    EXPECT_GT(x, 0);
  }
  EXPECT_GE(rates.scenario.rates.latency_s, 0);
  EXPECT_GE(rates.scenario.step_s, 0);
}

// ---
// Settings as people type them, and how far they go.

Scenario applied(const std::string& text) {
  const Scenario recorded = simulated_scenario(4);
  Scenario wanted = recorded;
  apply(wanted, recorded, text);
  return wanted;
}

// What is typed comes back as text, in the order of the settings; what is as recorded is left out.
TEST(WhatIfSettings, EveryOneCanBeTypedAndIsSaid) {
  for (const auto& [typed, said] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"bandwidth=1,world-size=4,mask=causal,cores=own,straggler=1:1", ""},
           {"straggler=5:0.25,jitter=0.25,cores=2,kv-buffers=3,scheme=ring,mask=causal+window:64,"
            "partition=zigzag,seqlen=8k,world-size=8,flops=4,bandwidth=2",
            "bandwidth=2,flops=4,world-size=8,seqlen=8192,partition=zigzag,mask=causal+window:64,"
            "kv-buffers=3,cores=2,jitter=0.25,straggler=5:0.25"},
           {"scheme=ulysses", "scheme=ulysses"},
           {"nics=2,between=50,10,nodes=2,heads-kv=4,heads=16",
            "heads=16,heads-kv=4,nodes=2,between=50,10,nics=2"},
           {"between=InfiniBand-HDR,nics=2", ""},  // on one node
           {"kv-buffers=in-step", "kv-buffers=in-step"},
           {"straggler=0:0.5,1:0.25", "straggler=0:0.5,straggler=1:0.25"},
           {"mask=causal+documents:1000,3000,96,world-size=2",
            "world-size=2,mask=causal+documents:1000,3000,96"}}) {
    EXPECT_EQ(settings_of(simulated_scenario(4), applied(typed)), said);
    EXPECT_EQ(settings_of(simulated_scenario(4), applied(said)), said);
  }
}

TEST(WhatIfSettings, CanBeCheckedBeforeThereIsARecording) {
  EXPECT_NO_THROW(check_settings(""));
  EXPECT_NO_THROW(check_settings("world-size=5000,straggler=7:0.5,mask=documents:1,2"));
  EXPECT_THROW(check_settings("bandwidth=much"), InputError);
  EXPECT_THROW(check_settings("trace.json"), InputError);
}

TEST(WhatIfSettings, AreFactorsOfWhatWasRecorded) {
  const Scenario scenario = applied("bandwidth=2,flops=3,scheme=allgather,straggler=0:0.25");
  EXPECT_EQ(scenario.rates.bytes_per_s, 8e9);
  EXPECT_EQ(scenario.rates.forward_flops, 300e9);
  EXPECT_EQ(scenario.rates.backward_flops, 240e9);
  EXPECT_EQ(scenario.job.scheme, scheme_named("allgather"));
  EXPECT_EQ(slowest_of(scenario).rank, 0);
  EXPECT_EQ(slowest_of(scenario).speed, 0.25);
}

}  // namespace
}  // namespace ringscope::viz
