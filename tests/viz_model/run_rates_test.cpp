// Recordings made from known rates give these rates back, and what can't be known is said.
#include "viz/model/analysis/run_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/viz_model/hand_made.h"

namespace ringscope::viz {
namespace {

// What a rank does on a machine of known rates. Times in nanoseconds, rates a nanosecond.
struct Known {
  double forward_flops = 2, backward_flops = 4;
  std::int64_t step_ns = 500;
  double bytes = 0.5;
  std::int64_t latency_ns = 3000;
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
        const std::int64_t ns = known.step_ns + std::llround(flops / rate * known.slowness(rank));
        made.compute(rank, step, now, now + ns, pairs, static_cast<Pass>(pass));
        now += ns;
      }
    std::int64_t link = 0;
    const auto hop = [&](int step, Pass pass, Payload payload, std::int64_t bytes) {
      const std::int64_t ns = known.latency_ns + std::llround(bytes / known.bytes);
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
  const RunRates rates = rates_of_run(made_of({}, 4, true).trace());
  ASSERT_EQ(rates.refusal, "");
  const Scenario& scenario = rates.scenario;
  EXPECT_NEAR(scenario.rates.forward_flops, 2e9, 2e9 * 1e-6);
  EXPECT_NEAR(scenario.rates.backward_flops, 4e9, 4e9 * 1e-6);
  EXPECT_NEAR(scenario.step_s, 500e-9, 1e-12);
  EXPECT_NEAR(scenario.rates.bytes_per_s, 0.5e9, 0.5e9 * 1e-6);
  EXPECT_NEAR(scenario.rates.latency_s, 3000e-9, 1e-11);
  EXPECT_EQ(scenario.cores, 0);
  EXPECT_EQ(rates.slow_rank, -1);
  EXPECT_TRUE(scenario.stragglers.empty());
  EXPECT_TRUE(rates.remarks.empty());
  EXPECT_EQ(scenario.jitter, 0);
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
  EXPECT_EQ(job.partition, PartitionKind::striped);
  EXPECT_EQ(job.mask.name(), "causal+window:50");
  EXPECT_EQ(job.dtype, DType::bf16);
  EXPECT_EQ(job.shape, info.shape);
  EXPECT_EQ(job.world_size, 3);
  EXPECT_EQ(job.kv_buffers, 3);
  EXPECT_EQ(job.scheme, Scheme::ring);
  EXPECT_TRUE(job.backward);
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

// Blocks at the edge of the mask take longer for their pairs: that is not what every step costs.
TEST(RunRates, AnEdgeIsNoFixedTime) {
  HandMade made(3, "contiguous", "causal", "ring", 48);
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 0; step <= rank; ++step)
      made.compute(rank, step, 40'000'000 * step + rank,
                   40'000'000 * step + rank + (step == 0 ? 16'700'000 : 30'700'000),
                   step == 0 ? 2'000'000 : 4'000'000);
  EXPECT_EQ(rates_of_run(made.trace()).scenario.step_s, 0);
}

TEST(RunRates, ASlowRankIsNotTheRateOfAll) {
  Known known;
  known.slowness = [](int rank) { return rank == 2 ? 3.0 : 1.0; };
  const RunRates rates = rates_of_run(made_of(known, 4, true).trace());
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 2e9, 2e9 * 1e-6);
  EXPECT_NEAR(rates.scenario.step_s, 500e-9, 1e-12);
  EXPECT_EQ(rates.slow_rank, 2);
  EXPECT_NEAR(rates.slowdown, 3, 1e-4);
  EXPECT_TRUE(rates.scenario.stragglers.empty());
  ASSERT_EQ(rates.remarks.size(), 1u);
  EXPECT_EQ(rates.remarks[0], "Rank 2 took 3 times as long as the others to compute.");
}

TEST(RunRates, OtherOddRanksKeepTheirSpeed) {
  Known known;
  known.slowness = [](int rank) { return rank == 1 ? 2.0 : rank == 4 ? 5.0 : 1.0; };
  const RunRates rates = rates_of_run(made_of(known, 6, false).trace());
  EXPECT_EQ(rates.slow_rank, 4);
  EXPECT_NEAR(rates.slowdown, 5, 1e-3);
  ASSERT_EQ(rates.scenario.stragglers.size(), 1u);
  EXPECT_EQ(rates.scenario.stragglers[0].rank, 1);
  EXPECT_NEAR(rates.scenario.stragglers[0].speed, 0.5, 1e-4);
}

TEST(RunRates, SmallDifferencesAreNone) {
  Known known;
  known.slowness = [](int rank) { return 1 + 0.05 * rank; };
  const RunRates rates = rates_of_run(made_of(known, 4, true).trace());
  EXPECT_EQ(rates.slow_rank, -1);
  EXPECT_EQ(rates.slowdown, 1);
  EXPECT_TRUE(rates.scenario.stragglers.empty());
}

// Rank 0 has nothing but its diagonal block, where every rank is slow.
TEST(RunRates, SlowBlocksMakeNoSlowRank) {
  HandMade made(3, "contiguous", "causal", "ring", 48);
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 0; step <= rank; ++step)
      made.compute(rank, step, 1000 * step + 10 * rank, 1000 * step + 10 * rank + 900,
                   step == 0 ? 100 : 200);
  EXPECT_EQ(rates_of_run(made.trace()).slow_rank, -1);
}

