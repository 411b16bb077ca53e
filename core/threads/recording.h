// What goes into a recording. The first part makes slices and samples for any backend, but leaves
// out their times. The second part records with times, in decorators around both seams.
#pragma once

#include <functional>
#include <vector>

#include "core/attention/views.h"
#include "core/ring/forwarding.h"
#include "core/ring/ring.h"
#include "core/threads/watchdog.h"
#include "core/trace/rank_events.h"
#include "core/trace/recorder.h"

namespace ringscope {

TraceEvent wait_event(const StepInfo& step, Payload payload);

// Tells what a rank attends next. A wait belongs to that step and block, and to none, -1, where the
// rank attends nothing more in the pass, whatever it was that the rank waited for.
class NextAttended {
 public:
  // `attended` is what the rank attends in each pass, in this order (LoopCounts).
  explicit NextAttended(const std::vector<StepInfo>& attended);

  void begins(Pass pass);
  // A slice that only goes on with what was attended last changes nothing.
  void attends(const StepInfo& step);
  // Return `step` as a wait that the loop asks for at it is recorded.
  StepInfo after(const StepInfo& step) const;

 private:
  struct OfPass {
    std::vector<StepInfo> attended;
    std::size_t next = 0;
  };
  OfPass of_[2];
};

// Return a compute slice with the work that `stats` counted for `share` of the heads.
TraceEvent compute_event(const StepInfo& step, const AttentionParams& params,
                         const BlockStats& stats, const HeadShare& share);

// Call f(row) for the local rows whose softmax state is kept: the first, middle and last row, each
// once if they exist.
template <class F>
void for_sampled_rows(Index rows, F&& f) {
  Index last = -1;
  for (const Index row : {Index{0}, rows / 2, rows - 1})
    if (row > last && row < rows) f(last = row);
}

// Return the state of the query at global position `query` after a step, without its lse_error.
SoftmaxSample sample_of(int rank, int step, Index query, std::int64_t at_ns, float row_max,
                        double row_sum);

// Return what `recorder` has, without peak bytes and a clock error. lse_error is the distance from each
// row's last sample where that has the final lse.
RankEvents recorded_by(const Recorder& recorder, bool has_final_lse = true);

// ---
// Recording as decorators. They forward to a backend or communicator and write down when it did
// what. The ring loop doesn't know about them.

// Writes a compute slice for every attended block and a wait slice wherever the backend waited for
// a block, even if a failure ended that wait. In forward it also writes the softmax state of three
// query rows (first, middle, last) after every step. It keeps the rank's pulse up to date.
class RecordingBackend : public ForwardingBackend {
 public:
  // Called on the rank's thread after each attended block, with the pairs in it.
  using Listener = std::function<void(Index pairs)>;

  // `ring` says whose backend it is. `pulse` may be null.
  RecordingBackend(BlockBackend& inner, Recorder& recorder, const AttentionParams& params,
                   const RingSchedule& ring, NextAttended next, Listener listener,
                   RankPulse* pulse = nullptr);

  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override;
  void use_heads(const HeadShare& share) override {
    share_ = share;
    inner_.use_heads(share);
  }
  void await(const StepInfo& step, Payload payload, const Completion& after) override {
    record_wait(step, payload, after);
    inner_.await(step, payload, after);
  }
  void attended(const StepInfo& step, const BlockStats& stats, std::int64_t begin_ns,
                std::int64_t cpu_ns) override;
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override;
  // Also keep the numbers of a tile of the block that is attended at `step` of the forward pass. Values
  // must lie in host memory.
  void record_tile(int step) { tile_step_ = step; }

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override;
  void record_wait(const StepInfo& step, Payload payload, const Completion& after);
  RecordedTile begun_tile(const StepInfo& step, const Region& region,
                          const SoftmaxState& state) const;
  void end_tile(RecordedTile tile, const Region& region, const QueryBlock& q, const KvBlock& block,
                const SoftmaxState& state);

  Recorder& recorder_;
  AttentionParams params_;
  HeadShare share_;
  RingSchedule ring_;
  NextAttended next_;
  Listener listener_;
  RankPulse* pulse_;
  int tile_step_ = -1;   // -1: of none
  Index tile_row_ = -1;  // the recorded tile's first local row; -1: none is recorded yet
};

// Remembers every hop. flush() writes the send and recv slices, whose times are known only after
// the hops have happened.
class RecordingCommunicator : public ForwardingCommunicator {
 public:
  // `pulse` may be null.
  RecordingCommunicator(Communicator& inner, Recorder& recorder, std::size_t max_hops,
                        RankPulse* pulse = nullptr);

  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

  // Wait for all hops.
  void wait();
  // Record them as well.
  void flush() {
    wait();
    flush_what_happened();
  }
  // Record what has happened before a failure, and wait for nothing.
  void flush_what_happened();

 private:
  struct Pending {
    Exchange hop;
    Completion completion;
  };

  // Append the slices of a hop that was started as number `place`, as far as they have happened.
  void add_slices(const Pending& pending, std::int64_t place, std::vector<TraceEvent>& to) const;

  Recorder& recorder_;
  RankPulse* pulse_;
  std::vector<Pending> pending_;  // since the last flush
  std::int64_t flows_ = 0;        // hops of earlier flushes
};

}  // namespace ringscope
