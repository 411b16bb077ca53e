// The MPI ring over a real network connection, whose rate is known because it is enforced: the
// results are those of the threads, and what can't be hidden behind computation is what the closed
// form says, with the crossover where it puts it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost/time.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/summary.h"
#include "tests/mpi_link/two_hosts.h"

namespace ringscope {
namespace {

class SlowLink : public ProgramTest {
 protected:
  void SetUp() override {
    // What sanitizers find inside of MPI is not ours; mpi_driver looks for leaks.
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
    ::setenv("TSAN_OPTIONS",
             "print_suppressions=0:suppressions=" RINGSCOPE_SOURCE_DIR "/tests/core/mpi/tsan.supp",
             1);
    if (run_well({"info"}).find("backend mpi   yes") == std::string::npos)
      GTEST_SKIP() << "this build has no MPI";
    const ProgramResult version = run_words({"/bin/sh", "-c", "mpirun --version"});
    if (version.status != 0) GTEST_SKIP() << "no mpirun on PATH (Debian: openmpi-bin)";
    if (version.out.find("Open MPI") == std::string::npos)
      GTEST_SKIP() << "this mpirun is not Open MPI's, whose options are used here";
    if (const std::string why = hosts_.make(path("")); !why.empty()) GTEST_SKIP() << why;
  }

  void limit(double bytes_per_s) const { ASSERT_EQ(hosts_.limit(bytes_per_s), ""); }
  ProgramResult run_ranks(int ranks_each, const Strings& arguments) const {
    return run_words(hosts_.mpirun(ranks_each) +
                     Strings{RINGSCOPE_PROGRAM, "run", "--backend", "mpi"} + arguments);
  }

