// Recordings made from known rates give these rates back, and what can't be known is said.
#include "viz/data/analysis/what_if.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/viz_data/hand_made.h"
#include "viz/data/analysis/findings.h"

namespace ringscope::viz {
namespace {

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

}  // namespace
}  // namespace ringscope::viz
