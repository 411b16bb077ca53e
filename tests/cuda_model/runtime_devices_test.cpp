// The host model with several devices: what belongs to one of them is refused on another, as CUDA
// refuses it, and copies go between them.
#include <gtest/gtest.h>

#include "tests/cuda_model/runtime_harness.h"

namespace ringscope::cuda::model {
namespace {

class Devices : public testing::Test {
 protected:
  void SetUp() override {
    reset_device();
    cudaGetLastError();
    set_device_count(2);
  }
  void TearDown() override { reset_device(); }

  static cudaStream_t stream_of(int device) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static cudaEvent_t event_of(int device) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    return event;
  }
  static int* memory_of(int device) {
    int* memory = nullptr;
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, sizeof(int)), cudaSuccess);
    return memory;
  }
};

void set_to(int* value, int to) { *value = to; }

cudaError_t launch_on(cudaStream_t stream, int* value, int to) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, set_to, value, to);
}

TEST_F(Devices, AreThoseThatThereAre) {
  int device = -1;
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
}

TEST_F(Devices, CopiesGoBetweenThem) {
  int *first = memory_of(0), *second = memory_of(1);
  const cudaStream_t stream = stream_of(1);
  ASSERT_EQ(cudaMemset(first, 0, sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeerAsync(second, 1, first, 0, sizeof(int), stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  int value = -1;
  ASSERT_EQ(cudaMemcpy(&value, second, sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cudaMemcpyPeerAsync(second, 0, first, 1, sizeof(int), stream), cudaErrorInvalidValue);
}

TEST_F(Devices, EventsBelongToTheStreamsOfTheirs) {
  const cudaStream_t stream = stream_of(0);
  const cudaEvent_t own = event_of(0), other = event_of(1);
  EXPECT_EQ(cudaEventRecord(own, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(other, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(stream_of(1), own), cudaSuccess);
  const cudaStream_t second = stream_of(1);
  ASSERT_EQ(cudaEventRecord(other, second), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(own), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(other), cudaSuccess);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, own, other), cudaErrorInvalidResourceHandle);
}

TEST_F(Devices, KernelsRunOnTheThreadsOwn) {
  int* const memory = memory_of(1);
  const cudaStream_t stream = stream_of(1);
  EXPECT_EQ(launch_on(stream, memory, 7), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*memory, 7);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(launch_on(stream, memory, 8), cudaErrorInvalidResourceHandle);
}

TEST_F(Devices, AKernelDoesNotReachTheMemoryOfAnother) {
  int* const memory = memory_of(1);
  EXPECT_EQ(launch_on(stream_of(0), memory, 7), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(Devices, SynchronizingOneLeavesTheOther) {
  int* const memory = memory_of(1);
  const cudaStream_t stream = stream_of(1);
  ASSERT_EQ(launch_on(stream, memory, 7), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(pending_operations(), 1u);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(pending_operations(), 0u);
}

}  // namespace
}  // namespace ringscope::cuda::model
