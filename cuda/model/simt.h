// Runs a kernel on the host as CUDA's model of execution has it: every thread of a block is a fiber
// with its own stack, and threads change where they wait for each other (barriers, collectives of a
// warp or warpgroup). Blocks run one after another.
//
// The model is as unhelpful as CUDA allows. Of the threads that can run, the first in an order of
// the schedule's choice runs until it must wait, so some warps are always as far ahead of the others
// as barriers permit; shared memory starts as NaN; asynchronous effects come late. A kernel that
// lacks a barrier gives wrong numbers under one order or another. What is wrong under any order
// (deadlock, lanes that disagree about a collective, writing past shared memory) is a ModelError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "cuda/model/builtin.h"

namespace ringscope::cuda::model {

class ModelError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// In which order threads and blocks are preferred. shuffled: whole warps in random order, their lanes
// too, drawn anew now and then.
enum class ThreadOrder { ascending, descending, shuffled };

struct Schedule {
  ThreadOrder order = ThreadOrder::ascending;
  bool async_late =
      true;  // asynchronous copies and wgmma take effect as late as allowed; else at once
  std::uint64_t seed = 1;  // of ThreadOrder::shuffled
};

// For grids that start from now on, on any OS thread.
void set_schedule(const Schedule& schedule);
// In a kernel: the running grid's. Elsewhere: what was set last; valid until this thread asks again.
const Schedule& schedule();

// Runs kernel() once per thread. Any number of OS threads may run grids at once; a kernel cannot
// start one. Throws what the first failing thread threw (ModelErrors with block and thread put in
// front) after all others have been unwound, and ModelError for what the model itself finds.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& kernel);

// The rest is for kernels, and throws ModelError elsewhere.

// Whether a kernel is running on this OS thread.
bool in_kernel();

// The running block's shared memory: aligned to 1024 bytes, all bytes 0xff when a block starts. A
// write past its end is found at the block's end.
unsigned char* shared_bytes();
std::size_t shared_size();

// The running thread: number in its block (x fastest), warp in the block, lane in the warp.
int thread_in_block();
int warp();
int lane();

// Waits until `threads` threads have come to barrier `id` (0..15; 0 is that of __syncthreads).
// `threads` is a multiple of 32 unless it is the whole block.
void block_barrier(int id, int threads);
// Comes to a barrier without waiting for it.
void block_barrier_arrive(int id, int threads);

// Rendezvous of the lanes in `mask` (of the 128 threads of the warpgroup): each gives `bytes` bytes
// (<= 512), and gets all lanes' (at lane * bytes; for a warpgroup at its thread * bytes), which stay
// until this thread's next exchange. Lanes must agree on kind and bytes; none may have ended.
const unsigned char* warp_exchange(const char* kind, const void* mine, std::size_t bytes,
                                   unsigned mask = ~0u);
const unsigned char* warpgroup_exchange(const char* kind, const void* mine, std::size_t bytes);

// Waits until ready() is true. It is asked at once and then whenever this thread would be the next
// to run; it may change the model's state, but not wait itself.
void wait_until(const char* what, const std::function<bool()>& ready);

// Does effect() at once, or with async_late when no thread of the block can run otherwise: one by
// one, in random order if threads are shuffled, else in the order in which they were given.
// Those left at the block's end are done then.
void defer(std::function<void()> effect);

// What a part of the model keeps for the running thread, from when it puts it there to the end of the
// block. end(): the thread has come to its end; a ModelError of it is the thread's.
class ThreadState {
 public:
  virtual ~ThreadState() = default;
  virtual void end() = 0;
};
std::unique_ptr<ThreadState>& thread_state();

}  // namespace ringscope::cuda::model
