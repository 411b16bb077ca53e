// The model's device, seen from tests: its knobs, and what it noticed.
//
// A stream is a queue, and nothing in it runs before some host thread must wait (synchronise, copy
// to or from pageable memory, ask an event). That thread then runs operations of any streams, in an
// order drawn from a seed, one stream often far ahead of the others, until what it waits for has
// happened. So a dependency that was not stated with an event shows as wrong numbers under some
// seed. Memory starts as NaN (bytes 0xff), and is followed:
//   a copy or memset outside of an allocation,
//   freeing what is not allocated, or what queued work still names   cudaErrorInvalidValue
//   a kernel that throws, or writes behind an allocation             cudaErrorLaunchFailure, sticky
// A sticky error drops all queued work; every later call returns it, though frees and destroys are
// done. Host threads may call at once; operations of different streams then run in parallel. A host
// function of cudaLaunchHostFunc must not wait for other host threads.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringscope::cuda::model {

// As at the program's start: no allocations, handles, queued work, errors and injected failures.
// Waits for operations that other threads are running; no other thread may call meanwhile.
void reset_device();

// Device and pinned host allocations that are not freed; bytes of the device's.
std::size_t live_allocations();
std::size_t device_bytes();
// Streams and events that are not destroyed.
std::size_t live_handles();
// Operations that are queued and have not run.
std::size_t pending_operations();

// What the last error was about, in words; empty without one. Faults of kernels go to stderr too.
std::string last_fault();

// Which order streams run in. Same seed and one host thread: same order.
void set_stream_seed(std::uint64_t seed);
// Device memory in bytes; what does not fit is cudaErrorMemoryAllocation. At the start 8 GiB.
void set_memory_limit(std::size_t bytes);
// At the start 9.0.
void set_compute_capability(int major, int minor);
// At the start 1, at most 64. Without a device calls return cudaErrorNoDevice. With several, what
// belongs to one of them may not be used on another, as far as CUDA forbids it: events, streams of
// kernels, memory that a kernel is given. The memory limit is that of all together.
void set_device_count(int count);

// Lets the nth call of the function `name` from now on (1: the next) do nothing and return `status`.
// "kernel" is the nth kernel that runs: it is not run, and the error is sticky.
void fail_call(const std::string& name, int nth, cudaError_t status);

}  // namespace ringscope::cuda::model
