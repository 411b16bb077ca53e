// The model's runtime: memory, errors, launches, and what it says of its device.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

#include "cuda/emulator/runtime.h"
#include "cuda/kernels/step_problem.h"
#include "tests/cuda/ring_step_harness.h"
#include "tests/cuda_emulator/runtime_harness.h"

namespace ringscope::cuda::model {
namespace {

void add_one(int* values, int count, float) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += 1;
}

void half_a_barrier(int) {
  if (threadIdx.x < 16) __syncthreads();
}

void uses_shared() { shared_bytes()[shared_size() - 1] = 1; }

TEST_F(Runtime, AllocationsArePoisonedAlignedAndCounted) {
  char *device = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 1000), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 10), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device) % 256, 0u);
  EXPECT_EQ(std::vector<char>(device, device + 1000), std::vector<char>(1000, '\xff'));
  EXPECT_EQ(std::vector<char>(pinned, pinned + 10), std::vector<char>(10, '\xff'));
  EXPECT_EQ(live_allocations(), 2u);
  EXPECT_EQ(device_bytes(), 1000u);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(live_allocations(), 0u);
  EXPECT_EQ(device_bytes(), 0u);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  char* none = reinterpret_cast<char*>(1);
  EXPECT_EQ(cudaMalloc(&none, 0), cudaSuccess);
  EXPECT_EQ(none, nullptr);
}

