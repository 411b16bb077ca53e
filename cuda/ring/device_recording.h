// Recording on a device: what core/run/recording.h is for backends that compute on the host. While
// the ring runs, events go into the compute stream around every wait and every kernel; flush()
// turns them into slices. (Hops tell their own times, so core's RecordingCommunicator serves here
// too.)
#pragma once

#include <vector>

#include "core/run/engine.h"
#include "core/run/watchdog.h"
#include "core/trace/recorder.h"
#include "cuda/base/device_memory.h"
#include "cuda/ring/activity.h"
#include "cuda/ring/cuda_backend.h"
#include "cuda/ring/device_clock.h"
#include "cuda/ring/kernel_turns.h"
#include "cuda/ring/sample_rows.h"

namespace ringscope::cuda {

// Writes a compute slice for every block attended, without waiting for its turn; a wait slice where
// the compute stream stood still for a block; and, forward, the softmax state of three query rows
// after every step. The processor time of a slice is its length, on a device.
class DeviceRecordingBackend : public BlockBackend {
 public:
  // `turns` may be null: kernels of different ranks run at once then. `activities` may be null:
  // slices are as long as between events then. `listener` may be empty; it is called by flush().
  // `pulse` may be null; it advances with every operation asked for and, in flush(), ended.
  // Throws CudaError.
  DeviceRecordingBackend(CudaBackend& inner, Recorder& recorder, const RingProblem& problem,
                         int rank, const DeviceClock& clock, KernelTurns* turns,
                         ActivityLog* activities, Engine::Listener listener,
                         RankPulse* pulse = nullptr);

  Completion begin(const QueryBlock& q, const SoftmaxState& state) override;
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override;
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override;
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override;
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override;
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override;
  Completion finish_backward(const StepInfo& step, const QueryBlock& q, const BackwardState& state,
                             const Completion& after) override;
  const BlockStats& last_stats() const override { return inner_.last_stats(); }

  // Waits until everything has happened, and records it. Throws RunError naming rank and step.
  void flush();

 private:
  // Between two events of the compute stream.
  struct Slice {
    StepInfo step;
    Event begin{EventKind::timed};
    Event end{EventKind::timed};
    Completion awaited;               // a wait's; null: a compute slice
    Payload payload = Payload::kv;    // a wait's
    Index pairs = 0;                  // a compute slice's, as the region says
    std::vector<Index> sampled = {};  // a compute slice's: global positions of the rows in samples_
  };

  // Lets the compute stream wait for `after` between two events.
  void wait(const StepInfo& step, Payload payload, const Completion& after);
  // Puts what `attend` enqueues between two events, in this rank's turn.
  template <class Attend>
  Completion compute(const StepInfo& step, const Region& region, Attend&& attend);
  void sample(const StepInfo& step, const Region& region, const SoftmaxState& state);
  void flush_wait(const Slice& slice);
  void flush_compute(const Slice& slice, const BlockStats& stats,
                     std::span<const Activity> kernels);
  std::int64_t recorded_ns(const Event& event) const {
    return clock_.monotonic_ns(event) - recorder_.origin_ns();
  }

  CudaBackend& inner_;
  Recorder& recorder_;
  AttentionParams params_;
  int rank_, recv_rank_;
  const DeviceClock& clock_;
  KernelTurns* turns_;
  ActivityLog* activities_;
  Engine::Listener listener_;
  RankPulse* pulse_;
  PinnedBuffer<RowSample> samples_;  // three a step
  bool has_state_ = false;           // some key has been attended in this pass
  std::vector<Slice> slices_;
};

}  // namespace ringscope::cuda
