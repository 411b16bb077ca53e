// Compiles a kernel's file once more, with everything by which its threads, copies and products
// wait for each other numbered in the order in which it stands in the text, so that one at a time
// can be left out:
//
//   #include "tests/cuda_emulator/mutants.h"
//   namespace ringscope::cuda { extern const Kernel some_mutant; }
//   #define some_kernel some_mutant  // its entry in the kernel table
//   #include "cuda/kernels/NN_some.cu"
//   constexpr int kNumbered = __COUNTER__ - kFirst;
// Of a kernel of bf16 and f16, only the head_dim RINGSCOPE_TESTED_DIM and 192 (V 128) are compiled, if
// that is defined before.
//
// Mutants::expect_all_found() then shows that none of them is one too many, and that the model
// finds each that is missing. The headers that a kernel includes are not changed, but for forward_rows.h,
// hopper_tile.h and overlapped_tile.h, which take part where RINGSCOPE_NUMBERED is defined before:
// RINGSCOPE_NUMBERED(name) is name##InSome, so that each file has its own version of what they define.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "cuda/base/launch.h"
#include "cuda/base/tensor_map.h"
#include "cuda/emulator/runtime.h"
#include "cuda/emulator/simt.h"
#include "cuda/kernels/backward_rows.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/mma_tile.h"
#include "cuda/kernels/one_pass.h"
#include "cuda/kernels/persistent_schedule.h"
#include "cuda/kernels/row_state.h"
#include "cuda/kernels/warpgroup.h"
#include "cuda/ptx/handover.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/tma.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

int left_out = -1;     // number of the one that is not there
int swapped = -1;      // number of the wait that waits for the other parity
bool swizzled = true;  // what the copy engine, or the kernel's own copies, know
std::set<int> waits;   // numbers of all waits for a phase that were met

// One head, with a softmax_scale that changes Q's signs.
[[maybe_unused]] StepCase causal_case(Index seqlen, DType dtype) {
  StepCase c{.heads = 1, .seqlen = seqlen, .head_dim = 128, .mask = "causal", .dtype = dtype};
  c.score_deviation = -1;
  return c;
}

[[maybe_unused]] TensorMap mutated_tensor_map(const void* tensor, std::int64_t matrices,
                                              std::int64_t rows, int head_dim, int box_rows,
                                              int element_bytes = 2) {
  TensorMap map = make_tensor_map(tensor, matrices, rows, head_dim, box_rows, element_bytes);
  if (!swizzled) map.swizzle_bytes = 0;
  return map;
}

template <int Columns, int Rows, int Threads, class Element>
void copy_rows_async_mutated(Element* tile, const Element* matrix, int row, int valid_first,
                             int valid_last, int thread) {
  if (swizzled)
    return copy_rows_async<Columns, Rows, Threads>(tile, matrix, row, valid_first, valid_last,
                                                   thread);
  for (int i = thread; i < Rows * Columns / kChunkValues; i += Threads) {
    const int from = row + i * kChunkValues / Columns;
    ptx::cp_async_16(tile + i * kChunkValues,
                     matrix + static_cast<std::ptrdiff_t>(row) * Columns + i * kChunkValues,
                     valid_first <= from && from < valid_last);
  }
}

#ifdef RINGSCOPE_TESTED_DIM
template <class F>
void visit_tested_instance(DType dtype, HeadDims dims, F&& f) {
  constexpr std::integral_constant<int, RINGSCOPE_TESTED_DIM> tested;
  const auto with_element = [&](auto element) {
    dims == HeadDims(192, 128)
        ? f(element, std::integral_constant<int, 192>{}, std::integral_constant<int, 128>{})
        : f(element, tested, tested);
  };
  dtype == DType::bf16 ? with_element(bf16{}) : with_element(f16{});
}
#define visit_half_instance visit_tested_instance
#endif

template <int kNumber>
struct Numbered {
  static void block_barrier() {
    if (kNumber != left_out) __syncthreads();
  }
  static void warp_barrier() {
    if (kNumber != left_out) __syncwarp();
  }
};

}  // namespace

namespace ptx {
namespace {

template <int kNumber>
struct Numbered {
  static void wait(Barrier& barrier, std::uint32_t parity) {
    waits.insert(kNumber);
    if (kNumber != left_out) barrier_wait(barrier, kNumber == swapped ? parity ^ 1 : parity);
  }
  static void arrive(Barrier& barrier) {
    if (kNumber != left_out) barrier_arrive(barrier);
  }
  static void proxy_fence() {
    if (kNumber != left_out) fence_proxy_async();
  }
  static void addition_wait_read() {
    if (kNumber != left_out) bulk_wait_read();
  }
  static void addition_wait() {
    if (kNumber != left_out) bulk_wait();
  }
  static void turn_wait(const int* turn, int value) {
    if (kNumber != left_out) await_memory_turn(turn, value);
  }
  static void turn_pass(int* turn, int value) {
    if (kNumber != left_out) pass_memory_turn(turn, value);
  }
  static void turn_count(int* count) {
    if (kNumber != left_out) count_memory_turn(count);
  }
  static void memory_fence() {
    if (kNumber != left_out) fence_proxy_async_global();
  }
  static void meeting(int id, int threads) {
    if (kNumber != left_out) named_barrier_sync(id, threads);
  }
  static void init_fence() {
    if (kNumber != left_out) fence_barrier_init();
  }
  static void product_fence() {
    if (kNumber != left_out) wgmma_fence();
  }
  template <int kPending>
  static void product_wait() {
    if (kNumber != left_out) wgmma_wait<kPending>();
  }
  template <int kPending>
  static void copy_wait() {
    if (kNumber != left_out) cp_async_wait<kPending>();
  }
};

}  // namespace
}  // namespace ptx

