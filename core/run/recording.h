// What goes into a recording, whichever backend it comes from: slices and samples, but for their
// times.
#pragma once

#include <functional>
#include <vector>

#include "core/attention/views.h"
#include "core/ring/ring.h"
#include "core/ring/seams.h"
#include "core/run/watchdog.h"
#include "core/trace/event.h"
#include "core/trace/recorder.h"

namespace ringscope {

TraceEvent wait_event(const StepInfo& step, Payload payload);
// With the work that `stats` counted.
TraceEvent compute_event(const StepInfo& step, const AttentionParams& params,
                         const BlockStats& stats);

// Calls f(row) for the local rows whose softmax state is kept: first, middle, last, as far as they
// are there and differ.
template <class F>
void for_sampled_rows(Index rows, F&& f) {
  Index last = -1;
  for (const Index row : {Index{0}, rows / 2, rows - 1})
    if (row > last && row < rows) f(last = row);
}

// The state of the query at global position `query` after a step; lse_error is left for
// set_lse_errors.
SoftmaxSample sample_of(int rank, int step, Index query, std::int64_t at_ns, float row_max,
                        double row_sum);

// When a rank's last sample of each row is there, whose lse is the final one.
void set_lse_errors(std::vector<SoftmaxSample>& samples);

// ---
// Recording as decorators: a backend and a communicator that do what the ones inside them do, and
// write down when. The ring loop doesn't know.

// Writes a compute slice for every block attended, a wait slice wherever the backend had to wait
// for a block (also one that a failure ended), and, forward, the softmax state of three of the
// rank's query rows (first, middle, last) after every step. Keeps the rank's pulse told where it is.
class RecordingBackend : public BlockBackend {
 public:
  // Called after each attended block with the pairs in it, on the rank's thread.
  using Listener = std::function<void(Index pairs)>;

  // `ring` says whose it is. `pulse` may be null.
  RecordingBackend(BlockBackend& inner, Recorder& recorder, const AttentionParams& params,
                   const RingSchedule& ring, Listener listener, RankPulse* pulse = nullptr);

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

 private:
  void record_wait(const StepInfo& step, Payload payload, const Completion& after);
  template <class Attend>
  void record_compute(const StepInfo& step, Attend&& attend);
  void record_samples(const StepInfo& step, const Region& region, const SoftmaxState& state);

  BlockBackend& inner_;
  Recorder& recorder_;
  AttentionParams params_;
  RingSchedule ring_;
  Listener listener_;
  RankPulse* pulse_;
};

// Remembers every hop; flush() writes their send and recv slices, which are known once they have
// happened.
class RecordingCommunicator : public Communicator {
 public:
  // `pulse` may be null.
  RecordingCommunicator(Communicator& inner, Recorder& recorder, std::size_t max_hops,
                        RankPulse* pulse = nullptr);

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

  // Waits for all hops.
  void flush();
  // After a failure: records what has happened, and waits for nothing.
  void flush_what_happened();

 private:
  struct Pending {
    Exchange hop;
    Completion completion;
  };

  void record(const Exchange& hop, const TransferTimes& times, bool happened);

  Communicator& inner_;
  Recorder& recorder_;
  RankPulse* pulse_;
  std::vector<Pending> pending_;
  std::size_t recorded_ = 0;  // of them
  std::int64_t flows_ = 0;    // hops recorded so far, those of earlier flushes included
};

}  // namespace ringscope
