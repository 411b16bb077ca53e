// The kernel table is complete and in order, says why it refuses, and stands in cuda/README.md.
#include "cuda/kernels/kernel_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "cuda/kernels/persistent_schedule.h"
#include "tests/core/base/thrown.h"
#include "tests/cuda/ring_step_harness.h"
#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/runtime.h"
#endif

namespace ringscope::cuda {
namespace {

TEST(KernelTable, IsInOrderAndComplete) {
  int previous = 0;
  for (const Kernel& kernel : all_kernels()) {
    EXPECT_GT(kernel.number, previous) << kernel.name;
    previous = kernel.number;
    EXPECT_NE(kernel.launch_forward != nullptr, kernel.launch_backward != nullptr) << kernel.name;
    EXPECT_FALSE(kernel.tiles.empty()) << kernel.name;
    EXPECT_FALSE(kernel.idea.empty()) << kernel.name;
    EXPECT_EQ(kernel.carries_state, kernel.number != 1) << kernel.name;
    EXPECT_EQ(kernel.pass() == KernelPass::forward, kernel.number < 8) << kernel.name;
  }
  EXPECT_EQ(previous, 11);
  EXPECT_EQ(all_kernels().size(), 10u);
  for (const KernelPass pass : {KernelPass::forward, KernelPass::backward})
    for (const Kernel& kernel : kernels_of(pass)) EXPECT_EQ(kernel.pass(), pass) << kernel.name;
}

// 01-04 and 08 take f32 up to 256, the others halves of 64, 128, and 192 with V of 128.
TEST(KernelTable, TakesWhatTheLadderPromises) {
  for (const Kernel& kernel : all_kernels()) {
    const auto takes = [&](DType dtype, HeadDims dims) {
      return refusal(kernel.limits, 90, dtype, dims).empty();
    };
    const bool f32 = kernel.number <= 4 || kernel.number == 8;
    for (const int head_dim : {1, 64, 100, 128, 256})
      EXPECT_EQ(takes(DType::f32, head_dim), f32) << kernel.name << " head_dim " << head_dim;
    for (const HeadDims& dims : kHalfHeadDims)
      for (const DType dtype : {DType::bf16, DType::f16})
        EXPECT_EQ(takes(dtype, dims), !f32) << kernel.name;
    for (const HeadDims& dims : {HeadDims(192), HeadDims(128, 192), HeadDims(128, 64)})
      EXPECT_FALSE(takes(DType::bf16, dims)) << kernel.name;
    EXPECT_EQ(takes(DType::f32, {7, 256}), f32) << kernel.name;
    EXPECT_FALSE(takes(DType::f32, {64, 257})) << kernel.name;
    EXPECT_FALSE(takes(DType::f32, 257)) << kernel.name;
    EXPECT_FALSE(takes(DType::bf16, 0)) << kernel.name;
  }
}

TEST(KernelTable, RefusesWithReasons) {
  const KernelLimits f32{}, hopper{.half = true, .hopper = true}, ampere{.half = true};
  EXPECT_EQ(refusal(f32, 80, DType::f32, 256), "");
  EXPECT_EQ(refusal(f32, 80, DType::f32, 257), "takes head_dim 1 to 256, not 257");
  EXPECT_EQ(refusal(f32, 80, DType::f32, 0), "takes head_dim 1 to 256, not 0");
  EXPECT_EQ(refusal(f32, 80, DType::bf16, 64), "takes f32, not bf16");
  EXPECT_EQ(refusal(f32, 75, DType::f32, 64),
            "needs compute capability 8.0 or later, the device has 7.5");
  EXPECT_EQ(refusal(hopper, 90, DType::f16, 64), "");
  EXPECT_EQ(refusal(hopper, 100, DType::bf16, 128),
            "needs compute capability 9.0 alone, the device has 10.0");
  EXPECT_EQ(refusal(hopper, 80, DType::f32, 96),
            "takes bf16 and f16, not f32; takes head_dim 64, 128 and 192 (V 128), not 96; "
            "needs compute capability 9.0 alone, the device has 8.0");
  EXPECT_EQ(refusal(kRungLimits, 90, DType::bf16, 128), "");
  EXPECT_EQ(refusal(kRungLimits, 90, DType::f16, 64),
            "takes bf16, not f16; takes head_dim 128, not 64");
  EXPECT_EQ(refusal(ampere, 120, DType::bf16, 64), "");
  EXPECT_EQ(refusal(ampere, 80, DType::bf16, {192, 64}),
            "takes head_dim 64, 128 and 192 (V 128), not 192 (V 64)");
  EXPECT_EQ(refusal(ampere, 75, DType::bf16, 64),
            "needs compute capability 8.0 or later, the device has 7.5");
}

TEST(KernelTable, NamesTheKernelsThatTakeAProblem) {
  const auto kernels_of_gpu = [](KernelPass pass, int architecture, DType dtype, int head_dim) {
    DeviceInfo device;
    device.architecture = architecture;
    device.shared_bytes = (architecture == 90 ? 227 : architecture == 80 ? 163 : 99) << 10;
    return kernels_that_take(pass, device, dtype, head_dim);
  };
  EXPECT_EQ(kernels_of_gpu(KernelPass::forward, 90, DType::bf16, 300), "none");
  EXPECT_EQ(kernels_of_gpu(KernelPass::backward, 80, DType::f32, 64), "08 backward_tiled");
  const std::string on_hopper = kernels_of_gpu(KernelPass::forward, 90, DType::bf16, 128);
  EXPECT_NE(on_hopper.find("05 tensor_cores"), std::string::npos) << on_hopper;
  EXPECT_NE(on_hopper.find("06 hopper"), std::string::npos) << on_hopper;
  const std::string on_ampere = kernels_of_gpu(KernelPass::forward, 80, DType::bf16, 128);
  EXPECT_EQ(on_ampere.find("06"), std::string::npos) << on_ampere;
  EXPECT_EQ(kernels_of_gpu(KernelPass::forward, 89, DType::f32, 256),
            "01 naive, 02 online_softmax, 04 register_tiles");
  EXPECT_EQ(kernels_of_gpu(KernelPass::forward, 80, DType::f32, 256),
            "01 naive, 02 online_softmax, 03 shared_tiles, 04 register_tiles");
}

TEST(KernelTable, VerifiedRunsAreOfKernelsThatExist) {
  for (const VerifiedRun& run : verified_runs()) {
    EXPECT_GE(run.number, 1);
    EXPECT_LE(run.number, 11);
    EXPECT_NE(verified(run.number).find(std::string(run.commit)), std::string::npos);
  }
  EXPECT_EQ(verified(99), "not run on a GPU");
}

#ifdef RINGSCOPE_SOURCE_DIR
TEST(KernelTable, StandsInThePage) {
  const std::filesystem::path page = std::filesystem::path(RINGSCOPE_SOURCE_DIR) / "cuda/README.md";
  if (!std::filesystem::exists(page)) GTEST_SKIP() << "the source tree is not on this machine";
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  const std::string begin = "<!-- kernels -->\n", end = "<!-- /kernels -->";
  const std::size_t from = text.str().find(begin);
  const std::size_t to = text.str().find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to)
      << "cuda/README.md has no place between " << begin << "and " << end;
  EXPECT_EQ(text.str().substr(from + begin.size(), to - from - begin.size()),
            kernel_table_markdown())
      << "cuda/README.md's table is to be as the right-hand side has it";
}
#endif

// More tiles than a grid's second and third dimensions take.
TEST(Grids, TakeAsManyTilesAsRowsAreAdmitted) {
  const int tiles = (1 << 30) / 64;
  const dim3 grid = TileAndHead::grid(tiles, 64, 3);
  EXPECT_EQ(grid.x, 64u * static_cast<unsigned>(tiles));
  EXPECT_EQ(grid.y, 3u);
  EXPECT_EQ(grid.z, 1u);
  const auto [tile, head] = TileAndHead::of(grid.x - 1, 64);
  EXPECT_EQ(tile, tiles - 1);
  EXPECT_EQ(head, 63);
}

// The largest steps, whose tiles and items are numbered in 32 bits, and the first beyond them. No
// memory holds them, so their intervals are empty, and only the refusal is met.
TEST(Grids, RefuseMoreThanTheyCanNumber) {
#ifdef RINGSCOPE_MODEL
  model::set_device_count(0);  // what needs no device is refused without one
  const std::shared_ptr<void> reset(nullptr, [](void*) { model::reset_device(); });
#endif
  for (const Kernel& kernel : all_kernels()) {
    const DType dtype = kernel.limits.half ? DType::bf16 : DType::f32;
    const auto refused = [&](int batch, int heads, int rows) {
      ForwardStep forward{.shape = {batch, heads, 1, rows, 0, 64}, .first = true, .last = true};
      BackwardStep backward{.shape = forward.shape};
      const std::string said = input_error_of([&] {
        kernel.launch_forward != nullptr ? kernel.launch(forward, dtype, 0, nullptr)
                                         : kernel.launch(backward, dtype, 0, nullptr);
      });
      return said.find("a grid's limit") != std::string::npos;
    };
    EXPECT_TRUE(refused(1, 64, 1 << 30)) << kernel.name;
    EXPECT_TRUE(refused(64, 1, 1 << 30)) << kernel.name;
    EXPECT_TRUE(refused(65536, 1, 1)) << kernel.name;
    EXPECT_TRUE(refused(1, 65536, 1)) << kernel.name;
  }
  // At the edge every item of 07 has a number, and so has the round after the last.
  const PersistentOrder items = PersistentOrder::of((1 << 30) / 128, 32, 4);
  EXPECT_EQ(items.items, 1 << 28);
  const PersistentItem last = items.at(items.items - 1, nullptr);
  EXPECT_EQ(last.row_tile, 0);
  EXPECT_EQ(last.matrix, 31);
  EXPECT_GE(item_of(0, 132, rounds_of(items.items, 132)), items.items);
}

// What gpu-check calls shape classes: the kernel's dtypes and head_dims, all kinds of masks and
// partitions, lengths that no tile divides, grouped heads. The host model and tools that slow a GPU
// down a hundredfold get a taste of it.
std::vector<StepCase> shape_classes(const KernelLimits& limits, int tiles) {
#ifdef RINGSCOPE_MODEL
  const bool small = true;
#else
  const bool small = std::getenv("RINGSCOPE_SMALL_TESTS") != nullptr;
#endif
  const std::vector<DType> dtypes =
      limits.half ? std::vector{DType::bf16, DType::f16} : std::vector{DType::f32};
  const std::vector<HeadDims> head_dims =
      limits.half ? std::vector<HeadDims>{std::begin(kHalfHeadDims), std::end(kHalfHeadDims)}
                  : std::vector<HeadDims>{33, 64, 128};
  constexpr const char* kMasks[] = {"causal", "full", "causal+window:100", "prefix:77"};
  constexpr PartitionKind kPartitions[] = {PartitionKind::zigzag, PartitionKind::contiguous,
                                           PartitionKind::striped, PartitionKind::fold};
  std::vector<StepCase> cases;
  for (const DType dtype : dtypes)
    for (const HeadDims& dims : head_dims)
      for (const Index seqlen :
           small ? std::vector<Index>{45} : std::vector<Index>{389, 300, 701}) {
        const auto n = static_cast<int>(cases.size());
        StepCase c;
        c.heads = small ? 2 : 4;
        c.heads_kv = c.heads / 2;
        c.seqlen = seqlen;
        c.head_dim = static_cast<int>(dims.keys);
        if (dims.keys != dims.values) c.head_dim_v = static_cast<int>(dims.values);
        c.mask = kMasks[n % 4];
        c.partition = kPartitions[n / 4 % 4];
        c.world_size = 1 + n % 3;
        c.dtype = dtype;
        c.tile = n % tiles;
        c.seed = static_cast<std::uint64_t>(n) + 1;
        cases.push_back(c);
      }
  return cases;
}

// One test a kernel; gpu-check reads from them which kernels may be called verified.
class EveryKernel : public testing::TestWithParam<Kernel> {};

TEST_P(EveryKernel, IsRightOnEveryShapeClass) {
  const Kernel& kernel = GetParam();
  RecordProperty("kernel", kernel.number);
  if (skip_without_device(kernel.limits)) return;
  for (const StepCase& c : shape_classes(kernel.limits, static_cast<int>(kernel.tiles.size())))
    expect_matches_oracle(kernel, c);
}

INSTANTIATE_TEST_SUITE_P(Ladder, EveryKernel, testing::ValuesIn(all_kernels()),
                         [](const auto& one) {
                           return (one.param.number < 10 ? "0" : "") +
                                  std::to_string(one.param.number);
                         });

}  // namespace
}  // namespace ringscope::cuda
