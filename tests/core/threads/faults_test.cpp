// The mistakes of --inject on threads: every one ends as it should, says who and where, and leaves a
// recording behind.
#include "core/ring/faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/threads/cpu_engine.h"
#include "core/threads/faulty_ring.h"
#include "core/tools/sim/machine.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/base/thrown.h"
#include "tests/core/ring/ring_case.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/schemes.h"

namespace ringscope {
namespace faults_test {

constexpr int kWorldSize = 4;
// Long enough for a rank that gets no turn on a busy machine; so runs that wait for it run side by side.
constexpr double kTimeout = 1;

const RingReference& problem() {
  static const RingReference reference({1, 2, 1, 21, 4}, DType::f32, "causal", 0.5f, 41);
  return reference;
}

Problem config_with(Fault fault, int rank, int step, const Scheme* scheme = scheme_named("ring")) {
  Problem config = problem().config(PartitionKind::zigzag, kWorldSize, scheme);
  config.timeout_s = kTimeout;
  config.injection = Injection{fault, rank, step};
  return config;
}

// How the run failed, with the recording that it left as that of a run.
struct Ending {
  std::optional<RunError> error;
  RingRun run;
};

Ending ending_of(const Problem& config) {
  Ending ending;
  try {
    run_on_threads(config, problem().inputs);
  } catch (const RunFailure& failure) {
    ending.error = failure;
    ending.run.recording = failure.recording();
  }
  return ending;
}

std::vector<Ending> endings_of(const std::vector<Problem>& configs) {
  std::vector<std::future<Ending>> runs;
  for (const Problem& config : configs)
    runs.push_back(std::async(std::launch::async, [&config] { return ending_of(config); }));
  std::vector<Ending> endings;
  for (std::future<Ending>& run : runs) endings.push_back(run.get());
  return endings;
}

// check(ending, rank, step) of a run with `fault` in every hop.
template <class F>
void for_every_hop(Fault fault, F&& check) {
  std::vector<Problem> configs;
  for (int rank = 0; rank < kWorldSize; ++rank)
    for (int step = 0; step < kWorldSize - 1; ++step)
      configs.push_back(config_with(fault, rank, step));
  const std::vector<Ending> endings = endings_of(configs);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const Injection& injection = *configs[i].injection;
    SCOPED_TRACE(to_string(injection));
    check(endings[i], injection.rank, injection.step);
  }
}

// What the trace of every failed run must satisfy.
void expect_recorded(const Ending& ending) {
  ASSERT_TRUE(ending.error.has_value());
  const std::optional<RunEnd>& failure = ending.run.recording.info.failure;
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->message, ending.error->what());
  EXPECT_EQ(failure->rank, ending.error->rank());
  EXPECT_EQ(failure->step, ending.error->step());
  ASSERT_EQ(ending.run.recording.events.size(), static_cast<std::size_t>(kWorldSize));
  expect_well_formed_lanes(ending.run);
  expect_every_send_has_its_receive(ending.run.recording);
  expect_blocks_attended_after_they_arrived(ending.run);
  expect_trace_read_back_as_it_was(ending.run);
  EXPECT_EQ(summarize(ending.run.recording).ranks.size(), static_cast<std::size_t>(kWorldSize));
}

void expect_named(const Ending& ending, int rank, int step, const std::string& part) {
  ASSERT_TRUE(ending.error.has_value());
  EXPECT_EQ(ending.error->rank(), rank);
  EXPECT_EQ(ending.error->step(), step);
  expect_contains(ending.error->what(), part);
}

// Steps of the forward pass that the rank computed.
std::set<int> steps_of(const Ending& ending, int rank) {
  std::set<int> steps;
  for_events(ending.run, Lane::compute, [&](int at, const TraceEvent& event) {
    if (at == rank && event.pass == Pass::forward) steps.insert(event.step);
  });
  return steps;
}

int count_of(const Ending& ending, Lane lane, int rank) {
  int count = 0;
  for_events(ending.run, lane, [&](int at, const TraceEvent&) { count += at == rank; });
  return count;
}

// Waits of `rank` that lasted until the run failed, for as long as the timeout or nearly.
int long_waits_for(const Ending& ending, int rank, int peer) {
  int count = 0;
  for_events(ending.run, Lane::wait, [&](int at, const TraceEvent& wait) {
    count += at == rank && wait.waiting_for == peer &&
             wait.end_ns - wait.begin_ns > static_cast<std::int64_t>(kTimeout * 0.8 * 1e9);
  });
  return count;
}

