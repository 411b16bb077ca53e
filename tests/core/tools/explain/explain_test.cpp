// Explanations of simulated runs whose fault is known: the first finding names it, and its time is
// what the same simulation takes less without the fault.
#include "core/tools/explain/explain.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/tools/explain/recorded_run.h"
#include "core/tools/sim/recording.h"
#include "core/tools/sim/scenario.h"
#include "core/trace/rank_events.h"
#include "tests/core/base/thrown.h"

namespace ringscope {
namespace {

// A job, a machine with a fault, and the same without it.
struct FaultyCase {
  Cause cause = Cause::slow_rank;
  int rank = -1;
  SimulationRequest request;
  Granularity tile;
  Machine machine;
  PartitionKind even;  // the partition without the fault
  Machine healthy;
};

double draw(std::uint64_t seed, int what, double low, double high) {
  return low +
         (high - low) * unit_interval(random_bits(seed, 77, static_cast<std::uint64_t>(what)));
}
int draw_int(std::uint64_t seed, int what, int low, int high) {
  return low + static_cast<int>(draw(seed, what, 0, 0.999999) * (high - low + 1));
}

Machine h100s(int world_size) {
  Machine machine;
  machine.world_size = world_size;
  machine.rates = {6.2e14, 5.2e14, 4.5e11, 3e-6};
  return machine;
}

FaultyCase faulty_case(Cause cause, std::uint64_t seed) {
  constexpr int kSizes[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128};
  FaultyCase made;
  made.cause = cause;
  Problem& job = made.request.job;
  job.world_size = kSizes[draw_int(seed, 0, 0, cause == Cause::shared_cores ? 8 : 11)];
  job.shape = {.batch = 1,
               .num_heads = 16,
               .num_heads_kv = draw_int(seed, 1, 0, 1) == 0 ? 16 : 4,
               .seqlen = job.world_size * (1024 << draw_int(seed, 2, 0, 3)),
               .head_dim = 128};
  job.dtype = DType::bf16;
  job.backward = draw_int(seed, 3, 0, 1) == 1;
  const int mask = draw_int(seed, 4, 0, 2);
  if (mask > 0) job.mask = MaskSpec::parse("causal");
  job.partition = mask == 1 ? PartitionKind::zigzag : PartitionKind::striped;
  made.even = job.partition;
  made.request.pace = draw_int(seed, 5, 0, 1) == 0 ? Pace::in_step : Pace::buffers;
  job.kv_buffers = made.request.pace == Pace::buffers ? draw_int(seed, 6, 2, 4) : 2;
  made.healthy = made.machine = h100s(job.world_size);
  Machine& machine = made.machine;
  const auto n = static_cast<std::size_t>(job.world_size);
  made.rank = draw_int(seed, 7, 0, job.world_size - 1);
  const auto rank = static_cast<std::size_t>(made.rank);
  switch (cause) {
    case Cause::slow_rank:
      machine.speed.assign(n, 1);
      machine.speed[rank] = draw(seed, 8, 0.4, 0.9);
      break;
    case Cause::slow_link:
      machine.to_next.assign(n, {machine.rates.bytes_per_s, machine.rates.latency_s});
      machine.to_next[rank].bytes_per_s /= draw(seed, 8, 8, 40);
      break;
    case Cause::imbalance:
      job.mask = MaskSpec::parse("causal");
      job.partition = PartitionKind::contiguous;
      made.even = PartitionKind::zigzag;
      made.rank = job.world_size - 1;
      break;
    case Cause::shared_cores:
      made.request.pace = Pace::buffers;
      machine.cores = std::max(1, static_cast<int>(job.world_size * draw(seed, 8, 0.2, 0.8)));
      break;
    case Cause::step_overhead:
      made.healthy.step_s = 0;
      machine.step_s = draw(seed, 8, 5e-5, 5e-4);
      break;
    case Cause::jitter:
      machine.jitter = draw(seed, 8, 0.1, 0.6);
      machine.seed = seed;
      break;
    default:
      break;
  }
  return made;
}

// How many cases were explained rightly, and which were not.
struct Judged {
  int cases = 0, right = 0;
  std::ostringstream missed;

