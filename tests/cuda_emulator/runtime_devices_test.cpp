// The host model with several devices: what belongs to one of them is refused on another, as CUDA
// refuses it, and copies go between them.
#include <gtest/gtest.h>

#include "core/problem/partition.h"
#include "cuda/base/check.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/ring/device_communicator.h"
#include "tests/cuda_emulator/runtime_harness.h"

namespace ringscope::cuda::model {
namespace {

class Devices : public Runtime {
 protected:
  void SetUp() override {
    Runtime::SetUp();
    set_device_count(2);
  }
  // Make something while a device is the thread's, which it stays.
  template <class Make>
  static auto on(int device, const Make& make) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    return make();
  }
  static cudaStream_t stream_of(int device) {
    return on(device, [] { return new_stream(); });
  }
  static cudaEvent_t event_of(int device) {
    return on(device, [] { return new_event(cudaEventDefault); });
  }
  static int* memory_of(int device) {
    return on(device, [] { return new_memory<int>(1); });
  }
};

void set_to(int* value, int to) { *value = to; }

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

// Copies to the ninth peer go through the host.
TEST_F(Devices, ARingTakesMoreThanADeviceHasPeers) {
  set_device_count(10);
  EXPECT_NO_THROW(DeviceRing(10, 10));
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
  EXPECT_EQ(launch(set_to, 1, 1, 0, stream, memory, 7), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*memory, 7);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(launch(set_to, 1, 1, 0, stream, memory, 8), cudaErrorInvalidResourceHandle);
}

TEST_F(Devices, AKernelDoesNotReachTheMemoryOfAnother) {
  int* const memory = memory_of(1);
  EXPECT_EQ(launch(set_to, 1, 1, 0, stream_of(0), memory, 7), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(Devices, AKernelDoesNotReachTheMemoryOfTheHost) {
  int of_host = 0;
  EXPECT_EQ(launch(set_to, 1, 1, 0, stream_of(0), &of_host, 7), cudaErrorIllegalAddress);
  EXPECT_EQ(of_host, 0);
}

// Between an argument's members lies what happened to be there.
TEST_F(Devices, PaddingIsNoAddress) {
  auto* const table = on(0, [] { return new_memory<RowInterval>(4); });
  alignas(Region) unsigned char bytes[sizeof(Region)];
  const auto stack = reinterpret_cast<std::uintptr_t>(bytes);
  for (std::size_t i = 0; i < sizeof(bytes); i += sizeof(stack))
    std::memcpy(bytes + i, &stack, sizeof(stack));
  auto* const region = new (bytes) Region;
  const LocalRows rows = Partition{PartitionKind::contiguous, 4, 1}.rows_of(0);
  region->mask.seqlen = 4;
  region->queries.runs[0] = rows.runs[0];
  region->keys.runs[0] = rows.runs[0];
  EXPECT_NO_THROW(launch_allowed_keys(*region, table, nullptr));
}

// A backend that left the documents' ends where the mask has them.
TEST_F(Devices, DocumentsEndsMustNotBeTheHosts) {
  auto* const table = on(0, [] { return new_memory<RowInterval>(4); });
  auto* const ends = on(0, [] { return new_memory<Index>(2); });
  const Index of_host[] = {1, 4};
  ASSERT_EQ(cudaMemcpy(ends, of_host, sizeof(of_host), cudaMemcpyHostToDevice), cudaSuccess);
  const LocalRows rows = Partition{PartitionKind::contiguous, 4, 1}.rows_of(0);
  const auto make_table = [&](const Index* where) {
    const Mask mask{.seqlen = 4, .document_ends = where, .num_documents = 2};
    launch_allowed_keys({mask, rows, rows}, table, nullptr);
  };
  EXPECT_NO_THROW(make_table(ends));
  EXPECT_THROW(make_table(of_host), CudaError);
}

TEST_F(Devices, SynchronizingOneLeavesTheOther) {
  int* const memory = memory_of(1);
  const cudaStream_t stream = stream_of(1);
  ASSERT_EQ(launch(set_to, 1, 1, 0, stream, memory, 7), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(pending_operations(), 1u);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(pending_operations(), 0u);
}

}  // namespace
}  // namespace ringscope::cuda::model
