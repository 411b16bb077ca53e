#include "cuda/ring/device_recording.h"

#include <algorithm>

#include "core/attention/online_softmax.h"
#include "core/base/error.h"
#include "core/ring/ring.h"
#include "cuda/ring/device_communicator.h"

namespace ringscope::cuda {

namespace {
constexpr std::size_t kSampledRows = 3;
}

DeviceRecordingBackend::DeviceRecordingBackend(CudaBackend& inner, Rank& rank,
                                               const DeviceClock& clock, KernelTurns* turns,
                                               Engine::Listener listener)
    : ForwardingBackend(inner),
      inner_(inner),
      rank_(rank),
      params_(rank.ring_problem().params),
      share_(share_of_heads(params_, 1, 0)),
      clock_(clock),
      turns_(turns),
      listener_(std::move(listener)),
      samples_(kSampledRows * static_cast<std::size_t>(rank.ring_problem().blocks_attended())),
      next_(rank.next_attended()) {
  for (RowSample& sample : samples_.span()) sample = {kMinusInfinity<float>, 0};
}

void DeviceRecordingBackend::wait(const StepInfo& step, Payload payload, const Completion& after) {
  if (after == nullptr) return;
  Slice slice{.step = step, .begin = inner_.take_event(), .awaited = after, .payload = payload};
  slice.begin.record(inner_.stream());
  wait_on(inner_.stream(), after);
  slice.end = inner_.end();
  slices_.push_back(std::move(slice));
}

Completion DeviceRecordingBackend::compute(const StepInfo& step, const Start& start) {
  rank_.pulse().at(step.pass, step.step);
  rank_.pulse().advance();
  Slice slice{.step = step,
              .begin = inner_.take_event(),
              .heads = share_,
              .pairs = pairs_of_share(params_, region_pairs_, share_)};
  const auto enqueue = [&] {
    slice.begin.record(inner_.stream());
    return std::static_pointer_cast<EventCompletion>(start(nullptr));
  };
  const bool takes_turn = turns_ != nullptr && region_pairs_ > 0;
  slice.end = takes_turn ? turns_->take(inner_.stream(), enqueue) : enqueue();
  slices_.push_back(std::move(slice));
  return slices_.back().end;
}

Completion DeviceRecordingBackend::around(BlockOperation which, const StepInfo* step,
                                          const Completion& after, const Start& start) {
  if (step == nullptr) return start(after);
  const bool attends = which == BlockOperation::attend || which == BlockOperation::attend_backward;
  wait(*step, attends ? Payload::kv : Payload::dkv, after);
  return attends ? compute(*step, start) : start(nullptr);
}

Completion DeviceRecordingBackend::attend(const StepInfo& step, const Region& region,
                                          const QueryBlock& q, const KvBlock& block,
                                          const SoftmaxState& state, const Completion& after) {
  region_pairs_ = region.pairs();
  Completion attended = ForwardingBackend::attend(step, region, q, block, state, after);
  SampledRows sampled{};
  for_sampled_rows(region.queries.size(), [&](Index row) {
    sampled.rows[sampled.count++] = row;
    slices_.back().sampled.push_back(region.queries.global_position(row));
  });
  slices_.back().first_sample = kSampledRows * sampled_++;
  if (inner_.has_state())
    launch_sample_rows(sampled, state.row_max, state.row_sum,
                       samples_.data() + slices_.back().first_sample, inner_.stream());
  return attended;
}

Completion DeviceRecordingBackend::attend_backward(const StepInfo& step, const Region& region,
                                                   const QueryBlock& q, const KvBlock& block,
                                                   const BackwardState& state,
                                                   const KvGradient& gradient,
                                                   const Completion& after) {
  region_pairs_ = region.pairs();
  return ForwardingBackend::attend_backward(step, region, q, block, state, gradient, after);
}

// Wait step by step, so that the listener hears of each step as it happens and a failing kernel is
// reported at its own step.
void DeviceRecordingBackend::finish_all() {
  const RingSchedule ring{rank_.rank(), rank_.config().world_size};
  for (const Slice& slice : slices_)
    with_step_in_errors(ring.rank, slice.step.step, [&] {
      rank_.pulse().at(slice.step.pass, slice.step.step);
      {
        const ShownWait shown(&rank_.pulse(), slice.awaited, ring.recv_rank());
        slice.end->wait();
      }
      if (slice.awaited == nullptr && listener_) listener_(slice.pairs);
    });
  if (!slices_.empty())  // wait also for what came after the last slice
    with_step_in_errors(ring.rank, slices_.back().step.step,
                        [&] { RINGSCOPE_CUDA(cudaStreamSynchronize(inner_.stream())); });
}

void DeviceRecordingBackend::flush() {
  std::vector<BlockStats> stats[2];  // [pass]
  std::size_t blocks[2] = {0, 0};
  for (const Slice& slice : slices_)
    with_step_in_errors(rank_.rank(), slice.step.step, [&] {
      if (slice.awaited != nullptr) return flush_wait(slice);
      const int pass = static_cast<int>(slice.step.pass);
      next_.attends(slice.step);
      if (stats[pass].empty()) stats[pass] = inner_.all_stats(slice.step.pass);
      const std::size_t block = blocks[pass]++;
      flush_compute(slice, stats[pass].at(block), static_cast<int>(block));
    });
  slices_.clear();
}

// Record a wait only if the hop ended after the stream reached it.
void DeviceRecordingBackend::flush_wait(const Slice& slice) {
  const TransferTimes hop = slice.awaited->times();
  if (hop.last_peer < 0) return;  // waited for its own work, not for a peer
  TraceEvent event = wait_event(next_.after(slice.step), slice.payload);
  event.begin_ns = recorded_ns(slice.begin);
  event.end_ns = recorded_ns(slice.end->event());
  event.waiting_for = hop.last_peer;
  if (std::max(hop.send_end, hop.recv_end) - rank_.recorder().origin_ns() > event.begin_ns)
    rank_.recorder().record(event);
}

void DeviceRecordingBackend::flush_compute(const Slice& slice, const BlockStats& stats, int block) {
  TraceEvent event = compute_event(slice.step, params_, stats, slice.heads);
  event.begin_ns = recorded_ns(slice.begin);
  event.end_ns = recorded_ns(slice.end->event());
  event.cpu_ns = event.end_ns - event.begin_ns;
  rank_.recorder().record(event);
  if (StampLog* const log = inner_.stamps(slice.step.pass)) {
    std::int64_t dropped = 0;
    for (KernelSpan& span :
         log->spans(block, slice.step.pass, event.begin_ns, event.end_ns, dropped)) {
      span.step = slice.step.step;
      rank_.recorder().record(span);
    }
    rank_.recorder().drop_stamps(dropped);
  }
  for (std::size_t i = 0; i < slice.sampled.size(); ++i)
    rank_.recorder().record(sample_of(rank_.rank(), slice.step.step, slice.sampled[i], event.end_ns,
                                      samples_[slice.first_sample + i].row_max,
                                      samples_[slice.first_sample + i].row_sum));
}

}  // namespace ringscope::cuda