  // Explain a case, unless its fault costs too little to be worth the name.
  void judge(std::uint64_t seed, const FaultyCase& made) {
    const Problem& job = made.request.job;
    const Work work(job, made.tile);
    const RecordedSimulation recorded =
        record(made.request, work, made.machine, name_of(job.partition), std::nullopt);
    const double wall = recorded.simulation.wall_s();
    SimulationRequest even = made.request;
    even.job.partition = made.even;
    const double saved = wall - simulate(even, Work(even.job, made.tile), made.healthy).wall_s();
    if (saved < 0.02 * wall) return;
    ++cases;
    const Explanation why = explain(recorded.recording);
    const Diagnosis first = why.findings.empty() ? Diagnosis{} : why.findings.front();
    const bool names_rank = made.cause != Cause::slow_rank || first.rank == made.rank;
    const bool names_link =
        made.cause != Cause::slow_link ||
        (first.from == made.rank && first.to == (made.rank + 1) % job.world_size);
    const bool good = !why.findings.empty() && first.cause == made.cause && names_rank &&
                      names_link && std::abs(first.saved_s - saved) <= 0.1 * saved;
    right += good;
    if (good) return;
    missed << "\nseed " << seed << ": " << name_of(made.cause) << " of " << job.world_size << ", "
           << job.scheme_name() << ' ' << name_of(job.partition) << ' ' << job.mask.name()
           << ", saves " << 1e3 * saved << " of " << 1e3 * wall << " ms; found";
    for (const Diagnosis& found : why.findings)
      missed << ' ' << name_of(found.cause) << ' ' << found.rank << ' ' << 1e3 * found.saved_s;
  }
};

TEST(Explain, NamesTheFaultOfSimulatedRuns) {
  constexpr Cause kCauses[] = {Cause::slow_rank,    Cause::slow_link,     Cause::imbalance,
                               Cause::shared_cores, Cause::step_overhead, Cause::jitter};
  Judged judged;
  for (std::uint64_t seed = 0; judged.cases < 200; ++seed)
    judged.judge(seed, faulty_case(kCauses[seed % std::size(kCauses)], seed));
  RecordProperty("cases", judged.cases);
  RecordProperty("right", judged.right);
  EXPECT_GE(judged.right, 0.99 * judged.cases) << judged.missed.str();
}

// Schemes whose ranks' loops are no turned copies of one are replayed task by task.
TEST(Explain, NamesTheFaultInEveryScheme) {
  constexpr Cause kCauses[] = {Cause::slow_rank, Cause::imbalance, Cause::step_overhead,
                               Cause::jitter};
  constexpr const char* kSchemes[] = {"bidirectional", "pass-q",   "allgather:2", "hybrid:2",
                                      "mesh:2x4",      "mesh:4x2", "ulysses"};
  Judged judged;
  for (std::uint64_t seed = 10'000; judged.cases < 120; ++seed) {
    const Cause cause = kCauses[seed % std::size(kCauses)];
    FaultyCase made = faulty_case(cause, seed);
    Problem& job = made.request.job;
    const auto rows = job.shape.seqlen / job.world_size;
    job.world_size = 8;
    job.shape.seqlen = 8 * rows;
    job.shape.num_heads_kv = 16;
    job.kv_buffers = 2;
    set_scheme(job, kSchemes[seed / 4 % std::size(kSchemes)]);
    if (job.scheme == scheme_named("ulysses") && cause == Cause::imbalance) continue;
    // A recording shows only a part of how long gradients take both ways at once.
    if (job.scheme == scheme_named("bidirectional")) job.backward = false;
    made.request.pace = Pace::in_step;
    made.rank %= 8;
    if (draw_int(seed, 9, 0, 1) == 1) made.tile = {128, 128};
    for (Machine* machine : {&made.machine, &made.healthy}) machine->world_size = 8;
    made.machine.speed.resize(made.machine.speed.empty() ? 0 : 8, 1);
    if (cause == Cause::slow_rank)
      made.machine.speed[static_cast<std::size_t>(made.rank)] = draw(seed, 8, 0.4, 0.9);
    judged.judge(seed, made);
  }
  EXPECT_GE(judged.right, 0.95 * judged.cases) << judged.missed.str();
}

Recording recording_of(const FaultyCase& made) {
  const Problem& job = made.request.job;
  return record(made.request, Work(job, made.tile), made.machine, name_of(job.partition),
                std::nullopt)
      .recording;
}

Explanation explained(const FaultyCase& made) { return explain(recording_of(made)); }

// Ranks of H100s that do the same, 8,192 rows each.
FaultyCase equal_ranks(int world_size) {
  FaultyCase made = faulty_case(Cause::slow_rank, 1);
  made.request.job.world_size = world_size;
  made.request.job.shape.seqlen = world_size * 8192;
  made.machine = h100s(world_size);
  made.machine.speed.assign(static_cast<std::size_t>(world_size), 1);
  return made;
}

// Expect that this is found first, and return it.
Diagnosis expect_first(const Explanation& why, Cause cause, int rank) {
  if (why.findings.empty()) {
    ADD_FAILURE() << "nothing is found instead of " << name_of(cause);
    return {};
  }
  const Diagnosis& first = why.findings.front();
  EXPECT_EQ(first.cause, cause) << first.evidence;
  EXPECT_EQ(first.rank, rank) << first.evidence;
  return first;
}

// One rank's file says nothing about a run's causes.
TEST(Explain, RefusesOneRankOfARealRun) {
  FaultyCase made = faulty_case(Cause::slow_rank, 3);
  Recording recording = recording_of(made);
  ASSERT_GT(recording.events.size(), 1u);
  for (std::size_t rank = 1; rank < recording.events.size(); ++rank) recording.events[rank].clear();
  EXPECT_EQ(only_rank_of(recording), 0);
  EXPECT_NO_THROW(explain(recording));
  recording.info.backend = "cpu";
  EXPECT_THROW(explain(recording), InputError);
}

TEST(Explain, FindsNothingInHealthyRuns) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    FaultyCase made = faulty_case(Cause::slow_rank, seed);
    made.machine = made.healthy;
    for (const Diagnosis& found : explain(recording_of(made)).findings)
      ADD_FAILURE() << "seed " << seed << ": " << found.evidence;
  }
}

