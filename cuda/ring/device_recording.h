// Records a ring on a device, and lets its kernels take turns, so that their times stay apart.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <vector>

#include "core/threads/engine.h"
#include "core/threads/faulty_ring.h"
#include "core/threads/rank.h"
#include "core/threads/recording.h"
#include "cuda/base/device_memory.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/ring/cuda_backend.h"
#include "cuda/ring/device_communicator.h"

namespace ringscope::cuda {

// ---
// Lets the kernels of virtual ranks on one GPU take turns. Kernels that run at once share its
// multiprocessors, so each takes longer, and a rank's own work can no longer be told from its time.
// With turns, a kernel starts after the one enqueued before it, whichever rank's that is, so the
// time from its begin to its end is its own. Copies still run beside kernels.

// Thread-safe. It cannot deadlock, because a turn waits only for work that is already in a stream.
class KernelTurns {
 public:
  // Take a turn, whose work enqueue() puts on `stream`, and return its completion, which enqueue()
  // returns.
  template <class F>
  std::shared_ptr<EventCompletion> take(cudaStream_t stream, F&& enqueue) {
    const std::lock_guard lock(mutex_);
    if (last_) last_->hold(stream);
    return last_ = enqueue();
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<EventCompletion> last_;
};

// ---
// Records a ring on a device, as core/threads/recording.h does for backends that compute on the host.
// While the ring runs, events enclose every wait and every kernel in the compute stream; flush()
// turns them into slices when the run is over. (Hops report their own times, so core's
// RecordingCommunicator works here too.)

// Writes a compute slice for every block attended, without the wait for its turn, and a wait slice
// when the compute stream stood still for a block. A forward pass also records the softmax state of
// three query rows after every step. On a device, a slice's processor time is its length.
class DeviceRecordingBackend : public ForwardingBackend {
 public:
  // `turns` may be null; kernels of different ranks then run at once. `listener` may be empty;
  // finish_all() calls it. The rank's pulse advances with every operation requested and, in
  // finish_all(), with every operation ended. Throws CudaError.
  DeviceRecordingBackend(CudaBackend& inner, Rank& rank, const DeviceClock& clock,
                         KernelTurns* turns, Engine::Listener listener);

  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override;
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override;
  void use_heads(const HeadShare& share) override {
    share_ = share;
    inner_.use_heads(share);
  }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    wait(step, payload, after);
  }

  // Wait until everything has happened, and then record it. Throw a RunError that names rank and step.
  void finish_all();
  void flush();

 private:
  // The time between two events of the compute stream.
  struct Slice {
    StepInfo step;
    Event begin;
    std::shared_ptr<EventCompletion> end = nullptr;
    Completion awaited = nullptr;     // for a wait slice; null in a compute slice
    Payload payload = Payload::kv;    // for a wait slice
    HeadShare heads = {};             // for a compute slice
    Index pairs = 0;                  // for a compute slice: what counts for these heads
    std::vector<Index> sampled = {};  // for a compute slice: global positions of samples
    std::size_t first_sample = 0;     // of them in samples_
  };

  // Make the compute stream wait for `after` between two events.
  void wait(const StepInfo& step, Payload payload, const Completion& after);
  // Enclose what `start` enqueues by two events, in this rank's turn.
  Completion compute(const StepInfo& step, const Start& start);
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override;
  void flush_wait(const Slice& slice);
  void flush_compute(const Slice& slice, const BlockStats& stats, int block);
  std::int64_t recorded_ns(const Event& event) const {
    return clock_.monotonic_ns(event) - rank_.recorder().origin_ns();
  }

  CudaBackend& inner_;
  Rank& rank_;
  AttentionParams params_;
  HeadShare share_;
  const DeviceClock& clock_;
  KernelTurns* turns_;
  Engine::Listener listener_;
  PinnedBuffer<RowSample> samples_;  // three per block
  Index region_pairs_ = 0;           // of the latest block, for one head
  std::size_t sampled_ = 0;          // blocks of the forward pass
  NextAttended next_;
  std::vector<Slice> slices_;
};

}  // namespace ringscope::cuda
