// The MPI ring against the ring on threads, bit for bit: every partition, deal, kind of mask and
// scheme, also where there are fewer rows than ranks; and what every recording must satisfy.
#include <cstdio>

#include "core/processes/mpi/run_on_mpi.h"
#include "core/ring/loop_counts.h"
#include "core/tools/sim/work.h"
#include "tests/core/attention/random_problem.h"
#include "tests/core/processes/mpi/driver/driver.h"
#include "tests/core/ring/ring_case.h"
#include "tests/core/ring/run_invariants.h"

namespace ringscope {
namespace {

void expect_same(const Problem& config, const RingRun& run, const RingRun& threads) {
  EXPECT_TRUE(bits_of(run.outputs) == bits_of(threads.outputs));
  EXPECT_EQ(run.peak_bytes, threads.peak_bytes);
  EXPECT_EQ(run.predicted_bytes, threads.predicted_bytes);
  EXPECT_EQ(run.recording.info.backend, "mpi");
  EXPECT_GT(run.wall_s, 0);
  EXPECT_EQ(run.recording.samples.size(), threads.recording.samples.size());
  expect_well_formed_lanes(run);
  expect_every_send_has_its_receive(run.recording);
  if (is_plain(config)) expect_blocks_attended_after_they_arrived(run);
  if (!config.backward || !is_plain(config)) return;
  expect_predicted_pairs(config, run);
  expect_predicted_hops_and_bytes(config, run);
}

// All processes of this host read one clock: whatever offset was measured is an error.
void expect_clocks_within_their_bounds(const RingRun& run) {
  const RunInfo& info = run.recording.info;
  for (std::size_t rank = 0; rank < info.clock_offset_ns.size(); ++rank) {
    EXPECT_LE(std::abs(info.clock_offset_ns[rank]), info.clock_error_ns[rank]) << "rank " << rank;
    if (rank > 0) {
      EXPECT_GT(info.clock_error_ns[rank], 0);
    }
  }
}

// Return a deal of all positions, the same on all ranks.
PartitionSpec dealt(std::string_view text, const Problem& job) {
  const int n = job.world_size;
  if (text.starts_with("file:")) {  // some ranks hold nothing
    std::vector<Index> numbers;
    for (Index p = 0; p < job.shape.seqlen; ++p) numbers.insert(numbers.end(), {p * p % 7 % n, 1});
    return PartitionSpec::recorded(text, numbers, job.shape.seqlen, n);
  }
  Problem dealt = job;
  dealt.partition = PartitionSpec::parse(text);
  deal_out(dealt, {});
  return dealt.partition;
}

class Sweep {
 public:
  explicit Sweep(MpiSession& session) : session_(session) {}

  void check(Problem config) {
    // Every other time each rank has its own inputs, otherwise rank 0 hands them out.
    ProcessInputs from;
    from.is_scattered = runs_++ % 2 == 0;
    const bool has_inputs = session_.rank() == 0 || !from.is_scattered;
    AttentionInputs inputs;
    if (has_inputs) {
      const Tensors<float> drawn = random_tensors(config.shape, 7 + runs_, config.dtype);
      inputs = {drawn.q, drawn.k, drawn.v, drawn.dout};
    }
    WholeInputs whole(config.shape, inputs);
    if (has_inputs) from.rows = &whole;
    config.world_size = session_.world_size();
    const RingRun run = run_on_mpi(session_, config, from, true);
    if (session_.rank() != 0) {
      if (!run.outputs.out.empty() || !run.recording.events[0].empty())
        throw RunError("rank " + std::to_string(session_.rank()) + " has a result");
      return;
    }
    SCOPED_TRACE(std::string(name_of(config.partition)) + " " + config.mask.name() + " " +
                 config.scheme_name() + " " + std::string(name_of(config.dtype)) + " buffers " +
                 std::to_string(config.kv_buffers) + " seqlen " +
                 std::to_string(config.shape.seqlen) + " world_size " +
                 std::to_string(config.world_size) + (config.backward ? " backward" : "") +
                 (from.is_scattered ? " scattered" : " generated"));
    expect_same(config, run, run_on_threads(config, inputs));
    expect_clocks_within_their_bounds(run);
  }
  int runs() const { return runs_; }