// Ranks that compute as many steps of `pairs` in 4 * `pairs` ns each, and get `cpu_ns` of that.
// Rank r begins `apart` * r later.
Trace on_shared_cores(int ranks, std::int64_t pairs, std::int64_t cpu_ns, std::int64_t apart = 0) {
  HandMade made(ranks, "zigzag", "causal", "ring", 16 * ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < ranks; ++step) {
      const std::int64_t begin = 4 * pairs * step + apart * rank;
      made.compute(rank, step, begin, begin + 4 * pairs, pairs);
      made.recording().events[static_cast<std::size_t>(rank)].back().cpu_ns = cpu_ns;
    }
  return made.trace();
}

TEST(RunRates, RanksThatShareCoresAreRatedByProcessorTime) {
  const RunRates rates = rates_of_run(on_shared_cores(4, 500, 1000, 1));
  EXPECT_EQ(rates.scenario.cores, 2);
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 4 * 500 / 1000e-9, 1e7);
  ASSERT_FALSE(rates.remarks.empty());
  EXPECT_EQ(rates.remarks[0], "4 ranks shared 2 cores: rates are by processor time.");
}

// Others had a tenth of these cores' time.
TEST(RunRates, WhatOthersTakeMakesCoresSlower) {
  const RunRates rates = rates_of_run(on_shared_cores(4, 500, 900));
  EXPECT_EQ(rates.scenario.cores, 2);
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 4 * 500 / 1000e-9, 1e-3);
}

TEST(RunRates, NearlyAWholeCoreIsOne) {
  const RunRates rates = rates_of_run(on_shared_cores(2, 250, 950));
  EXPECT_EQ(rates.scenario.cores, 0);
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 1e9, 1);  // by the time that it took
}

// Slices too short to be interrupted look whole; but no two of these ranks ever compute at once.
TEST(RunRates, RanksThatTakeTurnsShareACore) {
  HandMade made(3, "zigzag", "causal", "ring", 48);
  for (int step = 0; step < 3; ++step)
    for (int rank = 0; rank < 3; ++rank)
      made.compute(rank, step, 3000 * step + 1000 * rank, 3000 * step + 1000 * (rank + 1) + 5, 250);
  const RunRates rates = rates_of_run(made.trace());
  EXPECT_EQ(rates.scenario.cores, 1);
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 1e9 / 1.005, 1);
  ASSERT_FALSE(rates.remarks.empty());
  EXPECT_NE(rates.remarks[0].find("No more than 1 of 3"), std::string::npos);
  made.recording().info.backend = "sim";
  EXPECT_EQ(rates_of_run(made.trace()).scenario.cores, 0);
}

TEST(RunRates, UnknownProcessorTimeIsNoSharing) {
  HandMade made = made_of({}, 4, true);
  for (auto& events : made.recording().events)
    for (TraceEvent& e : events) e.cpu_ns = 0;
  const RunRates rates = rates_of_run(made.trace());
  EXPECT_EQ(rates.scenario.cores, 0);
  EXPECT_NEAR(rates.scenario.rates.forward_flops, 2e9, 2e3);
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
  HandMade made = made_of({}, 4, true);
  made.hop(0, 0, 1'000'000, 9'000'000, 4000);
  made.hop(1, 0, 1'000'000, 9'000'000, 4000);
  const RunRates rates = rates_of_run(made.trace());
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
                       int waits_at_step) {
    HandMade made(3, "striped", "causal", scheme);
    made.recording().info.backend = backend;
    made.recording().info.kv_buffers = buffers;
    made.compute(0, 0, 100, 200).compute(1, 0, 100, 150).wait(1, waits_at_step, 150, 200);
    return rates_of_run(made.trace()).scenario.pace;
  };
  EXPECT_EQ(pace("sim", "ring", 0, 1), Pace::in_step);
  EXPECT_EQ(pace("sim", "ring", 2, 2), Pace::buffers);
  EXPECT_EQ(pace("cpu", "ring", 0, 2), Pace::buffers);
  EXPECT_EQ(pace("sim", "allgather", 0, 2), Pace::in_step);
  EXPECT_EQ(pace("sim", "allgather", 0, 0), Pace::buffers);
  EXPECT_EQ(pace("mpi", "allgather", 0, 2), Pace::buffers);
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
  names(refusal([](Trace& t) { t.run.reset(); }), "does not say what was computed");
  names(refusal([](Trace& t) { t.run->failure = RunEnd{"killed", 1, 0}; }), "broke off");
  names(refusal([](Trace& t) { t.run->partition = "diagonal"; }), "diagonal");
  names(refusal([](Trace& t) { t.run->mask = "documents:3,4"; }), "document lengths");
  names(refusal([](Trace& t) { t.run->mask = "hexagonal"; }), "hexagonal");
  names(refusal([](Trace& t) { t.run->scheme = "pigeons"; }), "pigeons");
  names(refusal([](Trace& t) { t.run->dtype = "f8"; }), "f8");
  names(refusal([](Trace& t) { t.run->shape.seqlen = 0; }), "seqlen");
  names(rates_of_run(HandMade(2).trace()).refusal, "Nothing was recorded");
  names(rates_of_run(HandMade(2).hop(0, 0, 0, 10).trace()).refusal, "No computation");
  names(rates_of_run(HandMade(2).compute(0, 0, 10, 10).compute(1, 0, 9, 9).trace()).refusal,
        "No computation");
}