TEST(Faults, UnpostedReceive) {
  for_every_hop(Fault::unposted_recv, [](const Ending& ending, int rank, int step) {
    expect_named(ending, rank, step, "no progress for 1 s; others wait for it");
    expect_recorded(ending);
    // It computed what it had, and the next rank what it was sent; then both waited till the end.
    EXPECT_EQ(steps_of(ending, rank).size(), static_cast<std::size_t>(step + 1));
    EXPECT_EQ(long_waits_for(ending, (rank + 1) % kWorldSize, rank), 1);
    EXPECT_EQ(long_waits_for(ending, rank, rank), 1);  // for itself: for nobody else
    EXPECT_EQ(count_of(ending, Lane::send, rank), step + 1);
    EXPECT_EQ(count_of(ending, Lane::recv, rank), step);
  });
}

TEST(Faults, SendFirst) {
  std::vector<Problem> configs;
  for (int step = 0; step < kWorldSize - 1; ++step)
    configs.push_back(config_with(Fault::send_first, 2, step));
  const std::vector<Ending> endings = endings_of(configs);
  for (int step = 0; step < kWorldSize - 1; ++step) {
    SCOPED_TRACE(step);
    const Ending& ending = endings[static_cast<std::size_t>(step)];
    expect_named(ending, 0, step, "ranks wait for each other, 0 for 1 for 2 for 3 for 0");
    expect_recorded(ending);
    for (int rank = 0; rank < kWorldSize; ++rank) {
      EXPECT_EQ(steps_of(ending, rank).size(), static_cast<std::size_t>(step + 1));
      EXPECT_EQ(long_waits_for(ending, rank, (rank + 1) % kWorldSize), 1);
    }
  }
}

TEST(Faults, InAnAllGather) {
  const std::vector<Ending> endings =
      endings_of({config_with(Fault::unposted_recv, 2, 1, scheme_named("allgather")),
                  config_with(Fault::send_first, 2, 1, scheme_named("allgather"))});
  expect_named(endings[0], 2, 1, "no progress");
  expect_named(endings[1], 0, 1, "wait for each other");
}

// All hops of a tree are asked for at once. Only the rank whose fault it is waits for itself.
TEST(Faults, InATree) {
  std::vector<Problem> configs;
  for (const Fault fault : {Fault::killed_rank, Fault::unposted_recv})
    for (int step = 0; step < kWorldSize - 1; ++step)
      configs.push_back(config_with(fault, 2, step, scheme_named("tree")));
  const std::vector<Ending> endings = endings_of(configs);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    SCOPED_TRACE(to_string(*configs[i].injection));
    expect_named(endings[i], 2, configs[i].injection->step, "");
    for_events(endings[i].run, Lane::wait, [](int rank, const TraceEvent& wait) {
      EXPECT_TRUE(rank == 2 || wait.waiting_for != rank) << rank;
    });
  }
}

TEST(Faults, WrongCount) {
  for_every_hop(Fault::wrong_count, [](const Ending& ending, int rank, int step) {
    const int next = (rank + 1) % kWorldSize;
    // A row of K and V, one head, four values of 4 bytes each.
    const Index whole = problem()
                            .config(PartitionKind::zigzag, kWorldSize)
                            .ring_problem()
                            .kv_bytes(RingSchedule{rank, kWorldSize}.owner(step));
    expect_named(ending, rank, step,
                 "sent " + std::to_string(whole - 32) + " bytes of owner " +
                     std::to_string(RingSchedule{rank, kWorldSize}.owner(step)) +
                     " (kv), where rank " + std::to_string(next) + " expected " +
                     std::to_string(whole) + " bytes");
    expect_recorded(ending);
  });
}

// One row more, where there is none to leave out.
TEST(Faults, WrongCountOfAnEmptyBlock) {
  const RingReference tiny({1, 1, 1, 2, 4}, DType::f32, "full", 0.5f, 43);
  Problem config = tiny.config(PartitionKind::contiguous, 3);
  config.injection = Injection{Fault::wrong_count, 2, 0};
  expect_contains(run_error_of([&] { run_on_threads(config, tiny.inputs); }),
                  "rank 2, step 0: sent 32 bytes");
}

