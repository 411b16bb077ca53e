// Ranks on GPUs of their own, by NCCL and by copy engines: what belongs to one GPU is used on that
// one alone, and the answers are those of virtual ranks on a single GPU, bit for bit.
#include <gtest/gtest.h>

#include "cuda/ring/run_on_gpu.h"
#include "tests/core/base/thrown.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/nccl_model/nccl_run.h"
#include "tests/schemes.h"

namespace ringscope::cuda {
namespace several_gpus_test {

const RingReference& problem() {
  static const RingReference reference({1, 2, 1, 27, 4}, DType::f32, "causal", 0.5f, 81);
  return reference;
}

RingRun run_copies(const Problem& config, int gpus) {
  GpuOptions options;
  options.kernels = quick_options().kernels;
  options.gpus = gpus;
  return run_on_gpu(config, problem().inputs, {}, options);
}

class SeveralGpus : public NcclTest, public testing::WithParamInterface<const Scheme*> {
 protected:
  // As the usual machine is: an NCCL that takes one rank a GPU.
  void use(int gpus, std::uint64_t seed) {
    reset_models();
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    model::set_nccl_version(22809);
    model::set_device_count(gpus);
    model::set_stream_seed(seed);
  }
};

TEST_P(SeveralGpus, GiveTheBitsOfOne) {
  std::uint64_t seed = 1;
  int world_size = 2;
  for (const PartitionKind partition : kAllPartitions) {
    const Problem config = problem().config(partition, world_size, GetParam());
    SCOPED_TRACE(described(problem(), config));
    use(1, 1);
    const auto of_one = bits(run_copies(config, 1).outputs);
    use(world_size, seed++);
    EXPECT_EQ(bits(run_nccl(problem(), config).outputs), of_one) << "by NCCL";
    expect_nothing_left();
    use(world_size, seed++);
    EXPECT_EQ(bits(run_copies(config, world_size).outputs), of_one) << "by copies";
    expect_nothing_left();
    world_size = 2 + world_size % 3;
  }
}

TEST_P(SeveralGpus, KeepTheRulesOfEveryRecording) {
  const Problem config = problem().config(PartitionKind::zigzag, 4, GetParam());
  for (const bool by_nccl : {true, false}) {
    use(4, 7);
    const RingRun done = by_nccl ? run_nccl(problem(), config) : run_copies(config, 4);
    expect_predicted_pairs(config, done);
    expect_predicted_hops_and_bytes(config, done);
    expect_well_formed_lanes(done);
    expect_every_send_has_its_receive(done.recording);
    // A copy's times are by the clock of the GPU that receives, a send's by the next rank's then:
    // apart by the error of clocks.
    if (by_nccl) expect_blocks_attended_after_they_arrived(done);
    EXPECT_EQ(done.peak_bytes, done.predicted_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SeveralGpus, testing::ValuesIn(kRunSchemes),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

class SeveralGpusOptions : public NcclTest {};

// Ranks are dealt over what there is, in turn.
TEST_F(SeveralGpusOptions, FewerGpusThanRanks) {
  model::set_device_count(2);
  const Problem config = problem().config(PartitionKind::striped, 5);
  problem().check(config, run_copies(config, 2));
  expect_nothing_left();
  reset_models();
  model::set_device_count(3);
  problem().check(config, run_nccl(problem(), config));  // the model's NCCL is one that shares GPUs
  expect_nothing_left();
}

TEST_F(SeveralGpusOptions, MoreGpusThanThereAreAreRefused) {
  model::set_device_count(2);
  EXPECT_EQ(input_error_of([] { run_copies(problem().config(PartitionKind::striped, 5), 3); }),
            "--gpus: 3 given; accepted: 1 to 2, as many as there are");
}

}  // namespace several_gpus_test
}  // namespace ringscope::cuda
