#include "core/ring/recording.h"

#include <time.h>

#include "core/ring/recorded.h"
#include "core/ring/schedule.h"

namespace ringscope {

namespace {

std::int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

}  // namespace

RecordingBackend::RecordingBackend(BlockBackend& inner, Recorder& recorder,
                                   const AttentionParams& params, int rank, Listener listener)
    : inner_(inner),
      recorder_(recorder),
      params_(params),
      rank_(rank),
      listener_(std::move(listener)) {}

void RecordingBackend::record_wait(const StepInfo& step, Payload payload, const Completion& after) {
  if (after == nullptr || after->done()) return;
  TraceEvent event = wait_event(step, payload);
  event.begin_ns = recorder_.now_ns();
  after->wait();
  event.end_ns = recorder_.now_ns();
  event.waiting_for = after->times().last_peer;
  recorder_.record(event);
}

template <class Attend>
void RecordingBackend::record_compute(const StepInfo& step, Attend&& attend) {
  const std::int64_t cpu_begin = thread_cpu_ns(), begin = recorder_.now_ns();
  wait_for(attend());
  const std::int64_t end = recorder_.now_ns(), cpu_end = thread_cpu_ns();
  TraceEvent event = compute_event(step, params_, inner_.last_stats());
  event.begin_ns = begin;
  event.end_ns = end;
  event.cpu_ns = cpu_end - cpu_begin;
  recorder_.record(event);
  if (listener_) listener_(event.pairs);
}

void RecordingBackend::record_samples(const StepInfo& step, const Region& region,
                                      const SoftmaxState& state) {
  for_sampled_rows(region.queries.size(), [&](Index row) {
    recorder_.record(sample_of(rank_, step.step, region.queries.global_position(row),
                               recorder_.now_ns(), state.row_max[row], state.row_sum[row]));
  });
}

Completion RecordingBackend::begin(const QueryBlock& q, const SoftmaxState& state) {
  return inner_.begin(q, state);
}

Completion RecordingBackend::attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                                    const KvBlock& block, const SoftmaxState& state,
                                    const Completion& after) {
  record_wait(step, Payload::kv, after);
  record_compute(step, [&] { return inner_.attend(step, region, q, block, state, after); });
  record_samples(step, region, state);
  return nullptr;
}

Completion RecordingBackend::finish(const QueryBlock& q, const SoftmaxState& state) {
  const Completion finished = inner_.finish(q, state);
  set_lse_errors(recorder_.samples());  // only now is the final lse known
  return finished;
}

Completion RecordingBackend::begin_backward(const QueryBlock& q, const BackwardState& state) {
  return inner_.begin_backward(q, state);
}

Completion RecordingBackend::attend_backward(const StepInfo& step, const Region& region,
                                             const QueryBlock& q, const KvBlock& block,
                                             const BackwardState& state, const KvGradient& gradient,
                                             const Completion& after) {
  record_wait(step, Payload::kv, after);
  record_compute(
      step, [&] { return inner_.attend_backward(step, region, q, block, state, gradient, after); });
  return nullptr;
}

Completion RecordingBackend::add(const StepInfo& step, const KvGradient& into,
                                 const KvGradient& from, const Completion& after) {
  record_wait(step, Payload::dkv, after);
  return inner_.add(step, into, from, after);
}

Completion RecordingBackend::finish_backward(const StepInfo& step, const QueryBlock& q,
                                             const BackwardState& state, const Completion& after) {
  record_wait(step, Payload::dkv, after);
  return inner_.finish_backward(step, q, state, after);
}

RecordingCommunicator::RecordingCommunicator(Communicator& inner, Recorder& recorder,
                                             std::size_t max_hops)
    : inner_(inner), recorder_(recorder) {
  pending_.reserve(max_hops);
}

Completion RecordingCommunicator::exchange(const Exchange& hop,
                                           std::initializer_list<Completion> after) {
  Completion completion = inner_.exchange(hop, after);
  pending_.push_back({hop, completion});
  return completion;
}

void RecordingCommunicator::flush() {
  const RingSchedule ring{rank(), world_size()};
  for (const Pending& pending : pending_) {
    const Exchange& hop = pending.hop;
    pending.completion->wait();
    const TransferTimes times = pending.completion->times();
    // The same number on both sides: one for each (pass, payload, step, sender).
    const auto flow_from = [&](int sender) {
      const std::int64_t kind = 2 * static_cast<int>(hop.pass) + static_cast<int>(hop.payload);
      return 1 + (kind * ring.world_size + hop.step) * ring.world_size + sender;
    };
    TraceEvent sent{.lane = Lane::send,
                    .pass = hop.pass,
                    .payload = hop.payload,
                    .step = hop.step,
                    .kv_owner = hop.send_owner};
    sent.begin_ns = times.send_begin - recorder_.origin_ns();
    sent.end_ns = times.send_end - recorder_.origin_ns();
    sent.bytes = hop.send_bytes;
    sent.src = ring.rank;
    sent.dst = ring.send_rank();
    sent.flow = flow_from(ring.rank);
    recorder_.record(sent);
    TraceEvent received{.lane = Lane::recv,
                        .pass = hop.pass,
                        .payload = hop.payload,
                        .step = hop.step,
                        .kv_owner = hop.recv_owner};
    received.begin_ns = times.recv_begin - recorder_.origin_ns();
    received.end_ns = times.recv_end - recorder_.origin_ns();
    received.bytes = hop.recv_bytes;
    received.src = ring.recv_rank();
    received.dst = ring.rank;
    received.flow = flow_from(ring.recv_rank());
    recorder_.record(received);
  }
  pending_.clear();
}

}  // namespace ringscope
