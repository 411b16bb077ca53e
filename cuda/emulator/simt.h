// Runs a kernel on the host after CUDA's model of execution. Every thread of a block is a fiber
// with its own stack, and threads switch where they wait for each other (barriers, collectives of a
// warp or warpgroup). Blocks run one after another, or, where threads are shuffled, a few at once, in
// turns of random lengths.
//
// The model is as unhelpful as CUDA allows. Of the threads that can run, the first in an order that
// the schedule chooses runs until it must wait, so some warps are always as far ahead as barriers
// permit. Shared memory starts as NaN, and asynchronous effects come late. A kernel that lacks a
// barrier gives wrong numbers under one order or another. What is wrong under any order (deadlock,
// lanes that disagree about a collective, writing past shared memory) is a ModelError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "cuda/emulator/builtin.h"

namespace ringscope::cuda::model {

class ModelError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// The order in which threads and blocks are preferred. `shuffled` draws a random order of whole
// warps, and of the lanes in each, anew now and then.
enum class ThreadOrder { ascending, descending, shuffled };

struct Schedule {
  ThreadOrder order = ThreadOrder::ascending;
  bool async_late =
      true;  // asynchronous copies and wgmma take effect as late as allowed; otherwise at once
  std::uint64_t seed = 1;  // for ThreadOrder::shuffled
};

// Set the schedule of grids that start from now on, on any OS thread.
void set_schedule(const Schedule& schedule);
// Return the running grid's schedule; outside a kernel the last one set, valid until the next call.
const Schedule& schedule();

// Return what is wrong with a launch of this shape, empty if devices take it.
std::string wrong_shape(dim3 grid, dim3 block);

// Run kernel() once per thread. Several OS threads may run grids at once; a kernel cannot start
// one. Once all threads are unwound, throws what the first failing one threw (a ModelError gets
// block and thread as prefix). Throws ModelError for faults that the model finds. Blocks of a
// cooperative grid live all at once, whatever the schedule.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& kernel,
              bool cooperative = false);

// The rest is for kernels, and throws ModelError elsewhere.

// Whether a kernel is running on this OS thread.
bool in_kernel();

// Return the running block's shared memory: aligned to 1024 bytes, all bytes 0xff when a block
// starts. The block's end reports a write past its end.
unsigned char* shared_bytes();
std::size_t shared_size();

// How often a thread of this block, or of one that ran on the same multiprocessor before it, has
// gone on after waiting for others, or has asked: the model's clock, from 0 when the grid starts, which
// says no time twice. Blocks are dealt to multiprocessors in turn.
std::uint64_t steps();
int multiprocessor();
inline constexpr int kMultiprocessors = 132;

// The running thread: its number in the block (x fastest), its warp, and its lane in the warp.
int thread_in_block();
int warp();
int lane();

// Wait until `threads` threads have reached barrier `id` (0..15; 0 is that of __syncthreads).
// `threads` is a multiple of 32 unless it is the whole block.
void block_barrier(int id, int threads);
// Arrive at a barrier without waiting for it.
void block_barrier_arrive(int id, int threads);

// Meet the lanes in `mask` (or the 128 threads of the warpgroup). Each gives `bytes` bytes (<= 512)
// and gets those of all (at lane * bytes; in a warpgroup at its thread * bytes), valid until this
// thread's next exchange. Lanes must agree on kind and bytes; none may have ended. combine(), if any,
// is called once, when all have given, and may change what they get.
const unsigned char* warp_exchange(const char* kind, const void* mine, std::size_t bytes,
                                   unsigned mask = ~0u,
                                   void (*combine)(unsigned char* given) = nullptr);
const unsigned char* warpgroup_exchange(const char* kind, const void* mine, std::size_t bytes);

// Wait until ready() is true. It is called at once, and then whenever this thread would run next.
// It may change the model's state but not wait itself. Of threads that wait for the same `what` (one
// text, not an equal one) and `object`, if any, one is asked for all.
void wait_until(const char* what, const std::function<bool()>& ready, const void* object = nullptr);

// Do effect() at once, or, with async_late, when no thread of the block can run otherwise. Late
// effects happen one by one, in random order if threads are shuffled, else in the order given. The
// block's end does those that are left.
void defer(std::function<void()> effect);

// State that a part of the model keeps for the running thread, from when it stores it to the
// block's end. The thread's end calls end(), whose ModelError counts as the thread's.
class ThreadState {
 public:
  virtual ~ThreadState() = default;
  virtual void end() = 0;
};
std::unique_ptr<ThreadState>& thread_state();
// Likewise for the running block, owned by what its threads keep.
std::weak_ptr<void>& block_state();

}  // namespace ringscope::cuda::model