 private:
  MpiSession& session_;
  int runs_ = 0;
};

}  // namespace

void sweep(MpiSession& session) {
  Sweep all(session);
  constexpr Index kGroups[] = {1, 2, 4};
  int turn = 0;
  // Every third of them at one length of three ranks, so that every mask and deal is there; else every
  // seventh, another one from mask to mask, or half of these where ranks are many and wait for each other.
  const int ranks = session.world_size(), every = ranks > 4 ? 14 : 7;
  std::vector<Index> seqlens = {37, 3};
  if (ranks <= 4) seqlens.insert(seqlens.end(), {1, 130});
  for (const Index seqlen : seqlens)
    for (const std::string& mask : masks_for(seqlen))
      for (const PartitionKind partition : kAllPartitions)
        for (const Scheme* scheme : {scheme_named("ring"), scheme_named("allgather")}) {
          ++turn;
          if (turn % (seqlen == 37 && ranks == 3 ? 3 : every) != 0) continue;
          Problem config;
          const Index group = kGroups[turn / 2 % 3];
          config.shape = {1 + turn % 2, 2 * group, 2, seqlen, 8};
          config.dtype = kAllDTypes[turn / 3 % 3];
          config.mask = MaskSpec::parse(mask);
          config.partition = partition;
          config.scheme = scheme;
          config.kv_buffers = 2 + (turn / 2 + turn / 8) % 4;
          config.backward = true;
          config.hops = kAllHops[turn / 4 % 2];
          all.check(config);
        }
  // Every scheme that this number of ranks allows, with fixed partitions and with deals: those of odd
  // number and of even number take turns.
  const struct {
    const char *partition, *mask;
    Index seqlen;
  } ways[] = {{"fixed", "causal", 37},      {"fixed", "causal", 3},
              {"fixed", "window:9", 37},    {"documents:zigzag", "causal+documents:20,1,16", 37},
              {"file:any", "window:9", 37}, {"searched", "causal", 37}};
  turn += ranks;
  for (const char* scheme :
       {"ring",     "allgather",   "bidirectional", "multi-ring:2", "multi-ring:4",
        "pass-q",   "allgather:2", "ulysses",       "ulysses:2",    "hybrid:2",
        "hybrid:3", "two-level:2", "two-level:4",   "mesh:2x2",     "mesh:2x3",
        "mesh:3x2", "mesh:2x4",    "mesh:1x5",      "groupcast",    "tree"})
    for (std::size_t way = ++turn % 2; way < std::size(ways); way += 2) {
      const auto& [partition, mask, seqlen] = ways[way];
      const bool is_fixed = std::string_view(partition) == "fixed";
      Problem config;
      config.shape = {1 + turn % 2, 8, 2, seqlen, 8};
      config.dtype = kAllDTypes[(turn + way) % 3];
      config.mask = MaskSpec::parse(mask);
      config.backward = true;
      config.world_size = ranks;
      set_scheme(config, scheme);
      try {
        check_scheme(config);
      } catch (const InputError&) {
        continue;
      }
      if (is_fixed && is_plain(config)) continue;  // as above
      config.partition =
          is_fixed ? PartitionSpec(kAllPartitions[(turn + way) % 4]) : dealt(partition, config);
      all.check(config);
    }
  // Rows that need several messages on their way in and out; without a backward pass.
  Problem large;
  large.shape = {1, 2, 2, 1500, 64};
  large.mask = MaskSpec::parse("causal");
  large.partition = PartitionKind::zigzag;
  all.check(large);
  large.backward = true;
  large.dtype = DType::bf16;
  all.check(large);
  if (session.rank() == 0) std::printf("%d runs compared\n", all.runs());
}

}  // namespace ringscope