// Whatever is wrong at once, no cause saves less than nothing, nor more than the run lost, but for what
// is estimated; and all of them together no more than the run took. (Each is set right alone. So
// where one hides another, both cost what they hold up together.)
TEST(Explain, CausesSaveNoMoreThanTheRunLost) {
  constexpr Cause kCauses[] = {Cause::slow_rank, Cause::slow_link, Cause::imbalance,
                               Cause::step_overhead, Cause::jitter};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    FaultyCase made = faulty_case(kCauses[seed % 5], seed);
    Problem& job = made.request.job;
    if (job.world_size > 32) continue;
    const auto n = static_cast<std::size_t>(job.world_size);
    if (seed % 2 == 1) made.machine.step_s += draw(seed, 10, 0, 3e-4);
    if (seed % 3 == 1) made.machine.jitter += draw(seed, 11, 0, 0.3);
    if (seed % 4 == 1) {
      made.machine.speed.resize(n, 1);
      made.machine.speed[static_cast<std::size_t>(draw_int(seed, 12, 0, job.world_size - 1))] *=
          draw(seed, 13, 0.4, 1);
    }
    SimulationRequest even = made.request;
    even.job.partition = made.even;
    const double healthy = simulate(even, Work(even.job), made.healthy).wall_s();
    const Explanation why = explained(made);
    double sum = 0;
    for (const Diagnosis& found : why.findings) {
      EXPECT_GE(found.saved_s, kLeastShare * why.wall_s) << seed;
      EXPECT_LE(found.saved_s, 1.1 * (why.wall_s - healthy) + 0.05 * why.wall_s) << seed;
      sum += found.saved_s;
    }
    EXPECT_LE(sum, why.wall_s) << seed;
  }
}

// A recording of many ranks holds a sample of them, and the slow one among it.
TEST(Explain, NamesAStragglerAmongManyRanks) {
  FaultyCase made = equal_ranks(256);
  made.request.job.partition = PartitionKind::zigzag;
  made.request.job.mask = MaskSpec::parse("causal");
  made.machine.speed[137] = 0.7;
  const Explanation why = explained(made);
  EXPECT_NEAR(expect_first(why, Cause::slow_rank, 137).share, 0.3, 0.01);
  EXPECT_EQ(why.findings.size(), 1u);
}

