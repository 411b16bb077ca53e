#include "core/threads/recording.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/attention/large_values.h"
#include "core/attention/online_softmax.h"
#include "core/trace/tile.h"

namespace ringscope {

TraceEvent wait_event(const StepInfo& step, Payload payload) {
  return {.lane = Lane::wait,
          .pass = step.pass,
          .payload = payload,
          .step = step.step,
          .kv_owner = step.kv_owner};
}

NextAttended::NextAttended(const std::vector<StepInfo>& attended) {
  for (const StepInfo& step : attended) of_[static_cast<int>(step.pass)].attended.push_back(step);
}

void NextAttended::begins(Pass pass) {
  OfPass& of = of_[static_cast<int>(pass)];
  if (of.next == of.attended.size()) of.next = 0;  // once more
}

void NextAttended::attends(const StepInfo& step) {
  OfPass& of = of_[static_cast<int>(step.pass)];
  if (of.next >= of.attended.size()) return;
  const StepInfo& next = of.attended[of.next];
  if (next.step == step.step && next.kv_owner == step.kv_owner) ++of.next;
}

StepInfo NextAttended::after(const StepInfo& step) const {
  const OfPass& of = of_[static_cast<int>(step.pass)];
  if (of.next >= of.attended.size()) return {step.pass, -1, -1, step.last};
  return of.attended[of.next];
}

TraceEvent compute_event(const StepInfo& step, const AttentionParams& params,
                         const BlockStats& stats, const HeadShare& share) {
  TraceEvent event{
      .lane = Lane::compute, .pass = step.pass, .step = step.step, .kv_owner = step.kv_owner};
  event.pairs = pairs_of_share(params, stats.pairs, share);
  event.flops = flops_of_a_pair(params, step.pass) * params.batch * share.num_heads * stats.pairs;
  event.tiles_full = stats.tiles_full;
  event.tiles_partial = stats.tiles_partial;
  event.tiles_skipped = stats.tiles_skipped;
  return event;
}

SoftmaxSample sample_of(int rank, int step, Index query, std::int64_t at_ns, float row_max,
                        double row_sum) {
  return {.rank = rank,
          .step = step,
          .query = query,
          .at_ns = at_ns,
          .row_max = row_max,
          .row_sum = static_cast<float>(row_sum),
          .lse = static_cast<float>(lse_of(RowState<double>{row_max, row_sum})),
          .lse_error = -1};
}

RankEvents recorded_by(const Recorder& recorder, bool has_final_lse) {
  RankEvents recorded{.events = recorder.events(),
                      .samples = recorder.samples(),
                      .dropped = recorder.dropped(),
                      .kernel = recorder.kernel(),
                      .dropped_stamps = recorder.dropped_stamps(),
                      .tile = recorder.tile()};
  if (!has_final_lse) return recorded;
  // A rank samples at most three rows, repeated step by step.
  for (SoftmaxSample& sample : recorded.samples)
    for (auto last = recorded.samples.rbegin(); last != recorded.samples.rend(); ++last)
      if (last->query == sample.query) {
        sample.lse_error = sample.lse == last->lse ? 0 : std::abs(sample.lse - last->lse);
        break;
      }
  return recorded;
}

RecordingBackend::RecordingBackend(BlockBackend& inner, Recorder& recorder,
                                   const AttentionParams& params, const RingSchedule& ring,
                                   NextAttended next, Listener listener, RankPulse* pulse)
    : ForwardingBackend(inner),
      recorder_(recorder),
      params_(params),
      share_{0, params.num_heads, 0, params.num_heads_kv},
      ring_(ring),
      next_(std::move(next)),
      listener_(std::move(listener)),
      pulse_(pulse) {}

void RecordingBackend::record_wait(const StepInfo& step, Payload payload, const Completion& after) {
  if (pulse_ != nullptr) pulse_->at(step.pass, step.step);
  if (after == nullptr || after->done()) return;
  TraceEvent event = wait_event(next_.after(step), payload);
  event.begin_ns = recorder_.now_ns();
  try {
    const ShownWait shown(pulse_, after, ring_.recv_rank());
    after->wait();
  } catch (...) {
    // The rank itself is named where its own half of the hop is missing: it waits for nobody else.
    const int awaited = after->awaited().rank;
    event.end_ns = recorder_.now_ns();
    event.waiting_for = awaited >= 0 ? awaited : ring_.recv_rank();
    recorder_.record(event);
    throw;
  }
  event.end_ns = recorder_.now_ns();
  event.waiting_for = after->times().last_peer;
  recorder_.record(event);
}

Completion RecordingBackend::around(BlockOperation which, const StepInfo* step,
                                    const Completion& after, const Start& start) {
  const bool attends = which == BlockOperation::attend || which == BlockOperation::attend_backward;
  if (step != nullptr) record_wait(*step, attends ? Payload::kv : Payload::dkv, after);
  if (which == BlockOperation::begin) next_.begins(Pass::forward);
  if (which == BlockOperation::begin_backward) next_.begins(Pass::backward);
  if (!attends) return start(after);
  next_.attends(*step);
  const std::int64_t cpu_begin = clock_ns(CLOCK_THREAD_CPUTIME_ID), begin = recorder_.now_ns();
  wait_for(start(after));
  const std::int64_t end = recorder_.now_ns(), cpu_end = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  TraceEvent event = compute_event(*step, params_, inner_.last_stats(), share_);
  event.begin_ns = begin;
  event.end_ns = end;
  event.cpu_ns = cpu_end - cpu_begin;
  recorder_.record(event);
  if (listener_) listener_(event.pairs);
  return nullptr;
}

void RecordingBackend::attended(const StepInfo& step, const BlockStats& stats,
                                std::int64_t begin_ns, std::int64_t cpu_ns) {
  next_.attends(step);
  TraceEvent event = compute_event(step, params_, stats, share_);
  event.begin_ns = begin_ns - recorder_.origin_ns();
  event.end_ns = recorder_.now_ns();
  event.cpu_ns = cpu_ns;
  recorder_.record(event);
  if (pulse_ != nullptr) pulse_->advance();
  if (listener_) listener_(event.pairs);
}

namespace {

// Return the local rows of a region's queries and keys that a recorded tile shows.
std::pair<Interval, Interval> shown_tile(const Region& region) {
  const auto of_most = [](Index first, Index size) {
    const Index begin = std::max<Index>(0, std::min(first, size - RecordedTile::kMost));
    return Interval{begin, std::min(size, begin + RecordedTile::kMost)};
  };
  Index row = 0, key = -1;
  for (; row < region.queries.size() && key < 0; ++row)
    region.for_allowed_rows(row, [&](Interval keys) { key = key < 0 ? keys.first : key; });
  return {of_most(row - 1, region.queries.size()), of_most(key, region.keys.size())};
}

// Return the first `columns` values of each of so many rows of a tensor in host memory, whose first row
// begins at value `from`.
std::vector<float> first_values(DType dtype, const void* tensor, Index from, Index rows,
                                Index width, Index columns) {
  std::vector<float> values;
  visit_dtype(dtype, [&]<class T>(T) {
    const T* const row = static_cast<const T*>(tensor) + from;
    for (Index i = 0; i < rows * columns; ++i)
      values.push_back(to_float(row[i / columns * width + i % columns]));
  });
  return values;
}

// Return what a tile's rows have: row_max, row_sum and out_accum, in units of the weight 1.
void take_state(const SoftmaxState& state, const AttentionParams& params, Interval rows,
                std::vector<float>& row_max, std::vector<float>& row_sum,
                std::vector<float>& out_accum) {
  const Index width = params.value_dim();
  for (Index row = rows.first; row < rows.last; ++row) {
    const double unit = weight_unit(state.row_sum[row], params.seqlen);
    row_max.push_back(state.row_max[row]);
    row_sum.push_back(static_cast<float>(state.row_sum[row] / unit));
    for (Index x = 0; x < std::min(width, RecordedTile::kMost); ++x)
      out_accum.push_back(static_cast<float>(state.out_accum[row * width + x] / unit));
  }
}

}  // namespace

Completion RecordingBackend::attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                                    const KvBlock& block, const SoftmaxState& state,
                                    const Completion& after) {
  const bool records = step.step == tile_step_ && tile_row_ < 0 && region.pairs() > 0;
  RecordedTile tile;
  if (records) tile = begun_tile(step, region, state);
  ForwardingBackend::attend(step, region, q, block, state, after);
  if (records) end_tile(std::move(tile), region, q, block, state);
  for_sampled_rows(region.queries.size(), [&](Index row) {
    const double row_sum = state.row_sum[row] / weight_unit(state.row_sum[row], params_.seqlen);
    recorder_.record(sample_of(ring_.rank, step.step, region.queries.global_position(row),
                               recorder_.now_ns(), state.row_max[row], row_sum));
  });
  return nullptr;
}