TEST(Faults, EarlyReuseGivesWrongNumbersAndNothingElse) {
  for (const Scheme* scheme : kRunSchemes)
    for (const std::string mask : {"causal", "full"})
      for (int step = 0; step < kWorldSize - 1; ++step) {
        SCOPED_TRACE(testing::Message() << name_of(scheme) << ", " << mask << ", step " << step);
        Problem config = config_with(Fault::early_reuse, 1, step, scheme);
        config.mask = MaskSpec::parse(mask);
        config.partition = PartitionKind::striped;
        const AttentionOutputs wrong = run_on_threads(config, problem().inputs).outputs;
        const AttentionOutputs again = run_on_threads(config, problem().inputs).outputs;
        EXPECT_EQ(wrong.out, again.out);
        EXPECT_EQ(wrong.dk, again.dk);
        config.injection.reset();
        const AttentionOutputs right = run_on_threads(config, problem().inputs).outputs;
        const std::vector<double> expected(right.out.begin(), right.out.end());
        const double error = max_abs_error(wrong.out, expected);
        EXPECT_GE(error, 0.01);  // and no NaN
        EXPECT_LE(error, 100);
      }
}

TEST(Faults, SlowRankGivesRightNumbersAndWaits) {
  const Problem config = config_with(Fault::slow_rank, 1, 1);
  const RingRun run = run_on_threads(config, problem().inputs);
  problem().check(config, run);
  EXPECT_FALSE(run.recording.info.failure.has_value());
  expect_every_send_has_its_receive(run.recording);
  // Whoever gets its blocks waits for it.
  std::int64_t waited_ns = 0;
  for_events(run, Lane::wait, [&](int rank, const TraceEvent& wait) {
    if (rank == 2 && wait.waiting_for == 1) waited_ns += wait.end_ns - wait.begin_ns;
  });
  EXPECT_GT(waited_ns, 0);
  // Before a hop it does nothing for 50 ms, from that step on.
  std::map<std::pair<Pass, int>, std::int64_t> sent;
  std::int64_t first_attended = 0;
  for_events(run, Lane::send, [&](int rank, const TraceEvent& e) {
    if (rank == 1 && e.payload == Payload::kv) sent[{e.pass, e.step}] = e.begin_ns;
  });
  for_events(run, Lane::compute, [&](int rank, const TraceEvent& e) {
    if (rank == 1 && e.pass == Pass::forward && e.step == 0) first_attended = e.end_ns;
  });
  EXPECT_GE((sent[{Pass::forward, 1}] - first_attended), 50'000'000);
  EXPECT_GE((sent[{Pass::backward, 0}] - sent[{Pass::forward, 2}]), 50'000'000);
}

// The hop that an error names is the one that was struck, however early it was asked for.
TEST(Faults, InHopsThatAreAskedForAhead) {
  std::vector<Problem> configs;
  for (const Fault fault : {Fault::killed_rank, Fault::wrong_count, Fault::unposted_recv})
    for (int step = 0; step < kWorldSize - 1; ++step) {
      configs.push_back(config_with(fault, 1, step));
      configs.back().kv_buffers = kWorldSize;
    }
  const std::vector<Ending> endings = endings_of(configs);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    SCOPED_TRACE(to_string(*configs[i].injection));
    expect_named(endings[i], 1, configs[i].injection->step, "");
    expect_recorded(endings[i]);
  }
  Problem config = config_with(Fault::send_first, 0, 2);
  config.kv_buffers = kWorldSize;
  expect_named(ending_of(config), 0, 2, "ranks wait for each other");
}

// Of the blocks that each rank attended, by pass and step, how long that took at least.
void expect_late(const RingRun& run, const Injection& injection) {
  std::map<int, int> attended;
  for_events(run, Lane::compute, [&](int rank, const TraceEvent& e) {
    ++attended[rank];
    const double late = delay_before(injection, kWorldSize, rank, e.pass, e.step);
    EXPECT_GE(static_cast<double>(e.end_ns - e.begin_ns), late * 1e9)
        << "rank " << rank << ", " << name_of(e.pass) << " step " << e.step;
  });
  for (int rank = 0; rank < kWorldSize; ++rank) EXPECT_EQ(attended[rank], 2 * kWorldSize);
}

TEST(Faults, LatenessGivesRightNumbers) {
  for (const Scheme* scheme : kRunSchemes)
    for (Injection injection : {Injection{Fault::straggler, 1, 2}, Injection{Fault::jitter}}) {
      SCOPED_TRACE(to_string(injection) + ", " + std::string(name_of(scheme)));
      injection.delay_s = 0.005;
      Problem config = config_with(injection.fault, 0, 0, scheme);
      config.injection = injection;
      config.kv_buffers = 3;
      const RingRun run = run_on_threads(config, problem().inputs);
      problem().check(config, run);
      EXPECT_FALSE(run.recording.info.failure.has_value());
      expect_late(run, injection);
    }
}

