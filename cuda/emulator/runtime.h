// The interface to the model's device for tests: its settings, and the faults that it noticed.
//
// A stream is a queue. Nothing in it runs before some host thread must wait (synchronise, copy to
// or from pageable memory, query an event). That thread then runs operations of any streams until
// what it waits for has happened. A seed draws the order, in which one stream is often far ahead of
// the others, so a dependency that no event states gives wrong numbers under some seed. Memory
// starts as NaN (bytes 0xff). The model detects faults:
//   a copy or memset outside an allocation,
//   freeing what is not allocated, or what queued work still names   cudaErrorInvalidValue
//   a kernel that throws, or writes behind an allocation             cudaErrorLaunchFailure, sticky
// A sticky error drops all queued work. Every later call returns it, but frees and destroys still
// work. Host threads may call at once; operations of different streams then run in parallel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringscope::cuda::model {

// Restore the initial state: no allocations, handles, queued work, errors or injected failures.
// Waits for operations that other threads are running; no other thread may call meanwhile.
void reset_device();

// Count the device and pinned host allocations that are not freed, and the bytes of the device's.
std::size_t live_allocations();
std::size_t device_bytes();
// Count the streams and events that are not destroyed.
std::size_t live_handles();
// Count the operations that are queued and have not run.
std::size_t pending_operations();

// Return the last error in words, or an empty text. Kernels' faults go to stderr too.
std::string last_fault();

// Set the order in which streams run. The same seed and one host thread give the same order.
void set_stream_seed(std::uint64_t seed);
// Set the device memory in bytes, 8 GiB at the start. Beyond it is cudaErrorMemoryAllocation.
void set_memory_limit(std::size_t bytes);
// Set the shared memory that a block may have, 227 KiB at the start.
void set_shared_memory(int bytes);
// Set the number of devices: 1 at the start, at most 64. With none, calls return cudaErrorNoDevice.
// With several, using one device's things on another is an error where CUDA forbids it: events,
// streams of kernels, memory passed to a kernel. The memory limit is that of all devices together.
void set_device_count(int count);

// Make the nth next call of the function `name` (1: the next) do nothing and return `status`. The
// name "kernel" stands for kernels that run: the nth does not run, and the error is sticky.
void fail_call(const std::string& name, int nth, cudaError_t status);

// Return how often the device was reset.
int resets();
// Count as the driver's call that encodes a tensor map, for fail_call("cuTensorMapEncodeTiled").
cudaError_t encode_tensor_map();

}  // namespace ringscope::cuda::model
