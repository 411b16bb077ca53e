// "This has happened, or can be waited for." The ring loop never waits by itself: it hands each
// operation the completions it must come after, and gets one back. On threads a completion is a
// flag under a lock, on a GPU an event in a stream.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "core/attention/views.h"
#include "core/base/math.h"
#include "core/problem/region.h"
#include "core/trace/event.h"

namespace ringscope {

// When a transfer was running, in monotonic nanoseconds; `last_peer` is the rank whose part came
// last.
struct TransferTimes {
  std::int64_t send_begin = 0, send_end = 0;
  std::int64_t recv_begin = 0, recv_end = 0;
  int last_peer = -1;
};

// Whom an operation that has not happened waits for, and in the hop of which ring step; -1: not known.
// The rank itself when nothing but its own part is missing.
struct Awaited {
  int rank = -1;
  int step = -1;
};

class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  virtual bool done() const = 0;
  // Returns once it has happened; throws RunError when it never will.
  virtual void wait() = 0;
  // Only after it has happened.
  virtual TransferTimes times() const = 0;

  // While it has not happened; thread-safe.
  virtual Awaited awaited() const { return {}; }
  // Of one that a failure ended: what did happen. A part that did not has its end at 0.
  virtual TransferTimes times_so_far() const { return {}; }
};

// Null: already happened.
using Completion = std::shared_ptr<PendingOperation>;

inline void wait_for(const Completion& completion) {
  if (completion != nullptr) completion->wait();
}

// ---
// The first seam: who moves blocks. Threads implement it (thread_communicator.h); its terms also
// fit MPI processes, virtual ranks on one GPU and NCCL, which order work by events and never block
// here.

// One hop: send a block to the next rank while receiving one from the previous rank. Pointers as
// the communicator expects them (host or device); sizes in bytes, 0 allowed.
struct Exchange {
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;
  int step = 0;
  int send_owner = 0;
  const void* send = nullptr;
  Index send_bytes = 0;
  int recv_owner = 0;
  void* recv = nullptr;
  Index recv_bytes = 0;
  // Mistakes on purpose (faults.h): the receive is never posted; it is posted only after the block
  // sent has been taken.
  bool unposted_recv = false;
  bool send_first = false;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Starts `hop` once every one of `after` has happened, and returns at once. Hops of one rank run
  // in the order in which they were started; all ranks start the same ones. The result has happened
  // when the received block has arrived and the sent one may be overwritten. Throws RunError when a
  // peer failed.
  virtual Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) = 0;
};

// ---
// The second seam: who attends a block. An operation starts once `after` (and the operations before
// it on the same backend) has happened and returns the completion of its own end: null when it
// ended before returning, as on a CPU.

// Which step of the ring a block operation belongs to.
struct StepInfo {
  Pass pass = Pass::forward;
  int step = 0;
  int kv_owner = 0;
  bool last = false;  // no block is attended after this one, in this pass
};

class BlockBackend {
 public:
  virtual ~BlockBackend() = default;

  // Forward: makes `state` that of no keys seen.
  virtual Completion begin(const QueryBlock& q, const SoftmaxState& state) = 0;
  // Carries `state` on over the keys of `block` that `region` allows.
  virtual Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                            const KvBlock& block, const SoftmaxState& state,
                            const Completion& after) = 0;
  // Turns out_accum into the output (f32; it is rounded to the storage type where it is stored), and
  // writes lse.
  virtual Completion finish(const QueryBlock& q, const SoftmaxState& state) = 0;

  // Backward: computes delta and zeroes dq.
  virtual Completion begin_backward(const QueryBlock& q, const BackwardState& state) = 0;
  // Adds this block's share to state.dq, and overwrites `gradient` with these queries' share of the
  // block's gradient.
  virtual Completion attend_backward(const StepInfo& step, const Region& region,
                                     const QueryBlock& q, const KvBlock& block,
                                     const BackwardState& state, const KvGradient& gradient,
                                     const Completion& after) = 0;
  // into += from, once `after` has happened.
  virtual Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                         const Completion& after) = 0;
  // Completes dq. `after`: the arrival of the rank's own gradient, which is complete then.
  virtual Completion finish_backward(const StepInfo& step, const QueryBlock& q,
                                     const BackwardState& state, const Completion& after) = 0;

  // What the last attend or attend_backward counted; valid once its completion has happened.
  virtual const BlockStats& last_stats() const = 0;
};

}  // namespace ringscope