namespace {

// A kernel and its copy that can be mutated, on one problem.
class Mutants {
 public:
  using Outputs = std::vector<std::vector<float>>;

  Mutants(const std::function<Outputs()>& right, std::function<Outputs()> mutated)
      : mutated_(std::move(mutated)), right_(right()) {}
  Mutants(const Kernel& kernel, const Kernel& mutated, const StepCase& tested)
      : Mutants(run_of(kernel, tested), run_of(mutated, tested)) {}
  ~Mutants() { model::set_schedule({}); }

  // Whether the mutated kernel gives an error, or other bits, under some schedule.
  bool is_wrong() const {
    for (const auto order : {model::ThreadOrder::ascending, model::ThreadOrder::descending,
                             model::ThreadOrder::shuffled})
      for (const bool async_late : {true, false}) {
        model::set_schedule({order, async_late, 5});
        testing::TestPartResultArray failures;
        try {
          const testing::ScopedFakeTestPartResultReporter taken_down(&failures);
          if (mutated_() == right_ && failures.size() == 0) continue;
        } catch (const std::exception&) {
          model::reset_device();
        }
        return true;
      }
    return false;
  }

  // Leave out each of `count` in turn but those of `not_found`, which the model does without, and
  // swap the parity of each wait.
  void expect_all_found(int count, const std::set<int>& not_found = {}) const {
    ASSERT_GT(count, 0);
    EXPECT_FALSE(is_wrong()) << "with all of them";
    for (left_out = 0; left_out < count; ++left_out)
      EXPECT_TRUE(not_found.contains(left_out) || is_wrong()) << "without number " << left_out;
    left_out = -1;
    for (const int number : std::set<int>(waits)) {
      swapped = number;
      EXPECT_TRUE(is_wrong()) << "number " << number << " with the other parity";
    }
    swapped = -1;
  }
  void expect_swizzle_needed() const {
    swizzled = false;
    EXPECT_TRUE(is_wrong()) << "not swizzled";
    swizzled = true;
  }

 private:
  static std::function<Outputs()> run_of(const Kernel& kernel, const StepCase& tested) {
    return [kernel, tested, in = inputs_of(tested)]() -> Outputs {
      if (kernel.pass() == KernelPass::forward) {
        ForwardRun done = run_forward(kernel, tested, in);
        return {std::move(done.out), std::move(done.lse)};
      }
      BackwardRun done = run_backward(kernel, tested, in);
      return {std::move(done.dq), std::move(done.dk), std::move(done.dv)};
    };
  }

  std::function<Outputs()> mutated_;
  Outputs right_;
};

}  // namespace
}  // namespace ringscope::cuda

constexpr int kFirst = __COUNTER__ + 1;
#define RINGSCOPE_NEXT Numbered<__COUNTER__ - kFirst>
#define __syncthreads() RINGSCOPE_NEXT::block_barrier()
#define __syncwarp() RINGSCOPE_NEXT::warp_barrier()
#define barrier_wait RINGSCOPE_NEXT::wait
#define barrier_arrive RINGSCOPE_NEXT::arrive
#define fence_proxy_async RINGSCOPE_NEXT::proxy_fence
#define wgmma_fence RINGSCOPE_NEXT::product_fence
#define wgmma_wait RINGSCOPE_NEXT::template product_wait
#define cp_async_wait RINGSCOPE_NEXT::template copy_wait
#define make_tensor_map mutated_tensor_map
#define copy_rows_async copy_rows_async_mutated
#define bulk_wait_read RINGSCOPE_NEXT::addition_wait_read
#define bulk_wait RINGSCOPE_NEXT::addition_wait
#define await_memory_turn RINGSCOPE_NEXT::turn_wait
#define pass_memory_turn RINGSCOPE_NEXT::turn_pass
#define count_memory_turn RINGSCOPE_NEXT::turn_count
#define fence_proxy_async_global RINGSCOPE_NEXT::memory_fence
#define named_barrier_sync RINGSCOPE_NEXT::meeting
#define fence_barrier_init RINGSCOPE_NEXT::init_fence
#ifdef RINGSCOPE_NUMBERED
#define HopperConfig RINGSCOPE_NUMBERED(HopperConfig)
#define ForwardRows RINGSCOPE_NUMBERED(ForwardRows)
#define HopperStorage RINGSCOPE_NUMBERED(HopperStorage)
#define HopperRows RINGSCOPE_NUMBERED(HopperRows)
#define release RINGSCOPE_NUMBERED(release)
#endif