// Whatever lies in a trace, rates are numbers that a simulation can take.
TEST(RunRates, OddTimesMakeNoOddRates) {
  HandMade made(3);
  made.compute(0, 0, 0, 0).compute(0, 1, 0, 1'000).compute(1, 0, 5, 5).compute(2, 0, 7, 7, 0);
  made.hop(0, 0, 3, 3).hop(1, 0, 3, 1'000'000'000'000, 1).hop(2, 0, 3, 4, INT64_MAX / 2);
  const RunRates rates = rates_of_run(made.trace());
  ASSERT_EQ(rates.refusal, "");
  for (const double x : {rates.scenario.rates.forward_flops, rates.scenario.rates.backward_flops,
                         rates.scenario.rates.bytes_per_s, rates.slowdown}) {
    EXPECT_TRUE(std::isfinite(x));
    EXPECT_GT(x, 0);
  }
  EXPECT_GE(rates.scenario.rates.latency_s, 0);
  EXPECT_GE(rates.scenario.step_s, 0);
}

TEST(LineFit, FindsALineExactly) {
  const LineFit fit = fit_line({{10, 7}, {20, 12}, {60, 32}}, 10);  // 0.5 x + 2
  EXPECT_NEAR(fit.per_unit[0], 0.5, 1e-12);
  EXPECT_NEAR(fit.fixed, 2, 1e-10);
  EXPECT_EQ(fit.per_unit[1], 0);
}

TEST(LineFit, GroupsHaveSlopesOfTheirOwnAndOneFixedTime) {
  const LineFit two = fit_line({{10, 8, 0}, {20, 13, 0}, {5, 13, 1}, {10, 23, 1}, {40, 23, 0}}, 10);
  EXPECT_NEAR(two.per_unit[0], 0.5, 1e-12);
  EXPECT_NEAR(two.per_unit[1], 2, 1e-12);
  EXPECT_NEAR(two.fixed, 3, 1e-10);
}

// Without different amounts nothing tells what is fixed.
TEST(LineFit, EqualAmountsHaveNothingFixed) {
  const LineFit fit = fit_line({{10, 7}, {10, 7}, {10, 9}, {10, 9}}, 10);
  EXPECT_EQ(fit.fixed, 0);
  EXPECT_NEAR(fit.per_unit[0], 0.8, 1e-12);
}

TEST(LineFit, NoiseIsNotFixedTime) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  std::vector<Measured> measured;
  for (int i = 1; i <= 40; ++i) measured.push_back({double(100 + i), (100 + i) * noise(random)});
  EXPECT_EQ(fit_line(measured, 10).fixed, 0);
}

// Times come out right in sum, and what is fixed is not more than anything took.
TEST(LineFit, SumsAreKept) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> any(1, 9);
  for (int round = 0; round < 200; ++round) {
    std::vector<Measured> measured;
    double least = 1e9;
    for (int i = 0; i < 12; ++i) {
      measured.push_back({any(random), any(random), i % 2});
      least = std::min(least, measured.back().seconds);
    }
    const LineFit fit = fit_line(measured, 10);
    EXPECT_GE(fit.fixed, 0);
    EXPECT_LE(fit.fixed, least);
    double sum[2] = {}, fitted[2] = {};
    for (const Measured& m : measured) {
      sum[m.group] += m.seconds;
      fitted[m.group] += fit.fixed + fit.per_unit[m.group] * m.amount;
    }
    for (const int group : {0, 1}) EXPECT_NEAR(sum[group], fitted[group], 1e-9 * sum[group]);
  }
}

TEST(LineFit, WhatIsTooMuchIsNotFixed) {
  const std::vector<Measured> measured = {{10, 7}, {20, 12}, {60, 32}};
  EXPECT_EQ(fit_line(measured, 1.9).fixed, 0);
  EXPECT_NEAR(fit_line(measured, 1.9).per_unit[0], 51.0 / 90, 1e-12);
}

TEST(LineFit, OfNothing) {
  const LineFit fit = fit_line({}, 10);
  EXPECT_EQ(fit.fixed, 0);
  EXPECT_EQ(fit.per_unit[0], 0);
}

TEST(LineFit, NoTimeAtAll) {
  const LineFit fit = fit_line({{10, 0}, {20, 0}, {30, 0}, {40, 0}}, 10);
  EXPECT_EQ(fit.fixed, 0);
  EXPECT_EQ(fit.per_unit[0], 0);
}

}  // namespace
}  // namespace ringscope::viz