RecordedTile RecordingBackend::begun_tile(const StepInfo& step, const Region& region,
                                          const SoftmaxState& state) const {
  const auto [rows, keys] = shown_tile(region);
  RecordedTile tile{.rank = ring_.rank,
                    .step = step.step,
                    .kv_owner = step.kv_owner,
                    .softmax_scale = static_cast<float>(params_.softmax_scale)};
  for (Index i = rows.first; i < rows.last; ++i)
    tile.queries.push_back(region.queries.global_position(i));
  for (Index j = keys.first; j < keys.last; ++j)
    tile.keys.push_back(region.keys.global_position(j));
  take_state(state, params_, rows, tile.row_max_before, tile.row_sum_before, tile.out_before);
  return tile;
}

void RecordingBackend::end_tile(RecordedTile tile, const Region& region, const QueryBlock& q,
                                const KvBlock& block, const SoftmaxState& state) {
  const auto [rows, keys] = shown_tile(region);
  const Index d = params_.head_dim, d_v = params_.value_dim();
  const Index all_keys = params_.batch * share_.num_heads_kv * block.rows * d;
  tile.q = first_values(params_.dtype, q.q, rows.first * d, rows.size(), d, d);
  tile.k = first_values(params_.dtype, block.data, keys.first * d, keys.size(), d, d);
  tile.v = first_values(params_.dtype, block.data, all_keys + keys.first * d_v, keys.size(), d_v,
                        std::min(d_v, RecordedTile::kMost));
  for (Index i = 0; i < rows.size(); ++i)
    for (Index j = 0; j < keys.size(); ++j) {
      const Index row = rows.first + i, key = keys.first + j;
      const double score = scaled_product(tile, i, j), cap = params_.softcap;
      const bool is_allowed = region.pairs({row, row + 1}, {key, key + 1}) > 0;
      tile.scores.push_back(!is_allowed ? kMinusInfinity<float>
                            : cap > 0   ? static_cast<float>(cap * std::tanh(score / cap))
                                        : static_cast<float>(score));
    }
  take_state(state, params_, rows, tile.row_max, tile.row_sum, tile.out_accum);
  tile_row_ = rows.first;
  recorder_.record(std::move(tile));
}

