// As numbered_barriers.h, for the Hopper kernels: everything by which threads, copies and products
// wait for each other is numbered, in hopper_tile.h and in the kernel's file, and left out one at a
// time.
//
//   #define RINGSCOPE_NUMBERED(name) name##InSome  // so that each file has its own versions
//   #include "tests/cuda_model/numbered_hopper_barriers.h"
//   #define some_kernel some_kernel_with_numbered_barriers
//   constexpr int kFirstBarrier = __COUNTER__ + 1;
//   #include "cuda/kernels/NN_some.cu"
//   constexpr int kBarriers = __COUNTER__ - kFirstBarrier;
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <exception>
#include <set>

#include "cuda/base/launch.h"
#include "cuda/base/shared_memory.h"
#include "cuda/base/tensor_map.h"
#include "cuda/kernels/hopper_layout.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/persistent_schedule.h"
#include "cuda/kernels/row_state.h"
#include "cuda/model/runtime.h"
#include "cuda/model/simt.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/numbers.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

int left_out = -1;     // number of the one that is not there
int swapped = -1;      // number of the wait that waits for the other parity
bool swizzled = true;  // what the copy engine is told
std::set<int> waits;   // numbers of all waits for a phase that were met

TensorMap numbered_tensor_map(const void* tensor, std::int64_t matrices, std::int64_t rows,
                              int head_dim, int box_rows) {
  TensorMap map = make_tensor_map(tensor, matrices, rows, head_dim, box_rows);
  if (!swizzled) map.swizzle_bytes = 0;
  return map;
}

void block_barrier_but_one(int number) {
  if (number != left_out) __syncthreads();
}
void warp_barrier_but_one(int number) {
  if (number != left_out) __syncwarp();
}

}  // namespace

namespace ptx {
namespace {

void wait_but_one(int number, Barrier& barrier, std::uint32_t parity) {
  waits.insert(number);
  if (number != left_out) barrier_wait(barrier, number == swapped ? parity ^ 1 : parity);
}
void arrive_but_one(int number, Barrier& barrier) {
  if (number != left_out) barrier_arrive(barrier);
}
void proxy_fence_but_one(int number) {
  if (number != left_out) fence_proxy_async();
}
void product_fence_but_one(int number) {
  if (number != left_out) wgmma_fence();
}
template <int kNumber>
struct ButOne {
  template <int kPending>
  static void wait() {
    if (kNumber != left_out) wgmma_wait<kPending>();
  }
};

}  // namespace
}  // namespace ptx

namespace {

// Whether a ring with `kernel` gives wrong numbers, or an error, under some schedule.
bool found_wrong(const ForwardKernel& kernel, const StepCase& tested, const Tensors<float>& in,
                 const ExactForward& exact) {
  for (const auto order : {model::ThreadOrder::ascending, model::ThreadOrder::descending,
                           model::ThreadOrder::shuffled})
    for (const bool async_late : {true, false}) {
      model::set_schedule({order, async_late, 5});
      testing::TestPartResultArray failures;
      ForwardRun run;
      try {
        const testing::ScopedFakeTestPartResultReporter taken_down(&failures);
        run = run_forward(kernel, tested, in);
      } catch (const std::exception&) {
        model::reset_device();
        return true;
      }
      // f16 rounds P to 2^-11 of itself.
      const bool right = max_abs_error(run.out, exact.out) <= 4e-3 &&
                         max_abs_error(run.lse, exact.lse) <= 4e-3 && failures.size() == 0;
      if (!right) return true;
    }
  return false;
}

// Leaves out each of `barriers` in turn, swaps the parity of each wait, and takes the swizzle away,
// but for those of `not_tried`. Those of `not_missed` may be
// left out on the model.
void expect_barriers_are_missed(const ForwardKernel& kernel, int barriers,
                                const std::set<int>& not_missed,
                                const std::set<int>& not_tried = {}) {
  // A negative scale changes Q's signs in shared memory; two steps carry state; and three key tiles
  // come round to the first of two buffers again.
  StepCase tested{.heads = 1, .seqlen = 560, .head_dim = 128, .mask = "causal"};
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  tested.dtype = DType::f16;
  tested.score_deviation = -1;
  const Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
  const ExactForward exact = exact_forward(tested, in);
  ASSERT_GT(barriers, 0);
  left_out = -1;
  EXPECT_FALSE(found_wrong(kernel, tested, in, exact)) << "with all of them";
  for (left_out = 0; left_out < barriers; ++left_out) {
    if (not_tried.contains(left_out)) continue;
    EXPECT_EQ(found_wrong(kernel, tested, in, exact), !not_missed.contains(left_out))
        << "without number " << left_out;
  }
  left_out = -1;
  for (const int number : std::set<int>(waits)) {
    swapped = number;
    EXPECT_EQ(found_wrong(kernel, tested, in, exact), !(not_missed.contains(number) && number != 0))
        << "number " << number << " with the other parity";
  }
  swapped = -1;
  swizzled = false;
  EXPECT_TRUE(found_wrong(kernel, tested, in, exact)) << "not swizzled";
  swizzled = true;
  model::set_schedule({});
}

}  // namespace
}  // namespace ringscope::cuda

#define RINGSCOPE_NEXT (__COUNTER__ - kFirstBarrier)
#define __syncthreads() block_barrier_but_one(RINGSCOPE_NEXT)
#define __syncwarp() warp_barrier_but_one(RINGSCOPE_NEXT)
#define barrier_wait(barrier, parity) wait_but_one(RINGSCOPE_NEXT, barrier, parity)
#define barrier_arrive(barrier) arrive_but_one(RINGSCOPE_NEXT, barrier)
#define make_tensor_map numbered_tensor_map
#define fence_proxy_async() proxy_fence_but_one(RINGSCOPE_NEXT)
#define wgmma_fence() product_fence_but_one(RINGSCOPE_NEXT)
#define wgmma_wait ButOne<RINGSCOPE_NEXT>::template wait
// What hopper_tile.h defines otherwise than the kernels' own objects have it gets other names.
#define HopperConfig RINGSCOPE_NUMBERED(HopperConfig)
#define HopperStorage RINGSCOPE_NUMBERED(HopperStorage)
#define HopperRows RINGSCOPE_NUMBERED(HopperRows)
#define release RINGSCOPE_NUMBERED(release)
