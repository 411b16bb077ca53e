// Compiles a kernel's file once more, with its barriers numbered in the order in which they stand
// in the text, so that one at a time can be left out:
//
//   #include <everything that the file includes>
//   #include "tests/cuda_model/numbered_barriers.h"
//   #define some_kernel some_kernel_with_numbered_barriers     // its entry in the kernel table
//   namespace ringscope::cuda { const ForwardKernel& some_kernel_with_numbered_barriers(); }
//   constexpr int kFirstBarrier = __COUNTER__ + 1;
//   #include "cuda/kernels/NN_some.cu"
//   constexpr int kBarriers = __COUNTER__ - kFirstBarrier;
//
// expect_every_barrier_is_missed() then shows that no barrier is one too many, and that the model
// finds each that is missing.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <exception>
#include <string>

#include "cuda/model/runtime.h"
#include "cuda/model/simt.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

int left_out = -1;  // number of the barrier that is not there

void block_barrier_but_one(int number) {
  if (number != left_out) __syncthreads();
}
[[maybe_unused]] void warp_barrier_but_one(int number) {
  if (number != left_out) __syncwarp();
}

// Whether a ring with `kernel` gives wrong numbers, or an error, under some order of threads.
bool found_wrong(const ForwardKernel& kernel, const StepCase& tested, const Tensors<float>& in) {
  const ExactForward exact = exact_forward(tested, in);
  for (const auto order : {model::ThreadOrder::ascending, model::ThreadOrder::descending,
                           model::ThreadOrder::shuffled}) {
    model::set_schedule({.order = order});
    testing::TestPartResultArray failures;
    ForwardRun run;
    try {
      const testing::ScopedFakeTestPartResultReporter taken_down(&failures);
      run = run_forward(kernel, tested, in);
    } catch (const std::exception&) {
      model::reset_device();
      return true;
    }
    const bool right = max_abs_error(run.out, exact.out) <= 1e-4 &&
                       max_abs_error(run.lse, exact.lse) <= 1e-4 && failures.size() == 0;
    if (!right) return true;
  }
  return false;
}

[[maybe_unused]] void expect_every_barrier_is_missed(const ForwardKernel& kernel, int barriers) {
  StepCase tested{.heads = 1, .seqlen = 140, .head_dim = 40, .mask = "causal"};
  tested.partition = PartitionKind::striped;
  tested.world_size = 2;
  const Tensors<float> in = random_tensors(tested.shape(), tested.seed);
  ASSERT_GT(barriers, 0);
  left_out = -1;
  EXPECT_FALSE(found_wrong(kernel, tested, in)) << "with all its barriers";
  for (left_out = 0; left_out < barriers; ++left_out)
    EXPECT_TRUE(found_wrong(kernel, tested, in)) << "without barrier " << left_out;
  left_out = -1;
  model::set_schedule({});
}

}  // namespace
}  // namespace ringscope::cuda

#define __syncthreads() block_barrier_but_one(__COUNTER__ - kFirstBarrier)
#define __syncwarp() warp_barrier_but_one(__COUNTER__ - kFirstBarrier)
