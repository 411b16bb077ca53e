#include "core/ring/recording.h"

#include <time.h>

#include <cmath>

#include "core/attention/online_softmax.h"
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
  TraceEvent event{.lane = Lane::wait,
                   .pass = step.pass,
                   .payload = payload,
                   .step = step.step,
                   .kv_owner = step.kv_owner};
  event.begin_ns = recorder_.now_ns();
  after->wait();
  event.end_ns = recorder_.now_ns();
  event.waiting_for = after->times().last_peer;
  recorder_.record(event);
}

template <class Attend>
void RecordingBackend::record_compute(const StepInfo& step, Attend&& attend) {
  TraceEvent event{
      .lane = Lane::compute, .pass = step.pass, .step = step.step, .kv_owner = step.kv_owner};
  const std::int64_t cpu_begin = thread_cpu_ns();
  event.begin_ns = recorder_.now_ns();
  wait_for(attend());
  event.end_ns = recorder_.now_ns();
  event.cpu_ns = thread_cpu_ns() - cpu_begin;
  const BlockStats& stats = inner_.last_stats();
  event.pairs = stats.pairs;
  // Two products of 2 * head_dim operations a pair; the backward has five.
  event.flops = (step.pass == Pass::forward ? 4 : 10) * params_.head_dim * params_.batch *
                params_.num_heads * stats.pairs;
  event.tiles_full = stats.tiles_full;
  event.tiles_partial = stats.tiles_partial;
  event.tiles_skipped = stats.tiles_skipped;
  recorder_.record(event);
  if (listener_) listener_(stats.pairs);
}

void RecordingBackend::record_samples(const StepInfo& step, const Region& region,
                                      const SoftmaxState& state) {
  const Index rows = region.queries.size();
  Index last = -1;
  for (const Index row : {Index{0}, rows / 2, rows - 1}) {
    if (row <= last || row >= rows) continue;  // few rows, or none
    last = row;
    const RowState<double> now{state.row_max[row], state.row_sum[row]};
    recorder_.record(SoftmaxSample{.rank = rank_,
                                   .step = step.step,
                                   .query = region.queries.global_position(row),
                                   .at_ns = recorder_.now_ns(),
                                   .row_max = state.row_max[row],
                                   .row_sum = static_cast<float>(now.row_sum),
                                   .lse = static_cast<float>(lse_of(now)),
                                   .lse_error = 0});
  }
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
  // Only now is the final lse known. A rank's samples are of three rows at most, repeated step by
  // step.
  std::vector<SoftmaxSample>& samples = recorder_.samples();
  for (SoftmaxSample& sample : samples)
    for (auto last = samples.rbegin(); last != samples.rend(); ++last)
      if (last->query == sample.query) {
        sample.lse_error = sample.lse == last->lse ? 0 : std::abs(sample.lse - last->lse);
        break;
      }
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