Completion RecordingBackend::finish(const QueryBlock& q, const SoftmaxState& state) {
  const Completion finished = ForwardingBackend::finish(q, state);
  const Index width = params_.value_dim();
  if (tile_row_ >= 0 && recorder_.tile()->out.empty())
    recorder_.tile()->out = first_values(DType::f32, state.out_accum, tile_row_ * width,
                                         std::ssize(recorder_.tile()->queries), width,
                                         std::min(width, RecordedTile::kMost));
  return finished;
}

RecordingCommunicator::RecordingCommunicator(Communicator& inner, Recorder& recorder,
                                             std::size_t max_hops, RankPulse* pulse)
    : ForwardingCommunicator(inner), recorder_(recorder), pulse_(pulse) {
  pending_.reserve(max_hops);
}

Completion RecordingCommunicator::exchange(const Exchange& hop,
                                           std::initializer_list<Completion> after) {
  if (pulse_ != nullptr) {
    pulse_->at(hop.pass, hop.step);
    pulse_->advance();
  }
  Completion completion = inner_.exchange(hop, after);
  pending_.push_back({hop, completion});
  return completion;
}

namespace {

// Make the slices of a lane nest or lie apart, as a recording's must: ranks send and receive
// several ways at once, and to several peers. Where two overlap, the one that began later begins
// when the other ends.
void nest(std::vector<TraceEvent>& slices) {
  const auto is_later = [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns > b.begin_ns : a.end_ns < b.end_ns;
  };
  std::vector<TraceEvent> nested;
  std::vector<std::int64_t> open;  // the ends of the slices around the next one
  std::make_heap(slices.begin(), slices.end(), is_later);
  while (!slices.empty()) {
    std::pop_heap(slices.begin(), slices.end(), is_later);
    TraceEvent& next = slices.back();
    while (!open.empty() && open.back() <= next.begin_ns) open.pop_back();
    if (!open.empty() && open.back() < next.end_ns) {
      next.begin_ns = open.back();
      std::push_heap(slices.begin(), slices.end(), is_later);
      continue;
    }
    open.push_back(next.end_ns);
    nested.push_back(next);
    slices.pop_back();
  }
  slices = std::move(nested);
}

// Make the slices of either lane nest.
void nest_lanes(std::vector<TraceEvent>& slices) {
  const auto received = std::stable_partition(slices.begin(), slices.end(),
                                              [](const auto& e) { return e.lane == Lane::send; });
  std::vector<TraceEvent> others(received, slices.end());
  slices.erase(received, slices.end());
  nest(slices);
  nest(others);
  slices.insert(slices.end(), others.begin(), others.end());
}

}  // namespace