TEST(Explain, NamesRanksThatAreAlikeSlow) {
  FaultyCase made = equal_ranks(8);
  made.machine.speed[2] = made.machine.speed[5] = 0.7;
  const Explanation why = explained(made);
  const std::string evidence = expect_first(why, Cause::slow_rank, 2).evidence;
  EXPECT_TRUE(evidence.ends_with(" Rank 5 is about as slow.")) << evidence;
  EXPECT_EQ(why.findings.size(), 1u);
}

TEST(Explain, SaysForHowMuchOfTheTimeRanksHaveACore) {
  FaultyCase made = equal_ranks(4);
  made.request.pace = Pace::buffers;
  made.request.job.mask = MaskSpec();
  made.machine.cores = 2;
  expect_contains(expect_first(explained(made), Cause::shared_cores, -1).evidence,
                  "one for 50 % of the time");
}

// A ring of H100s, forward and backward or forward alone, as a scenario.
Scenario scenario_of(int world_size, AttentionShape shape, bool backward) {
  Scenario scenario;
  scenario.job = faulty_case(Cause::slow_rank, 1).request.job;
  scenario.job.world_size = world_size;
  scenario.job.shape = shape;
  scenario.job.backward = backward;
  scenario.rates = h100s(world_size).rates;
  return scenario;
}

// Eight nodes of eight ranks, whose links between them are the only slow ones: every rank waits for
// them, and for nothing else.
TEST(Explain, BlamesTheLinksBetweenNodes) {
  for (const Pace pace : {Pace::in_step, Pace::buffers}) {
    FaultyCase made = equal_ranks(64);
    made.request.job.backward = false;
    made.request.pace = pace;
    made.machine.to_next.assign(64, {4.5e11, 3e-6});
    for (std::size_t rank = 7; rank < 64; rank += 8) made.machine.to_next[rank] = {5e9, 5e-6};
    const Explanation why = explained(made);
    ASSERT_EQ(why.findings.size(), 1u);
    EXPECT_EQ(why.findings[0].cause, Cause::slow_link);
    EXPECT_EQ(std::pair(why.findings[0].from, why.findings[0].to), std::pair(7, 8));
    expect_contains(why.findings[0].evidence, "15 to 16");
    // Where the recording knows nodes, it is they that are named.
    Recording named = recording_of(made);
    if (!named.info.machine) named.info.machine.emplace();
    named.info.machine->nodes = 8;
    expect_contains(explain(named).findings.at(0).evidence, "So do all other links between nodes.");

    // The slowest of them is named first, even if it costs less than all that are left.
    made.machine.to_next[39] = {3.5e9, 5e-6};
    const Explanation both = explained(made);
    ASSERT_EQ(both.findings.size(), 2u);
    EXPECT_EQ(both.findings[0].from, 39);
    EXPECT_NEAR(both.findings[0].saved_s, both.wall_s - why.wall_s, 0.05 * both.wall_s);
    EXPECT_EQ(both.findings[1].from, 7);
    EXPECT_GT(both.findings[1].saved_s, both.findings[0].saved_s);
  }
}

// Where no link is fast, the name of those inside a node says how long a block should take. In a ring
// of both directions, the links of a pair of ranks are as fast as each other.
TEST(Explain, BlamesTheOnlyLinksThereAre) {
  for (const char* scheme : {"ring", "ulysses", "bidirectional"}) {
    const int ranks = std::string(scheme) == "ring" ? 2 : 8;
    Scenario scenario = scenario_of(ranks, {1, 32, 32, 4096 * ranks, 128}, true);
    set_scheme(scenario.job, scheme);
    const double healthy = run_scenario(scenario, work_of(scenario)).wall_s;
    scenario.job.nodes = 2;
    scenario.between = {"5,5", 5e9, 5e-6};
    Recording recording = record(scenario).recording;
    recording.info.machine = RunMachine{
        .link = "450,3", .between = "5,5", .nodes = 2, .forward_flops = 620'000'000'000'000};
    const Explanation why = explain(recording);
    ASSERT_FALSE(why.findings.empty()) << scheme;
    EXPECT_EQ(why.findings[0].cause, Cause::slow_link) << scheme;
    const double saved = why.wall_s - healthy;
    EXPECT_NEAR(why.findings[0].saved_s, saved, 0.1 * saved) << scheme;
    const Diagnosis& slow = why.findings[0];
    EXPECT_NE(slow.from / (ranks / 2), slow.to / (ranks / 2)) << scheme << ": within a node";
  }
}

