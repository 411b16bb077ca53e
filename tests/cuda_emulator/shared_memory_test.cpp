// On a device whose blocks may have less shared memory, every kernel has a tile that fits, or says
// that it has none.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "cuda/emulator/runtime.h"
#include "cuda/ring/rank_kernels.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

// As the RTX 3090 and 4090 have it, and the L40S.
constexpr int kSmall = 99 * 1024;

class SharedMemory : public testing::Test {
 protected:
  void SetUp() override { model::set_shared_memory(kSmall); }
  void TearDown() override { model::reset_device(); }
};

void expect_refused(const Kernel& kernel, const StepCase& tested) {
  const Tensors<float> in = random_tensors(tested.shape(), 1, tested.dtype);
  const auto run = [&] {
    kernel.pass() == KernelPass::forward ? static_cast<void>(run_forward(kernel, tested, in))
                                         : static_cast<void>(run_backward(kernel, tested, in));
  };
  EXPECT_THROW(run(), InputError) << kernel.name;
}

TEST_F(SharedMemory, EveryKernelFitsOrSaysThatItDoesNot) {
  DeviceInfo device = *query_device().device;
  EXPECT_EQ(device.shared_bytes, std::size_t{kSmall});
  device.architecture = 89;
  for (const Kernel& kernel : all_kernels()) {
    if (kernel.limits.hopper) continue;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const int head_dim : {64, 128, 256}) {
        if (!refusal(kernel.limits, 89, dtype, head_dim).empty()) continue;
        const int tile = kernel.tile_for(head_dim, device.shared_bytes);
        EXPECT_EQ(tile < 0, kernel.number == 3 && head_dim == 256) << kernel.name;
        StepCase tested{.heads = 1, .seqlen = 70, .head_dim = head_dim, .mask = "causal"};
        tested.dtype = dtype;
        tested.tile = tile < 0 ? 0 : tile;
        if (tile >= 0) {
          expect_matches_oracle(kernel, tested);
          continue;
        }
        EXPECT_NE(refusal(kernel, device, dtype, head_dim).find("shared memory"),
                  std::string::npos);
        expect_refused(kernel, tested);
      }
  }
}

// The largest tiles, which other devices get, are refused before anything runs.
TEST_F(SharedMemory, TilesThatDoNotFitAreRefused) {
  for (const Kernel* const kernel :
       {&register_tiles_kernel, &backward_tiled_kernel, &backward_tensor_cores_kernel}) {
    StepCase tested{.heads = 1, .seqlen = 10, .head_dim = kernel->limits.half ? 128 : 256};
    if (kernel->limits.half) tested.dtype = DType::bf16;
    EXPECT_EQ(kernel->tile_for(tested.head_dim, kSmall), 1) << kernel->name;
    EXPECT_EQ(kernel->tile_for(tested.head_dim, 163 * 1024), 0) << kernel->name;
    expect_refused(*kernel, tested);
  }
  EXPECT_EQ(tensor_cores_kernel.tile_for({192, 128}, kSmall), 1);
  EXPECT_EQ(backward_tensor_cores_kernel.tile_for({192, 128}, kSmall), -1);
  EXPECT_EQ(backward_tensor_cores_kernel.tile_for({192, 128}, 163 * 1024), 1);
}

// A run takes the kernels, and the tiles, that the device has room for.
TEST_F(SharedMemory, RunsGetKernelsThatFit) {
  DeviceInfo device = *query_device().device;
  device.architecture = 89;
  const auto chosen = [&](DType dtype, int head_dim) {
    return choose_kernels({}, device, dtype, head_dim, true);
  };
  EXPECT_EQ(chosen(DType::f32, 256).forward->number, 4);
  EXPECT_EQ(chosen(DType::f32, 256).forward_tile, 1);
  EXPECT_EQ(chosen(DType::f32, 256).backward_tile, 1);
  EXPECT_EQ(chosen(DType::f32, 64).backward_tile, 0);
  EXPECT_EQ(chosen(DType::bf16, 128).forward->number, 5);
  EXPECT_EQ(chosen(DType::bf16, 128).backward->number, 9);
  EXPECT_EQ(chosen(DType::bf16, 128).backward_tile, 1);
}

}  // namespace
}  // namespace ringscope::cuda
