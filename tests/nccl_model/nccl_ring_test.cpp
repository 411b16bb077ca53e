// The ring over NCCL gives the same answers as attention in f64, and the same bits as virtual ranks
// on one GPU, whatever order streams run in and however late NCCL does what it is asked for. And it
// asks for what it should: a group of one send and one receive a hop, in the same order on all
// ranks.
#include <gtest/gtest.h>

#include <cctype>
#include <map>

#include "core/ring/loop_counts.h"
#include "cuda/ring/run_on_gpu.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/nccl_model/nccl_run.h"
#include "tests/schemes.h"

namespace ringscope::cuda {
namespace {

// A scheme on so many ranks. Each mask meets each partition, and each scheme with a closed form of its
// traffic each number of ranks.
struct RingOn {
  const char* scheme;
  int world_size;
  PartitionKind partition;
  Hops hops = Hops::all;
};

class NcclRing : public NcclTest, public testing::WithParamInterface<RingOn> {
 protected:
  static Problem config_of(const RingReference& problem) {
    Problem config = problem.config(GetParam().partition, GetParam().world_size);
    set_scheme(config, GetParam().scheme);
    config.hops = GetParam().hops;
    check_scheme(config);
    return config;
  }
  // As many heads as the scheme deals out: every matrix is a launch more for the model.
  static AttentionShape shape_of(Index seqlen, Index head_dim) {
    const bool needs_four = std::string(GetParam().scheme).ends_with(":2");
    return {1, needs_four ? 4 : 2, needs_four ? 2 : 1, seqlen, head_dim};
  }
  static void expect_rules(const Problem& config, const RingRun& done) {
    EXPECT_EQ(done.recording.info.backend, "nccl");
    expect_books(config, done);
    const std::string scheme = GetParam().scheme;
    if ((scheme == "ring" && GetParam().hops == Hops::all) || scheme == "allgather") {
      expect_predicted_pairs(config, done);
      expect_predicted_hops_and_bytes(config, done);
      expect_blocks_attended_after_they_arrived(done);
    }
    for_events(done, Lane::wait,
               [&](int rank, const TraceEvent& event) { EXPECT_NE(event.waiting_for, rank); });
  }
};

TEST_P(NcclRing, AgreesWithTheOracleAndGivesTheBitsOfVirtualRanks) {
  constexpr const char* kMasks[] = {"full", "causal+window:7", "prefix:20", "documents:13,20,4"};
  const int turn = GetParam().world_size + static_cast<int>(GetParam().partition);
  std::uint64_t seed = 0;
  for (const auto& [mask, seqlen] : {std::pair{kMasks[turn % 4], 37},
                                     {kMasks[(turn + 1) % 4], 37},
                                     {"causal", 3}}) {  // the last of fewer rows than ranks
    const RingReference problem(shape_of(seqlen, 6), DType::f32, mask, 0.4f, 79);
    const Problem config = config_of(problem);
    reset_models();
    model::set_stream_seed(++seed);
    model::set_nccl_delay(static_cast<int>(seed % 4), seed);
    SCOPED_TRACE(described(problem, config));
    const RingRun done = run_nccl(problem, config);
    problem.check(config, done);
    expect_nothing_left();
    GpuOptions options;
    options.kernels = quick_options().kernels;
    EXPECT_EQ(bits(done.outputs), bits(run_on_gpu(config, problem.inputs, {}, options).outputs));
  }
}

// The dependencies between streams are all stated: no order of them, and no delay of NCCL's, shows. And
// every recording keeps the rules.
TEST_P(NcclRing, IsRightUnderManyOrdersOfStreams) {
  const RingReference problem(shape_of(17, 4), DType::f32, "causal", 0.5f, 80);
  Problem config = config_of(problem);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    reset_models();
    model::set_stream_seed(seed);
    model::set_nccl_delay(static_cast<int>(seed % 5), seed);
    config.kv_buffers = 2 + static_cast<int>(seed % 3);
    const RingRun done = run_nccl(problem, config);
    problem.check(config, done);
    expect_nothing_left();
    expect_rules(config, done);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, NcclRing,
    testing::Values(
        RingOn{"ring", 1, PartitionKind::zigzag}, RingOn{"ring", 2, PartitionKind::striped},
        RingOn{"ring", 3, PartitionKind::fold}, RingOn{"ring", 4, PartitionKind::zigzag},
        RingOn{"ring", 5, PartitionKind::contiguous}, RingOn{"allgather", 2, PartitionKind::fold},
        RingOn{"allgather", 3, PartitionKind::contiguous},
        RingOn{"allgather", 4, PartitionKind::striped},
        RingOn{"allgather", 5, PartitionKind::zigzag},
        RingOn{"two-level:2", 4, PartitionKind::zigzag},
        RingOn{"two-level:3", 6, PartitionKind::contiguous},
        RingOn{"pass-q", 4, PartitionKind::zigzag}, RingOn{"mesh:2x2", 4, PartitionKind::zigzag},
        RingOn{"ulysses", 2, PartitionKind::contiguous},
        RingOn{"ulysses:2", 2, PartitionKind::fold}, RingOn{"hybrid:2", 4, PartitionKind::fold},
        RingOn{"allgather:2", 3, PartitionKind::zigzag},
        RingOn{"multi-ring:4", 5, PartitionKind::fold},
        RingOn{"bidirectional", 2, PartitionKind::fold},
        RingOn{"bidirectional", 5, PartitionKind::striped},
        RingOn{"groupcast", 3, PartitionKind::zigzag},
        RingOn{"groupcast", 4, PartitionKind::contiguous},
        RingOn{"ring", 3, PartitionKind::zigzag, Hops::needed},
        RingOn{"ring", 4, PartitionKind::contiguous, Hops::needed}),
    [](const auto& tested) {
      std::string name = tested.param.scheme;
      if (tested.param.hops == Hops::needed) name += "_of_what_is_needed";
      for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
      return name + "_on_" + std::to_string(tested.param.world_size);
    });

class NcclRingOptions : public NcclTest {};

TEST_F(NcclRingOptions, ForwardAloneInBf16) {
  const RingReference problem({1, 2, 1, 20, 64}, DType::bf16, "causal", 0.125f, 74);
  Problem config = problem.config(PartitionKind::zigzag, 2);
  config.backward = false;
  NcclOptions options;
  options.kernels = {5, 0};
  problem.check(config, run_on_nccl(config, problem.inputs, {}, options));
  expect_nothing_left();
}

void expect_right_and_the_bits_of_virtual_ranks(const std::vector<ShapedProblem>& problems) {
  GpuOptions options;
  options.kernels = quick_options().kernels;
  for (const ShapedProblem& problem : problems) {
    reset_models();
    SCOPED_TRACE(problem.described());
    const RingRun done = run_on_nccl(problem.config, problem.inputs(), {}, quick_options());
    problem.check(done);
    expect_nothing_left();
    EXPECT_EQ(bits(done.outputs),
              bits(run_on_gpu(problem.config, problem.inputs(), {}, options).outputs));
  }
}

TEST_F(NcclRingOptions, FewerQueriesThanKeys) {
  expect_right_and_the_bits_of_virtual_ranks(with_fewer_queries());
}

TEST_F(NcclRingOptions, ValuesOfAnotherWidth) {
  expect_right_and_the_bits_of_virtual_ranks(with_other_values());
}

TEST_F(NcclRingOptions, Sinks) { expect_right_and_the_bits_of_virtual_ranks(with_sinks()); }

// All that a rank's hops ask NCCL for: a send to the next rank and a receive from the previous one
// in each group, of the sizes that all ranks know, in an order that is the same everywhere, on one
// stream. The first group is the greeting that connects.
void expect_groups(const Problem& config, const RingRun& done) {
  const int n = config.world_size;
  std::map<int, std::map<int, std::vector<model::NcclPart>>> groups;  // [rank][group]
  for (const model::NcclPart& part : model::nccl_parts())
    groups[part.rank][part.group].push_back(part);
  ASSERT_EQ(groups.size(), static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) {
    std::vector<TraceEvent> sent;  // in the order of their flow: of exchange() calls
    for_events(done, Lane::send, [&](int its, const TraceEvent& event) {
      if (its == rank) sent.push_back(event);
    });
    ASSERT_EQ(groups[rank].size(), sent.size() + 1) << "rank " << rank;
    for (const auto& [group, parts] : groups[rank]) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << ", group " << group);
      ASSERT_EQ(parts.size(), 2u);
      EXPECT_TRUE(parts[0].is_send);
      EXPECT_FALSE(parts[1].is_send);
      EXPECT_EQ(parts[0].peer, (rank + 1) % n);
      EXPECT_EQ(parts[1].peer, (rank + n - 1) % n);
      if (group == 0) continue;
      const TraceEvent& hop = sent[static_cast<std::size_t>(group) - 1];
      EXPECT_EQ(parts[0].bytes, static_cast<std::size_t>(hop.bytes));
      EXPECT_EQ(parts[0].stream, groups[rank][1][0].stream);
      EXPECT_EQ(parts[1].stream, groups[rank][1][0].stream);
    }
  }
}