TEST(Faults, LatenessIsDrawnOnceForEveryRankPassAndStep) {
  Injection straggler{Fault::straggler, -1, 2};
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (int rank = 0; rank < kWorldSize; ++rank)
      for (int step = 0; step < kWorldSize; ++step)
        EXPECT_EQ(delay_before(straggler, kWorldSize, rank, pass, step),
                  rank == kWorldSize - 1 && (pass == Pass::backward || step >= 2) ? 0.05 : 0);

  Injection jitter{Fault::jitter};
  std::set<double> drawn;
  double sum = 0;
  constexpr int kRanks = 100, kSteps = 100;
  for (const std::uint64_t seed : {0, 1})
    for (int rank = 0; rank < kRanks; ++rank)
      for (const Pass pass : {Pass::forward, Pass::backward})
        for (int step = 0; step < kSteps; ++step) {
          jitter.seed = seed;
          const double late = delay_before(jitter, kRanks, rank, pass, step);
          EXPECT_EQ(late, delay_before(jitter, kRanks, rank, pass, step));
          EXPECT_GE(late, 0);
          EXPECT_EQ(late, 0.05 * jitter_draw(seed, JitterOf::compute, pass, rank, step));
          drawn.insert(late);
          sum += late;
        }
  EXPECT_EQ(drawn.size(), 4u * kRanks * kSteps);
  // The mean of 40,000 draws, to five of its standard deviations.
  EXPECT_NEAR(sum / (4.0 * kRanks * kSteps), 0.05, 5 * 0.05 / 200);
  jitter.rank = 3;
  EXPECT_EQ(delay_before(jitter, kRanks, 2, Pass::forward, 0), 0);
  EXPECT_GT(delay_before(jitter, kRanks, 3, Pass::forward, 0), 0);
}

TEST(Faults, KilledRank) {
  for_every_hop(Fault::killed_rank, [](const Ending& ending, int rank, int step) {
    expect_named(ending, rank, step, "--inject killed-rank");
    expect_recorded(ending);
    EXPECT_LE(steps_of(ending, rank).size(), static_cast<std::size_t>(step));
  });
  // The last one, when none is named.
  expect_named(ending_of(config_with(Fault::killed_rank, -1, 0)), kWorldSize - 1, 0, "killed-rank");
}

TEST(Faults, AreSpelledOnTheCommandLine) {
  for (const Fault fault : kAllFaults) {
    const std::string name(name_of(fault));
    EXPECT_EQ(parse_injection(name), (Injection{fault, -1, 0}));
    EXPECT_EQ(parse_injection(name + "@3"), (Injection{fault, 3, 0}));
    EXPECT_EQ(parse_injection(name + "@3:12"), (Injection{fault, 3, 12}));
    for (const std::string& text : {name, name + "@3", name + "@3:12"})
      EXPECT_EQ(to_string(parse_injection(text)), text);
  }
  for (const char* text :
       {"", "slow", "slow-rank@", "slow-rank@-1", "slow-rank@1:", "slow-rank@1:x", "slow-rank@1:-2",
        "slow-rank@1:2:3", "slow-rank:1", "slow-rank @1", "@1", "slow-rank@99999999999"})
    for (const Fault fault : kAllFaults)
      expect_contains(input_error_of([&] { parse_injection(text); }), std::string(name_of(fault)));
}

TEST(Faults, StrikeARankAndAHopThatThereAre) {
  const auto refused = [](int world_size, int rank, int step, Fault fault = Fault::slow_rank) {
    Problem config = problem().config(PartitionKind::zigzag, world_size);
    config.injection = Injection{fault, rank, step};
    return input_error_of([&] { check_config(config); }) != "";
  };
  EXPECT_FALSE(refused(4, 3, 2));
  EXPECT_FALSE(refused(2, -1, 0));
  EXPECT_TRUE(refused(4, 4, 0));
  EXPECT_TRUE(refused(4, 0, 3));
  EXPECT_TRUE(refused(1, -1, 0));
  EXPECT_FALSE(refused(4, 0, 3, Fault::jitter));
  EXPECT_TRUE(refused(4, 0, 4, Fault::straggler));
}

}  // namespace faults_test
}  // namespace ringscope