TEST_F(Runtime, WrongFreesAreErrors) {
  char *device = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 100), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  EXPECT_EQ(cudaFree(device + 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue) << "twice";
  EXPECT_NE(last_fault(), "");
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Runtime, MemoryThatQueuedWorkNamesIsNotFreed) {
  int *from = nullptr, *to = nullptr, *host = nullptr;
  ASSERT_EQ(cudaMalloc(&from, 64), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&to, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&host, 64), cudaSuccess);
  const cudaStream_t stream = new_stream();
  ASSERT_EQ(cudaMemcpyAsync(to, from, 64, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host, to, 64, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(cudaFree(from), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "a queued cudaMemcpyAsync", last_fault());
  EXPECT_EQ(cudaFreeHost(host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(from), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
  // A kernel names what its arguments point into.
  EXPECT_EQ(launch(add_one, 1, 32, 0, stream, to + 3, 13, 1.0f), cudaSuccess);
  EXPECT_EQ(cudaFree(to), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "a queued kernel", last_fault());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(to), cudaSuccess);
}

TEST_F(Runtime, CopiesAndFillsStayWithinAllocations) {
  char *device = nullptr, *other = nullptr, *pinned = nullptr;
  char host[64];
  ASSERT_EQ(cudaMalloc(&device, 64), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&other, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  const auto copy = [](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    const cudaError_t blocking = cudaMemcpy(to, from, bytes, kind);
    EXPECT_EQ(cudaMemcpyAsync(to, from, bytes, kind, nullptr), blocking);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return blocking;
  };
  EXPECT_EQ(copy(device, host, 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(device + 1, host, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host, device + 1, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device - 1, host, 2, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(pinned, device, 65, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device, host, 64, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device, other, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device, other, 64, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(copy(device, device + 32, 33, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue)
      << "overlap";
  EXPECT_EQ(copy(device, device + 32, 32, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(copy(nullptr, nullptr, 0, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaMemset(device, 0, 65), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host, 0, 64), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device + 60, 0, 5, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device, 0, 64), cudaSuccess);
}

TEST_F(Runtime, RunsOutOfMemory) {
  set_memory_limit(1000);
  char *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 600), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 401), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not sticky";
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 400u);
  EXPECT_EQ(total, 1000u);
  EXPECT_EQ(cudaMalloc(&second, 400), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&first, 600), cudaSuccess);
}

TEST_F(Runtime, LaunchesKernelsWithCopiesOfTheirArguments) {
  int* const values = new_memory<int>(100);
  ASSERT_EQ(cudaMemset(values, 0, 100 * sizeof(int)), cudaSuccess);
  int count = 70;
  EXPECT_EQ(launch(add_one, 4, 32, 0, nullptr, values, count, 0), cudaSuccess);
  count = 100;
  EXPECT_EQ(pending_operations(), 2u) << "nothing runs before somebody waits";
  std::vector<int> host(100, -1);
  EXPECT_EQ(cudaMemcpy(host.data(), values, 400, cudaMemcpyDeviceToHost), cudaSuccess);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(host[i], i < 70 ? 1 : 0);
}

TEST_F(Runtime, LaunchesThatNoDeviceTakes) {
  const auto status = [](dim3 grid, dim3 block, std::size_t shared) {
    const cudaError_t result = launch(uses_shared, grid, block, shared, nullptr);
    EXPECT_EQ(cudaGetLastError(), result);
    return result;
  };
  for (const auto& [grid, block] : {std::pair<dim3, dim3>{0, 32},
                                    {1, 0},
                                    {1, 1025},
                                    {1, dim3(1, 1, 65)},
                                    {dim3(1, 65536), 32},
                                    {dim3(1, 1, 65536), 32}})
    EXPECT_EQ(status(grid, block, 8), cudaErrorInvalidConfiguration);
  EXPECT_EQ(status(dim3(1, 2), dim3(16, 1, 64), 8), cudaSuccess);
  EXPECT_EQ(status(1, 32, 48 * 1024), cudaSuccess);
  EXPECT_EQ(status(1, 32, 48 * 1024 + 1), cudaErrorInvalidValue) << "not asked for";
  const auto allow = [](int bytes) {
    return cudaFuncSetAttribute(uses_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(allow(100 * 1024), cudaSuccess);
  EXPECT_EQ(status(1, 32, 100 * 1024), cudaSuccess);
  EXPECT_EQ(status(1, 32, 100 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow(227 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// What a launch asks of the driver beside itself is asked once per shape, also where other shapes
// come between.
TEST_F(Runtime, ASecondLaunchOfAShapeOnlyLaunches) {
  for (const Kernel* kernel : {&hopper_kernel, &hopper_overlap_kernel, &backward_one_pass_kernel}) {
    const auto problem = [&](int rows) {
      return StepProblem({1, 1, 1, rows, rows, 64}, DType::bf16, kernel->pass(),
                         std::vector<RowInterval>(static_cast<std::size_t>(rows), {0, rows}));
    };
    const auto launch = [&](StepProblem& of) { of.launch(*kernel, 0, true, true, nullptr); };
    StepProblem small = problem(8), large = problem(9);
    launch(small), launch(large);
    for (const char* call : {"cudaFuncSetAttribute", "cuTensorMapEncodeTiled"}) {
      fail_call(call, 1, cudaErrorUnknown);
      EXPECT_NO_THROW(launch(small); launch(large)) << kernel->name << ", " << call;
    }
    reset_device();
    StepProblem after = problem(8);
    fail_call("cudaFuncSetAttribute", 1, cudaErrorUnknown);
    EXPECT_THROW(launch(after), CudaError) << kernel->name;
    reset_device();
  }
}

// As CUDA has it: the launch is fine, the next wait fails, and so does all that follows.
TEST_F(Runtime, AFailingKernelBreaksTheDevice) {
  char* const device = new_memory<char>(64);
  const cudaStream_t stream = new_stream();
  EXPECT_EQ(launch(half_a_barrier, 1, 32, 0, stream, 1), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device, 0, 64, stream), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "deadlock: 16 threads wait at barrier 0 of 32, 16 have ended", last_fault());
  EXPECT_EQ(device[0], '\xff') << "what is queued behind is dropped";
  EXPECT_EQ(pending_operations(), 0u);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure) << "sticky";
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaFree(device), cudaErrorLaunchFailure);
  EXPECT_EQ(live_allocations(), 0u) << "freed nevertheless";
  reset_device();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

void write_behind(char* bytes, int count) {
  if (threadIdx.x == 0) bytes[count] = 1;
}

TEST_F(Runtime, WritesBehindAnAllocationAreFound) {
  char* const device = new_memory<char>(61);
  EXPECT_EQ(launch(write_behind, 1, 32, 0, nullptr, device, 60), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(launch(write_behind, 1, 32, 0, nullptr, device, 61), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "behind an allocation of 61 bytes", last_fault());
}

TEST_F(Runtime, KernelsDoNotCallIt) {
  EXPECT_THROW(run_grid(1, 1, 0, [] { cudaDeviceSynchronize(); }), ModelError);
}

}  // namespace
}  // namespace ringscope::cuda::model