// A recording shows of hops on several ways what fits into a lane. It says how long they took, and
// its link how long they should have taken.
TEST(Explain, MeasuresJitterOfHopsOnAllWays) {
  for (const char* scheme :
       {"ring", "allgather", "bidirectional", "mesh:2x4", "hybrid:2", "ulysses"})
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(std::string(scheme) + " " + std::to_string(seed));
      Scenario scenario = scenario_of(8, {1, 32, 16, 16384, 64}, seed > 0);
      set_scheme(scenario.job, scheme);
      scenario.rates.bytes_per_s = 6e10, scenario.rates.latency_s = 5e-6;
      const double healthy = run_scenario(scenario, work_of(scenario)).wall_s;
      scenario.hop_jitter = 0.5;
      scenario.seed = seed;
      Recording recording = record(scenario).recording;
      recording.info.machine->link = "60,5";
      const Explanation why = explain(recording);
      EXPECT_NEAR(why.wall_s, run_scenario(scenario, work_of(scenario)).wall_s, 1e-7);
      const double saved = why.wall_s - healthy;
      EXPECT_NEAR(expect_first(why, Cause::jitter, -1).saved_s, saved, 0.1 * saved);
    }
}

// One rank begins `late` seconds after the others.
TEST(Explain, FindsALateStart) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FaultyCase made = faulty_case(Cause::slow_rank, seed);
    made.machine = made.healthy;
    Problem& job = made.request.job;
    if (job.world_size > 64) continue;  // a sample may leave the late rank out
    // Two computations a rank don't tell a late start from a slow rank.
    if (job.world_size == 2 && !job.backward) continue;
    Recording recording = recording_of(made);
    const double wall = explain(recording).wall_s, late = draw(seed, 8, 0.1, 0.5) * wall;
    SimulatedRun run = run_of(made.request, Work(job, made.tile), made.machine);
    auto [first, last] = run.graph.of_rank(made.rank);
    while (run.graph.tasks[first].kind != Task::Kind::attend) ++first;
    run.seconds[first] += late;
    run.times = evaluate(run.graph, run.seconds);
    recording.events = events_of(job, run, std::vector<bool>(recording.events.size(), true));
    const Explanation why = explain(recording);
    if (why.wall_s - wall < 0.02 * wall) continue;  // its links take longer than that
    SCOPED_TRACE(seed);
    EXPECT_NEAR(expect_first(why, Cause::late_start, made.rank).saved_s, why.wall_s - wall,
                0.1 * (why.wall_s - wall));
  }
}

// Return a real run of a ring whose rank `late` sleeps before every hop, and whose ranks lose what
// `lost_in` says within their computations. Microseconds.
Recording ring_with_late_hops(
    int world_size, int late, std::int64_t sleep, std::int64_t computing,
    const std::function<std::int64_t(int, int)>& lost_in = [](int, int) { return 0; }) {
  FaultyCase made;
  made.request.job.world_size = world_size;
  made.request.job.shape = {
      .batch = 1, .num_heads = 1, .num_heads_kv = 1, .seqlen = 64 * world_size, .head_dim = 64};
  made.machine = h100s(world_size);
  Recording recording = recording_of(made);
  recording.info.backend = "cpu";
  recording.info.machine.reset();
  const auto n = static_cast<std::size_t>(world_size);
  recording.events.assign(n, {});
  constexpr std::int64_t kHop = 20;
  std::vector<std::int64_t> begin(n), end(n);  // of every rank's last computation
  for (int step = 0; step < world_size; ++step) {
    const std::vector<std::int64_t> sent = begin;
    for (int rank = 0; rank < world_size; ++rank) {
      const auto r = static_cast<std::size_t>(rank), before = (r + n - 1) % n;
      auto& events = recording.events[r];
      if (step > 0) {
        const std::int64_t posted = std::max(sent[before], sent[r]), came = posted + kHop;
        for (const auto& [lane, at] : {std::pair{Lane::send, before}, std::pair{Lane::recv, r}})
          recording.events[at].push_back({.lane = lane,
                                          .step = step - 1,
                                          .begin_ns = 1000 * posted,
                                          .end_ns = 1000 * came,
                                          .bytes = 32768,
                                          .src = static_cast<int>(before),
                                          .dst = rank});
        if (came > end[r])
          events.push_back({.lane = Lane::wait,
                            .begin_ns = 1000 * end[r],
                            .end_ns = 1000 * came,
                            .waiting_for = static_cast<int>(before)});
        end[r] = std::max(end[r], came);
      }
      begin[r] = end[r] + (rank == late && step + 1 < world_size ? sleep : 0);
      end[r] = begin[r] + computing + lost_in(rank, step);
      events.push_back({.lane = Lane::compute,
                        .step = step,
                        .kv_owner = (rank - step + world_size) % world_size,
                        .begin_ns = 1000 * begin[r],
                        .end_ns = 1000 * end[r],
                        .pairs = 64 * 64,
                        .flops = 4 * 64 * 64 * 64,
                        .cpu_ns = 1000 * computing});
    }
  }
  return recording;
}