 private:
  TwoHosts hosts_;
};

TEST_F(SlowLink, GivesTheBitsOfTheThreads) {
  limit(5e6);
  const Strings problem{"--random", "--seqlen", "701",    "--heads-kv",  "2",      "--head-dim",
                        "32",       "--mask",   "causal", "--partition", "zigzag", "--backward"};
  const Strings outputs{"--out", "--lse", "--dq", "--dk", "--dv"};
  Strings here, there;
  for (const std::string& flag : outputs) {
    here = here + Strings{flag, "cpu" + flag + ".npy"};
    there = there + Strings{flag, "mpi" + flag + ".npy"};
  }
  run_well(Strings{"run", "--world-size", "4"} + problem + here);
  const ProgramResult result = run_ranks(2, problem + there + Strings{"--trace", "t.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const std::string& flag : outputs)
    EXPECT_TRUE(contents_of(path("cpu" + flag + ".npy")) ==
                contents_of(path("mpi" + flag + ".npy")))
        << flag;
  // One machine, one clock: what the ranks found their clocks to be off by is an error.
  const RunInfo info = read_chrome_trace(path("t.json")).info;
  ASSERT_EQ(info.clock_offset_ns.size(), 4u);
  for (std::size_t rank = 1; rank < 4; ++rank) {
    EXPECT_GT(info.clock_error_ns[rank], 0);
    EXPECT_LE(std::abs(info.clock_offset_ns[rank]), info.clock_error_ns[rank]) << rank;
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr Index kSeqlen = 1792;  // computing takes many times as long
#else
constexpr Index kSeqlen =
    12288;  // what a hop takes beside its bytes, up to 0.1 s, should not count
#endif

// Two ranks, one hop, beside which a rank attends its own block.
const Problem kJob{.shape = {1, 4, 4, kSeqlen, 64}, .world_size = 2};
constexpr Pass kPass = Pass::forward;
constexpr double kSlackSeconds = 0.02;

// What a run over a link of a given rate recorded, and what the closed form says of it.
struct Measured {
  // Of the link, as limited; and what the slower rank reached beside the hop in this very run.
  Rates rates;
  double processor_share = 1;  // what that rank had of a processor meanwhile
  double hop_s = 0;            // by the link's rate
  double exposed_s = 0;        // recorded
  double predicted_s = 0, predicted_at_worst_s = 0;
  double ring_s = 0;  // the whole run

  // For a link from which MPI, on a busy machine, gets at least two thirds.
  bool is_as_predicted() const {
    return exposed_s > predicted_s - 0.05 * hop_s - kSlackSeconds &&
           exposed_s < predicted_at_worst_s + kSlackSeconds;
  }
  // The link's rate at which c* is the rows that there are.
  double crossover() const {
    return rates.bytes_per_s * threshold_rows(kJob, rates, kPass, 1) / kJob.max_rows();
  }
  std::string text() const {
    return fmt::format(
        "link {:6.1f} MB/s  hop {:5.0f} ms  exposed {:5.0f} ms  predicted {:5.0f} ms  c* {:5.0f}  "
        "processor {:3.0f} %\n",
        rates.bytes_per_s * 1e-6, hop_s * 1e3, exposed_s * 1e3, predicted_s * 1e3,
        threshold_rows(kJob, rates, kPass, 1), 100 * processor_share);
  }
};

class Crossover : public SlowLink {
 protected:
  // Whatever else this machine does disturbs a run, so one that agrees with the closed form counts,
  // out of several.
  Measured measure(double bytes_per_s) {
    limit(bytes_per_s);
    Measured measured;
    double best_share = 0;
    for (int attempt = 0; attempt < 5; ++attempt) {
      measured = measure_once(bytes_per_s);
      fmt::print("{}", measured.text());
      // Disturbed or not, bytes take their time. (A bucket's worth of them passes at once.)
      EXPECT_GE(measured.ring_s, measured.hop_s - 64e3 / bytes_per_s);
      if (HasFailure() || measured.is_as_predicted()) return measured;
      best_share = std::max(best_share, measured.processor_share);
    }
    is_busy_ = best_share < 0.9;
    EXPECT_TRUE(is_busy_ || measured.is_as_predicted());
    return measured;
  }
  bool is_busy() const { return is_busy_; }
  bool can_go_on() const { return !is_busy_ && !HasFailure(); }

 private:
  Measured measure_once(double bytes_per_s) {
    Measured measured;
    measured.rates.bytes_per_s = bytes_per_s;
    const ProgramResult result = run_ranks(
        1, {"--random", "--seqlen", std::to_string(kJob.shape.seqlen), "--trace", "t.json"});
    EXPECT_EQ(result.status, 0) << result.err;
    if (result.status != 0) return measured;
    const Recording recording = read_chrome_trace(path("t.json"));
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max(), end_ns = 0;
    TraceEvent slowest;
    for (const auto& events : recording.events)
      for (const TraceEvent& event : events) {
        begin_ns = std::min(begin_ns, event.begin_ns);
        end_ns = std::max(end_ns, event.end_ns);
        if (event.lane == Lane::compute && event.step == 0 &&
            event.end_ns - event.begin_ns > slowest.end_ns - slowest.begin_ns)
          slowest = event;
      }
    measured.ring_s = static_cast<double>(end_ns - begin_ns) * 1e-9;
    const auto slice_ns = static_cast<double>(slowest.end_ns - slowest.begin_ns);
    measured.rates.forward_flops = static_cast<double>(slowest.flops) / slice_ns * 1e9;
    measured.processor_share = static_cast<double>(slowest.cpu_ns) / slice_ns;
    measured.hop_s = hop_seconds(kJob, measured.rates, kPass, kJob.max_rows());
    measured.exposed_s = summarize(recording).exposed_s;
    Rates worst = measured.rates;
    worst.bytes_per_s *= 2.0 / 3;
    measured.predicted_s = layer_time(kJob, balance_of(kJob), measured.rates).exposed();
    measured.predicted_at_worst_s = layer_time(kJob, balance_of(kJob), worst).exposed();
    return measured;
  }

  bool is_busy_ = false;
};

TEST_F(Crossover, IsWhereTheClosedFormPutsIt) {
  // From a link that hides the hop to one that can't; how fast the ranks compute says at which rates
  // to look.
  std::vector<Measured> runs = {measure(1e9)};
  Measured run = runs[0];
  bool is_partly_exposed = false;
  for (int attempt = 0; attempt < 5 && !is_partly_exposed && can_go_on(); ++attempt) {
    run = measure(run.crossover() / 2);
    is_partly_exposed = run.exposed_s > 0.2 * run.hop_s && run.exposed_s < 0.8 * run.hop_s;
  }
  if (can_go_on()) {
    EXPECT_TRUE(is_partly_exposed);
  }
  runs.push_back(run);
  for (int halvings = 0; halvings < 2 && can_go_on(); ++halvings)
    runs.push_back(measure(runs.back().rates.bytes_per_s / 2));
  if (is_busy()) GTEST_SKIP() << "this machine is too busy to time anything";
  ASSERT_FALSE(HasFailure());
  EXPECT_LT(runs[0].exposed_s, 0.2 * runs[1].hop_s);
  for (std::size_t i = 1; i < runs.size(); ++i)
    EXPECT_GT(runs[i].exposed_s, runs[i - 1].exposed_s) << runs[i].text();

  // What of the hop was not exposed is what a rank's own block hid. At the rate where that would be
  // the whole hop, c* should be the rows that there are.
  const double rows = kJob.max_rows();
  double threshold = 0;
  for (int attempt = 0; attempt < 3 && can_go_on(); ++attempt) {
    if (attempt > 0) run = measure(run.crossover() / 2);
    Rates crossover = run.rates;
    crossover.bytes_per_s *= run.hop_s / (run.hop_s - run.exposed_s);
    threshold = threshold_rows(kJob, crossover, kPass, 1);
    fmt::print("crossover at {:.1f} MB/s, where c* = {:.0f}; c = {:.0f}\n",
               crossover.bytes_per_s * 1e-6, threshold, rows);
    if (threshold > rows / 2 && threshold < rows * 2) break;
  }
  if (is_busy()) GTEST_SKIP() << "this machine is too busy to time anything";
  EXPECT_GT(threshold, rows / 2);
  EXPECT_LT(threshold, rows * 2);
}

}  // namespace
}  // namespace ringscope