void RecordingCommunicator::wait() {
  for (const Pending& pending : pending_) {
    if (pending.completion->done()) continue;
    const Exchange& hop = pending.hop;
    const ShownWait shown(
        pulse_, pending.completion,
        hop.receives() ? hop.sender(rank(), world_size()) : hop.receiver(rank(), world_size()));
    pending.completion->wait();
  }
}

void RecordingCommunicator::flush_what_happened() {
  std::vector<TraceEvent> slices;
  bool may_overlap = false;
  for (const Pending& pending : pending_) {
    add_slices(pending, flows_++, slices);
    may_overlap |= pending.hop.to >= 0 || pending.hop.from >= 0;
  }
  pending_.clear();
  if (may_overlap) nest_lanes(slices);
  for (const TraceEvent& slice : slices) recorder_.record(slice);
}

void RecordingCommunicator::add_slices(const Pending& pending, std::int64_t place,
                                       std::vector<TraceEvent>& to) const {
  const Exchange& hop = pending.hop;
  const bool happened = pending.completion->done();
  const TransferTimes times =
      happened ? pending.completion->times() : pending.completion->times_so_far();
  // Both sides compute the same number, however many passes are recorded, because all ranks start
  // the same hops in the same order.
  const auto flow_from = [&](int sender) { return 1 + place * world_size() + sender; };
  const auto slice = [&](Lane lane, int owner, std::int64_t begin, std::int64_t end) {
    TraceEvent event{.lane = lane,
                     .pass = hop.pass,
                     .payload = hop.payload,
                     .step = hop.step,
                     .kv_owner = owner};
    event.begin_ns = begin - recorder_.origin_ns();
    event.end_ns = end - recorder_.origin_ns();
    return event;
  };
  if (hop.sends() && (happened || times.send_end != 0)) {
    TraceEvent sent = slice(Lane::send, hop.send_owner, times.send_begin, times.send_end);
    sent.bytes = hop.send_bytes;
    sent.src = rank();
    sent.dst = hop.receiver(rank(), world_size());
    sent.flow = flow_from(rank());
    to.push_back(sent);
  }
  if (hop.receives() && (happened || times.recv_end != 0)) {
    TraceEvent received = slice(Lane::recv, hop.recv_owner, times.recv_begin, times.recv_end);
    received.bytes = hop.recv_bytes;
    received.src = hop.sender(rank(), world_size());
    received.dst = rank();
    received.flow = flow_from(received.src);
    to.push_back(received);
  }
}

}  // namespace ringscope