// In a small ring a rank that is late with every hop loses time at less than most of its steps.
TEST(Explain, FindsLateHopsInSmallRings) {
  for (const int world_size : {3, 4, 5, 8}) {
    const Explanation why = explain(ring_with_late_hops(world_size, 1, 50'000, 1'000));
    SCOPED_TRACE(world_size);
    const double saved = 0.05 * (world_size - 1);
    const Diagnosis late = expect_first(why, Cause::slow_rank, 1);
    EXPECT_NEAR(late.saved_s, saved, 0.1 * saved);
    expect_contains(late.evidence, "50.00 ms");
  }
  EXPECT_TRUE(explain(ring_with_late_hops(4, 1, 0, 1'000)).findings.empty());
}

// A rank that loses as much at every block is slow, also beside ranks that lose a little at random;
// one whose losses are unequal is held up by chance, and so are ranks that all lose time.
TEST(Explain, TellsASlowRankFromChance) {
  for (const int world_size : {4, 8}) {
    const auto by_chance = [&](double mean, int rank, int step) {
      const auto index = static_cast<std::uint64_t>(100 * rank + step);
      return static_cast<std::int64_t>(mean * exponential(11, 1, index));
    };
    const auto why_of = [&](const std::function<std::int64_t(int, int)>& lost_in) {
      return explain(ring_with_late_hops(world_size, 0, 0, 1'000, lost_in));
    };
    SCOPED_TRACE(world_size);
    const Explanation slow = why_of([&](int rank, int step) {
      return (rank == 2 ? 50'000 : 0) + by_chance(1'000, rank, step);
    });
    EXPECT_NEAR(expect_first(slow, Cause::slow_rank, 2).saved_s, 0.05 * world_size,
                0.005 * world_size);
    // A scheduler may take as much, so no rank is to blame.
    const Explanation taken = why_of([](int rank, int) { return rank == 2 ? 15'000 : 0; });
    EXPECT_TRUE(taken.findings.empty() || taken.findings[0].rank == -1);
    // With cores enough, it was for other programs.
    Recording beside =
        ring_with_late_hops(world_size, 0, 0, 1'000, [](int, int) { return 15'000; });
    beside.info.machine.emplace().cores = world_size;
    const std::string headline = headline_of(explain(beside).findings.at(0));
    EXPECT_TRUE(headline.starts_with("Other programs hold the ranks up")) << headline;
    const auto held_up = [&](int rank, int step) {
      return rank == 2 ? by_chance(50'000, rank, step) : 0;
    };
    expect_first(why_of(held_up), Cause::jitter, 2);
    const auto jitter = [&](int rank, int step) { return by_chance(50'000, rank, step); };
    expect_first(why_of(jitter), Cause::jitter, -1);
  }
}

// Cores shared by ranks of which a sample is recorded, nearly enough cores, and a rank that is hardly
// slower than the others.
TEST(Explain, NamesWhatIsHardToSee) {
  Judged judged;
  for (const auto& [ranks, cores] : {std::pair{96, 40}, {12, 11}, {8, 0}}) {
    FaultyCase made = faulty_case(cores > 0 ? Cause::shared_cores : Cause::slow_rank, 1);
    made.request.job.world_size = ranks;
    made.request.job.shape.seqlen = ranks * 4096;
    made.healthy = made.machine = h100s(ranks);
    made.machine.cores = cores;
    made.rank = 5;
    if (cores == 0) made.machine.speed.assign(8, 1), made.machine.speed[5] = 0.975;
    judged.judge(1, made);
  }
  EXPECT_EQ(judged.right, 3) << judged.missed.str();
}

// A rank that computes for a small part of its share of the cores sleeps. Awake, it would share them.
TEST(Explain, TellsWhoSleepsFromWhoSharesCores) {
  Recording shared =
      ring_with_late_hops(3, 0, 0, 20'000, [](int rank, int) { return rank == 2 ? 60'000 : 0; });
  shared.info.machine.emplace().cores = 2;
  EXPECT_NEAR(expect_first(explain(shared), Cause::slow_rank, 2).saved_s, 3 * 0.05, 0.015);
  // Where ranks get all of the cores' time, no other program is to blame for a pause.
  Recording paused = ring_with_late_hops(4, 0, 0, 50'000);
  for (auto& events : paused.events)
    for (TraceEvent& e : events) e.cpu_ns = (e.end_ns - e.begin_ns) / 2;
  for (TraceEvent& e : paused.events[1])
    if (e.begin_ns >= 100'000'000) e.begin_ns += 60'000'000, e.end_ns += 60'000'000;
  paused.info.machine.emplace().cores = 2;
  const Explanation why = explain(paused);
  ASSERT_EQ(why.findings.size(), 2u);  // and that they share cores
  EXPECT_EQ(why.findings[1].cause, Cause::jitter);
  EXPECT_FALSE(why.findings[1].by_others);
}

// Each hop of 20 ms could run beside the 50 ms of its step, also the one that comes before all steps.
TEST(Explain, SaysWhatHopsBeforeTheirStepsCost) {
  Recording turns = ring_with_late_hops(8, 0, 0, 50'000);
  for (auto& events : turns.events) {
    std::erase_if(events, [](const TraceEvent& e) { return e.lane == Lane::wait; });
    for (TraceEvent& e : events) {
      const bool computes = e.lane == Lane::compute;
      e.begin_ns = 70'000'000 * e.step + (computes && e.step < 7 ? 20'000'000 : 0);
      e.end_ns = e.begin_ns + (computes ? 50'000'000 : 20'000'000);
    }
  }
  EXPECT_NEAR(expect_first(explain(turns), Cause::no_overlap, -1).saved_s, 7 * 0.02, 0.001);
}

// What all ranks do after a step, such as adding gradients up, is no chance.
TEST(Explain, FindsNothingInWhatAllDo) {
  Recording all = ring_with_late_hops(4, 0, 0, 50'000);
  for (auto& events : all.events)
    for (TraceEvent& e : events)
      if (e.begin_ns >= 150'000'000) e.begin_ns += 30'000'000, e.end_ns += 30'000'000;
  EXPECT_TRUE(explain(all).findings.empty());
}

// A rank that computes slowly and loses time besides, for twice the pairs, is sped up once.
TEST(Explain, ARankIsSlowOnce) {
  Recording both =
      ring_with_late_hops(8, 0, 0, 1'000, [](int rank, int) { return rank == 2 ? 33'000 : 0; });
  for (TraceEvent& e : both.events[2]) e.cpu_ns *= 4, e.pairs *= 2, e.flops *= 2;
  const Explanation why = explain(both);
  ASSERT_EQ(why.findings.size(), 2u);  // and imbalance
  EXPECT_EQ(why.findings[0].rank, 2);
  EXPECT_NEAR(why.findings[0].saved_s, 8 * 32e-3, 1e-3);
}

// Chance may hold one of few ranks up more than the others, but not at every step.
TEST(Explain, TellsSimulatedChanceFromASlowRank) {
  int wrong = 0;  // of 100
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    FaultyCase made = faulty_case(Cause::jitter, seed);
    made.request.job.shape.seqlen = 16'384;
    made.request.job.world_size = made.machine.world_size = 4;
    made.machine.jitter = 0.3;
    const Explanation why = explained(made);
    wrong += !why.findings.empty() && why.findings[0].cause != Cause::jitter;
  }
  EXPECT_LE(wrong, 1);
}

// A rank that computes once a pass is slow if it is so by one factor, and else held up.
TEST(Explain, TellsChanceOnOneOfTwoRanksFromASlowRank) {
  FaultyCase made = equal_ranks(2);
  Problem& job = made.request.job;
  job.backward = true;
  set_scheme(job, "ulysses");
  Recording recording = recording_of(made);
  for (const double backward : {1.5, 1.9}) {
    SimulatedRun run = run_of(made.request, Work(job, made.tile), made.machine);
    for (std::size_t i = 0; i < run.seconds.size(); ++i)
      if (const Task& task = run.graph.tasks[i]; task.rank == 1 && task.kind == Task::Kind::attend)
        run.seconds[i] *= task.pass == Pass::forward ? 1.5 : backward;
    run.times = evaluate(run.graph, run.seconds);
    recording.events = events_of(job, run, {true, true});
    expect_first(explain(recording), backward == 1.5 ? Cause::slow_rank : Cause::jitter, 1);
  }
}

TEST(Explain, BlamesTheFaultOfAFailedRun) {
  FaultyCase made = faulty_case(Cause::slow_rank, 3);
  Recording recording = recording_of(made);
  recording.info.failure = RunEnd{"no progress for 60 s", 1, 0};
  const std::int64_t end_ns = recording.events[0].back().end_ns;
  recording.events[0].push_back(
      {.lane = Lane::wait, .begin_ns = end_ns, .end_ns = end_ns + 60'000'000'000});
  const Explanation why = explain(recording);
  EXPECT_NEAR(expect_first(why, Cause::fault, 1).saved_s, 60, 1);
  EXPECT_EQ(why.findings.size(), 1u);
  // Nobody is to blame for a circle.
  const int ranks = recording.info.world_size;
  for (int rank = 0; rank < ranks; ++rank)
    recording.events[static_cast<std::size_t>(rank)].push_back({.lane = Lane::wait,
                                                                .begin_ns = end_ns,
                                                                .end_ns = end_ns + 60'000'000'000,
                                                                .waiting_for = (rank + 1) % ranks});
  EXPECT_EQ(explain(recording).findings.at(0).rank, -1);
}

TEST(Explain, RefusesWhatHasNothingToExplain) {
  Recording empty;
  empty.events.resize(1);
  EXPECT_THROW(explain(empty), InputError);
  empty.info.world_size = kMostExplainedRanks + 1;
  EXPECT_THROW(explain(empty), InputError);
}

// Everything happened at one instant, and only in the backward pass.
TEST(Explain, TakesARunThatTookNoTime) {
  Recording instant;
  instant.info.world_size = 2;
  instant.events.resize(2);
  for (int rank = 0; rank < 2; ++rank)
    for (int step = 0; step < 2; ++step)
      instant.events[rank].push_back(
          {.pass = Pass::backward, .step = step, .kv_owner = (rank + step) % 2, .pairs = 10});
  EXPECT_TRUE(explain(instant).findings.empty());
}

// A link's name comes from the recording, so it must not lead to a file.
TEST(Explain, OpensNoFileThatARecordingNames) {
  Scenario scenario = scenario_of(2, {1, 32, 32, 8192, 128}, false);
  scenario.job.nodes = 2;
  scenario.between = {"5,5", 5e9, 5e-6};
  Recording recording = record(scenario).recording;
  const std::string file = testing::TempDir() + "ringscope_links_" + std::to_string(::getpid());
  std::ofstream(file) << "link fast\n  gb_per_s 450\n";
  recording.info.machine = RunMachine{.link = file, .between = "5,5", .nodes = 2};
  const Explanation with_file = explain(recording);
  std::filesystem::remove(file);
  const Explanation without = explain(recording);
  EXPECT_EQ(with_file.findings.size(), without.findings.size());
}

// The first rank may fail before any rank has done anything.
TEST(Explain, AFailureOfWhichNothingIsRecorded) {
  Recording recording;
  recording.events.resize(4);
  recording.info.world_size = 4;
  recording.info.failure = RunEnd{"it was killed", 0, 0};
  const Explanation why = explain(recording);
  ASSERT_EQ(why.findings.size(), 1u);
  EXPECT_EQ(sentence_of(why.findings[0]),
            "Rank 0 failed. The run failed: it was killed. Nothing was recorded of it.");
  recording.info.failure.reset();
  EXPECT_THROW(explain(recording), InputError);
}

}  // namespace
}  // namespace ringscope
