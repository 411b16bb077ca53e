// The model's streams and events: what is not ordered shows under some seed. That what is ordered stays so, for
// many host threads, the rings show.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/cuda_emulator/runtime_harness.h"

namespace ringscope::cuda::model {
namespace runtime_streams_test {

constexpr int seeds = 20;

// Where kernels append. They could not be given the memory of the host.
std::vector<int>* appended = nullptr;
void append(int value) { appended->push_back(value); }
void set_to(int* target, int value) { *target = value; }
void copy_value(int* target, const int* source) { *target = *source; }

// Without a wait, streams run in different orders, some far ahead.
TEST_F(Runtime, StreamsAreNotOrdered) {
  std::set<std::vector<int>> orders;
  bool first_far_ahead = false, second_far_ahead = false;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::vector<int> lists[2];
    for (std::vector<int>& list : lists) {
      appended = &list;
      reset_device();
      set_stream_seed(seed);
      const cudaStream_t streams[2] = {new_stream(), new_stream()};
      for (int i = 0; i < 16; ++i)
        ASSERT_EQ(launch(append, 1, 1, 0, streams[i % 2], i), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      ASSERT_EQ(list.size(), 16u);
    }
    EXPECT_EQ(lists[0], lists[1]) << "the seed alone decides";
    orders.insert(lists[0]);
    first_far_ahead = first_far_ahead || lists[0][4] == 8;
    second_far_ahead = second_far_ahead || lists[0][4] == 9;
  }
  EXPECT_GT(orders.size(), seeds / 2u);
  EXPECT_TRUE(first_far_ahead);
  EXPECT_TRUE(second_far_ahead);
}

// A wait is for the record that was the latest when the wait was queued.
TEST_F(Runtime, WaitsAreForTheLatestRecord) {
  int before = 0, after = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    reset_device();
    set_stream_seed(seed);
    int *const value = new_memory<int>(1), *const seen = new_memory<int>(1);
    const cudaStream_t writer = new_stream(), reader = new_stream();
    const cudaEvent_t event = new_event();
    EXPECT_EQ(cudaStreamWaitEvent(reader, event, 0), cudaSuccess) << "no record, no wait";
    ASSERT_EQ(launch(set_to, 1, 1, 0, writer, value, 1), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, writer), cudaSuccess);
    ASSERT_EQ(launch(set_to, 1, 1, 0, writer, value, 2), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, writer), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(reader, event, 0), cudaSuccess);
    ASSERT_EQ(launch(set_to, 1, 1, 0, writer, value, 3), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, writer), cudaSuccess);
    ASSERT_EQ(launch(copy_value, 1, 1, 0, reader, seen, value), cudaSuccess);
    int result = 0;
    ASSERT_EQ(cudaMemcpyAsync(&result, seen, 4, cudaMemcpyDeviceToHost, reader), cudaSuccess);
    before += result == 2;
    after += result == 3;
  }
  EXPECT_GT(before, 0);
  EXPECT_GT(after, 0);
  EXPECT_EQ(before + after, seeds);
}

// Pinned memory is read when the copy runs, pageable memory when it is queued.
TEST_F(Runtime, CopiesReadHostMemoryWhenCudaMay) {
  int *device = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 8), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  const cudaStream_t stream = new_stream();
  int pageable = 1;
  *pinned = 1;
  ASSERT_EQ(cudaMemcpyAsync(device, &pageable, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(device + 1, pinned, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  pageable = *pinned = 2;
  int back[2] = {0, 0};
  ASSERT_EQ(cudaMemcpyAsync(back, device, 8, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(back[0], 1);
  EXPECT_EQ(back[1], 2);
}

TEST_F(Runtime, EventsKeepTime) {
  const cudaStream_t stream = new_stream();
  const cudaEvent_t first = new_event(cudaEventDefault), second = new_event(cudaEventDefault);
  const cudaEvent_t untimed = new_event(), unrecorded = new_event(cudaEventDefault);
  ASSERT_EQ(cudaEventRecord(first, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(second, stream), cudaSuccess);
  float milliseconds = -1.0f;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaSuccess);
  EXPECT_GT(milliseconds, 0.0f);
  float backward = 0.0f;
  EXPECT_EQ(cudaEventElapsedTime(&backward, second, first), cudaSuccess);
  EXPECT_EQ(backward, -milliseconds);
  EXPECT_EQ(cudaEventElapsedTime(&backward, untimed, second), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&backward, unrecorded, second), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventQuery(unrecorded), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(unrecorded), cudaSuccess);
}

TEST_F(Runtime, QueriesEndInSuccess) {
  const cudaStream_t stream = new_stream();
  const cudaEvent_t event = new_event();
  std::vector<int> list;
  appended = &list;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "not recorded";
  for (int i = 0; i < 5; ++i) ASSERT_EQ(launch(append, 1, 1, 0, stream, i), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not an error";
  int asked = 1;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++asked;
  EXPECT_LE(asked, 6);
  EXPECT_EQ(list.size(), 5u);
}

TEST_F(Runtime, DestroyedHandlesAreUnknown) {
  std::vector<int> list;
  appended = &list;
  const cudaStream_t stream = new_stream();
  const cudaEvent_t event = new_event();
  EXPECT_EQ(live_handles(), 2u);
  ASSERT_EQ(launch(append, 1, 1, 0, stream, 1), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(live_handles(), 0u);
  EXPECT_NE(new_stream(), stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch(append, 1, 1, 0, stream, 2), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(list, std::vector<int>{1}) << "what was queued before runs";
}

}  // namespace runtime_streams_test
}  // namespace ringscope::cuda::model
