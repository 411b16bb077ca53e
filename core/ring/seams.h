// The ring loop's two seams, Communicator and BlockBackend. The loop hands each operation the
// completions that it must come after, and gets one back. On threads a completion is a flag under a
// lock, on a GPU an event in a stream. Buffers must outlive every operation that was started.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "core/attention/views.h"
#include "core/base/math.h"
#include "core/problem/region.h"
#include "core/ring/scheme_seams.h"
#include "core/trace/event.h"

namespace ringscope {

// When a transfer ran, in monotonic nanoseconds. `last_peer` is the rank that was ready last.
struct TransferTimes {
  std::int64_t send_begin = 0, send_end = 0;
  std::int64_t recv_begin = 0, recv_end = 0;
  int last_peer = -1;
};

// What an unfinished operation waits for: `rank`'s part of the hop of ring step `step`, each -1
// when unknown. `rank` is the waiting rank itself when only its own part is missing.
struct Awaited {
  int rank = -1, step = -1;
};

class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  virtual bool done() const = 0;
  // Return once the operation has happened. Throw RunError when it never will.
  virtual void wait() = 0;
  // Return its times; valid only after it has happened.
  virtual TransferTimes times() const = 0;

  // Return what it waits for, while it has not happened. Thread-safe.
  virtual Awaited awaited() const { return {}; }
  // Return the times of what did happen before a failure. A part that is not over ends at 0.
  virtual TransferTimes times_so_far() const { return {}; }
};

// The end of an operation, which can be waited for. Null means that it has already happened.
using Completion = std::shared_ptr<PendingOperation>;

inline void wait_for(const Completion& completion) {
  if (completion != nullptr) completion->wait();
}

// ---
// The first seam: who moves blocks. Threads implement it (thread_communicator.h), and so do MPI
// processes, virtual ranks on one GPU, and NCCL.

// One hop: send a KV block, or a gradient, to the next rank while receiving one from the previous
// rank, unless `to` and `from` name others. The hop of step t sends what belongs to step t and
// brings what step t + 1 needs; owners are the ranks that the blocks belong to. Pointers are the
// host's or a device's, as the communicator expects. Sizes are in bytes and may be 0.
struct Exchange {
  static constexpr int kNeighbour = -1, kNobody = -2;

  Pass pass = Pass::forward;
  Payload payload = Payload::kv;
  int step = 0;
  int send_owner = 0;
  const void* send = nullptr;
  Index send_bytes = 0;
  int recv_owner = 0;
  void* recv = nullptr;
  Index recv_bytes = 0;
  Way way = Way::ring;
  int to = kNeighbour, from = kNeighbour;  // kNobody: the hop only receives, or only sends

  bool sends() const { return to != kNobody; }
  bool receives() const { return from != kNobody; }
  // Return where `rank` of `n` sends, and from where it receives.
  int receiver(int rank, int n) const { return to == kNeighbour ? (rank + 1) % n : to; }
  int sender(int rank, int n) const { return from == kNeighbour ? (rank + n - 1) % n : from; }
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Start `hop` once all of `after` has happened, and return at once. All ranks start the same hops
  // in the same order, also those in which they have nothing to send or to receive; a rank's hops run
  // in that order. The returned completion happens when the received block has arrived and the sent
  // one may be overwritten. Throw RunError when a peer failed.
  virtual Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) = 0;
};

// ---
// The second seam: who attends a block. An operation starts once `after`, and the operations before
// it on the same backend, have happened. It returns the completion of its own end, which is null
// when it ended before returning, as on a CPU.

// The ring step that a block operation belongs to.
struct StepInfo {
  Pass pass = Pass::forward;
  int step = 0;
  int kv_owner = 0;
  bool last = false;  // no later block is attended in this pass
};

class BlockBackend : public SchemeBackend {
 public:
  // Set `state` to that of no keys seen (forward).
  virtual Completion begin(const QueryBlock& q, const SoftmaxState& state) = 0;
  // Update `state` with the keys of `block` that `region` allows.
  virtual Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                            const KvBlock& block, const SoftmaxState& state,
                            const Completion& after) = 0;
  // Turn out_accum, in place, into the output, still in f32, and write lse.
  virtual Completion finish(const QueryBlock& q, const SoftmaxState& state) = 0;

  // Compute delta, unless state.out is null because delta came along, and zero dq (backward).
  virtual Completion begin_backward(const QueryBlock& q, const BackwardState& state) = 0;
  // Add this block's share to state.dq, and overwrite `gradient` with these queries' share of the
  // block's gradient.
  virtual Completion attend_backward(const StepInfo& step, const Region& region,
                                     const QueryBlock& q, const KvBlock& block,
                                     const BackwardState& state, const KvGradient& gradient,
                                     const Completion& after) = 0;
  // Compute into += from, once `after` has happened.
  virtual Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                         const Completion& after) = 0;
  // Complete dq. `after` is the arrival of the rank's own gradient, so that everything of the pass
  // is over when this operation is.
  virtual Completion finish_backward(const StepInfo& step, const QueryBlock& q,
                                     const BackwardState& state, const Completion& after) = 0;

  // Return what the last attend or attend_backward counted; valid once its completion has happened.
  virtual const BlockStats& last_stats() const = 0;
};

}  // namespace ringscope