TEST_F(NcclRingOptions, AsksForOneGroupAHop) {
  for (const Scheme* scheme : kRunSchemes)
    for (const int world_size : {2, 3, 4}) {
      reset_models();
      const RingReference problem({1, 1, 1, 23, 4}, DType::f32, "full", 0.4f, 77);
      Problem config = problem.config(PartitionKind::striped, world_size, scheme);
      config.kv_buffers = world_size;
      SCOPED_TRACE(described(problem, config));
      expect_groups(config, run_nccl(problem, config));
    }
}

// Several ranks on one GPU are for tests, and not every NCCL can.
TEST_F(NcclRingOptions, OlderNcclRefusesRanksThatShareAGpu) {
  model::set_nccl_version(22809);
  const RingReference problem({1, 1, 1, 8, 4}, DType::f32, "full", 0.4f, 78);
  const auto error =
      error_of([&] { run_nccl(problem, problem.config(PartitionKind::contiguous, 2)); });
  ASSERT_TRUE(error.has_value());
  for (const char* part :
       {"2 ranks on 1 GPU", "2.28.9", "2.30.3", "--world-size 1", "mpirun", "--backend cuda"})
    expect_contains(error->what(), part);
  EXPECT_FALSE(error_of([&] {
                 run_nccl(problem, problem.config(PartitionKind::contiguous, 1));
               }).has_value());
  expect_nothing_left();
}

}  // namespace
}  // namespace ringscope::cuda
