#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "core/base/ranges.h"
#include "core/base/text.h"
#include "core/tools/foreign/inferred_layers.h"
#include "core/trace/scheme_names.h"

namespace ringscope {
namespace {

constexpr double kLeastWait = 0.25;  // of a transfer, if it tells when the block came
constexpr std::int64_t kFirstProfile = 946'684'800'000'000'000;  // the year 2000 in ns
constexpr std::int64_t kSoonNs =
    20'000;  // what a GPU takes to begin what was waiting, and some more

// Let the backward pass follow the forward one. Other layers lie between.
void join_passes(Recording& recording) {
  std::int64_t end = INT64_MIN, begin = INT64_MAX;
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events)
      if (e.pass == Pass::forward)
        end = std::max(end, e.end_ns);
      else
        begin = std::min(begin, e.begin_ns);
  for (auto& events : recording.events)
    for (TraceEvent& e : events)
      if (e.pass == Pass::backward && begin > end)
        e.begin_ns -= begin - end, e.end_ns -= begin - end;
}

// A rank that waits goes on when its block has come and its own has gone. Until it does go on, it
// does something that the profile does not show; if that takes the longer part, it did so all along.
void end_waits(Recording& recording) {
  for (int rank = 0; rank < std::ssize(recording.events); ++rank)
    for (TraceEvent& waited : recording.events[rank]) {
      if (waited.lane != Lane::wait) continue;
      // The last step's hop brings the rank's own gradients home.
      const int hop_step = waited.step - (waited.kv_owner != rank);
      std::int64_t done = waited.begin_ns;
      for (const TraceEvent& e : recording.events[rank])
        if ((e.lane == Lane::recv || e.lane == Lane::send) && e.step == hop_step &&
            e.pass == waited.pass && e.payload == waited.payload)
          done = std::max(done, e.end_ns);
      const bool waits = waited.end_ns - done < done - waited.begin_ns;
      waited.end_ns = waits ? std::min(waited.end_ns, done) : waited.begin_ns;
    }
}

// Let a transfer's slice end where the next one begins on its lane.
void clear_lanes(Recording& recording) {
  for (auto& events : recording.events)
    for (const Lane lane : {Lane::send, Lane::recv}) {
      std::vector<TraceEvent*> of_lane;
      for (TraceEvent& e : events)
        if (e.lane == lane) of_lane.push_back(&e);
      ranges::stable_sort(of_lane, {}, &TraceEvent::begin_ns);
      for (Index i = 0; i + 1 < std::ssize(of_lane); ++i)
        of_lane[i]->end_ns = std::min(of_lane[i]->end_ns, of_lane[i + 1]->begin_ns);
    }
}

}  // namespace

std::vector<ProfiledSpan> InferredLayers::kernels_of(int rank, Index layer, Pass pass,
                                                     int step) const {
  Index first = pass_of(layer, pass).kernels[rank];
  for (int before = 0; before < step; ++before) first += kernels_in(guess, rank, pass, before);
  const auto begin = ranks[rank].attention[at(pass)].begin() + first;
  return {begin, begin + kernels_in(guess, rank, pass, step)};
}

std::optional<ProfiledSpan> InferredLayers::hop_of(int rank, Index layer, Pass pass, int step,
                                                   Payload payload) const {
  const ProfiledRank& one = ranks[rank];
  const LayerPass& period = pass_of(layer, pass);
  const bool is_gradient = payload == Payload::dkv;
  if (is_gradient && (pass == Pass::forward || !has_gradients())) return std::nullopt;
  if (gathers && !is_gradient)
    return step == 0 ? std::optional(one.gathers[period.gather]) : std::nullopt;
  const int others = n() - 1;
  Index a_hop = guess.a_hop, begin = step;
  if (gathers) {
    a_hop = 1;
  } else if (pass == Pass::backward) {
    if (!has_gradients() && guess.back_hops % others != 0) return std::nullopt;
    a_hop = guess.back_hops / (has_gradients() ? 2 * others + 1 : others);
    if (has_gradients()) begin = 2 * step + (is_gradient && step < others);
  }
  begin = period.hops + begin * a_hop;
  ProfiledSpan hop = one.batches[begin];
  hop.end_ns = one.batches[begin + a_hop - 1].end_ns;
  hop.sent_ns = one.batches[begin + a_hop - 1].sent_ns;
  for (Index i = begin + 1; i < begin + a_hop; ++i)
    hop.bytes += std::min(one.batches[i].bytes, INT64_MAX / 8 - hop.bytes);
  return hop;
}

// Return the pairs of a step's kernels: as their lengths say, or as the deal does.
Index InferredLayers::pairs_of(int rank, int owner,
                               const std::vector<ProfiledSpan>& kernels) const {
  const Index square = rows * rows, triangle = rows * (rows + 1) / 2;
  const Index most = has_blocks ? square : square * n();
  double sum = 0;
  bool known = shape.seqlen > 0;
  for (const ProfiledSpan& kernel : kernels) {
    known = known && kernel.q_rows > 0 && kernel.k_rows > 0;
    sum += pairs_in(kernel);
  }
  if (known && sum > 0 && sum <= static_cast<double>(most)) return static_cast<Index>(sum);
  if (!has_blocks) {
    const Index own = deal.empty() ? square : triangle;
    const Index all = deal.empty()           ? square * n()
                      : deal == "contiguous" ? square * rank + triangle
                                             : (square * n() + rows) / 2;
    return early_kernels == 0 ? all : owner == rank ? own : std::max<Index>(all - own, 1);
  }
  if (deal.empty()) return square;
  if (owner == rank) return triangle;
  if (deal == "contiguous") return square;
  if (deal == "zigzag") return (square + 1) / 2;
  return owner < rank ? triangle : rows * (rows - 1) / 2;
}

// Let transfers last as long as the blocks were on their way. The host's note of a transfer ends
// when a rank waits for it: it tells when the block came if the rank had nothing to compute
// before that. Where it had, the block is taken to move as fast as the others, and it has come
// when its sender is done.
void InferredLayers::estimate_moves(Recording& recording) {
  struct Move {
    TraceEvent* ends[2];
    std::int64_t begin = 0;
    double seconds = 0;  // at the most
    bool is_known = false;
  };
  std::map<std::int64_t, Move> moves;  // by flow
  for (auto& events : recording.events)
    for (TraceEvent& e : events)
      if (e.flow > 0) moves[e.flow].ends[e.lane == Lane::recv] = &e;
  std::vector<double> known, all;  // of a byte
  for (auto& [flow, move] : moves) {
    const TraceEvent& got = *move.ends[1];
    move.begin = std::max(move.ends[0]->begin_ns, got.begin_ns);
    std::int64_t busy = move.begin;
    for (const TraceEvent& e : recording.events[got.dst])
      if (e.lane == Lane::compute && e.pairs > 0 && e.end_ns <= got.end_ns)
        busy = std::max(busy, e.end_ns);
    const std::int64_t sent = move.ends[0]->end_ns;
    const std::int64_t end = sent > move.begin ? std::min(sent, got.end_ns) : got.end_ns;
    move.seconds = static_cast<double>(std::max<std::int64_t>(1, end - move.begin));
    move.is_known = static_cast<double>(got.end_ns - busy) > kLeastWait * move.seconds;
    all.push_back(move.seconds / static_cast<double>(got.bytes));
    if (move.is_known) known.push_back(all.back());
  }
  if (moves.empty()) return;
  const Index told = known.size(), unseen = std::ssize(moves) - told;
  if (known.empty()) known = {*ranges::min_element(all)};
  const auto middle = known.begin() + known.size() / 2;
  std::nth_element(known.begin(), middle, known.end());
  for (auto& [flow, move] : moves) {
    const double usual = *middle * static_cast<double>(move.ends[0]->bytes);
    const double lasts = move.is_known ? move.seconds : std::min(move.seconds, usual);
    for (TraceEvent* end : move.ends) end->end_ns = move.begin + static_cast<std::int64_t>(lasts);
  }
  end_waits(recording);
  if (unseen == 0) return;
  notes.push_back(fmt::format(
      "{} of {} transfers are seen to end only after a computation: they are taken to last as "
      "long as the others (confidence {:.1f}).",
      unseen, std::ssize(moves), told < 2 ? 0.3 : 0.6));
}

void InferredLayers::write_rank(Recording& recording, int rank, Index layer, Pass pass) const {
  auto& events = recording.events[rank];
  const std::int64_t shift = ranks[rank].shift_ns;
  const int from = wrap(rank - guess.way), to = wrap(rank + guess.way);
  std::int64_t free = INT64_MIN;  // when the rank was last busy
  const auto wait = [&](Payload payload, int step, int owner, int hop_step, std::int64_t until) {
    const auto hop = hop_of(rank, layer, pass, hop_step, payload);
    if (!hop) return;
    TraceEvent e{.lane = Lane::wait, .pass = pass, .payload = payload};
    e.step = step, e.kv_owner = owner, e.waiting_for = from;
    e.begin_ns = std::max(free, hop->begin_ns + shift);
    e.end_ns = std::min(hop->end_ns + shift, until);
    if (e.end_ns <= e.begin_ns) return;
    free = e.end_ns;
    events.push_back(e);
  };
  const auto transfer = [&](Payload payload, int step, int owner) {
    const auto hop = hop_of(rank, layer, pass, step, payload);
    if (!hop) return;
    std::int64_t all_there = INT64_MIN;  // for a gather
    for (int other = 0; other < n() && gathers && payload == Payload::kv; ++other)
      all_there =
          std::max(all_there, hop_of(other, layer, pass, step)->begin_ns + ranks[other].shift_ns);
    for (const bool sends : {true, false}) {
      TraceEvent e{.lane = sends ? Lane::send : Lane::recv, .pass = pass, .payload = payload};
      e.step = step;
      e.kv_owner = sends ? owner : wrap(owner - guess.way);
      e.begin_ns = hop->begin_ns + shift;
      e.end_ns = (sends && ends_late && hop->sent_ns != 0 ? hop->sent_ns : hop->end_ns) + shift;
      e.bytes = hop->bytes > 0 ? hop->bytes : 2 * 4 * rows;
      if (all_there < e.end_ns && all_there > e.begin_ns) e.moved_ns = e.end_ns - all_there;
      e.src = sends ? rank : from;
      e.dst = sends ? to : rank;
      const int kind = 2 * at(pass) + (payload == Payload::dkv);
      e.flow = 1 + (kind * n() + step) * static_cast<std::int64_t>(n()) + e.src;
      events.push_back(e);
    }
  };
  // Return when the rank computes again, from a step on.
  const auto computes_from = [&](int step) {
    for (; step < n(); ++step)
      if (const auto ahead = kernels_of(rank, layer, pass, step); !ahead.empty())
        return ahead.front().begin_ns + shift;
    return INT64_MAX;
  };
  const bool returns = pass == Pass::backward && has_gradients();
  for (int step = 0; step < n(); ++step) {
    const int owner = wrap(rank - guess.way * step);
    const std::vector<ProfiledSpan> kernels = kernels_of(rank, layer, pass, step);
    const std::int64_t next = computes_from(step);
    if (step > 0) wait(Payload::kv, step, owner, step - 1, next);
    if (step == 0 && waits_first(pass)) wait(Payload::kv, step, owner, step, next);
    TraceEvent compute{.lane = Lane::compute, .pass = pass, .step = step, .kv_owner = owner};
    if (!kernels.empty()) {
      compute.begin_ns = next;
      compute.end_ns = free = std::max(kernels.back().end_ns + shift, compute.begin_ns);
      for (const ProfiledSpan& kernel : kernels) compute.cpu_ns += kernel.end_ns - kernel.begin_ns;
      compute.cpu_ns = std::min(compute.cpu_ns, compute.end_ns - compute.begin_ns);
      compute.pairs = pairs_of(rank, owner, kernels);
      compute.flops = (pass == Pass::forward ? 4 : 10) * compute.pairs * shape.batch *
                      shape.num_heads * shape.head_dim;
      events.push_back(compute);
    } else if (const auto hop = step > 0 ? hop_of(rank, layer, pass, step - 1)
                                         : std::nullopt) {  // a step without pairs takes no time
      compute.begin_ns = compute.end_ns = std::max(free, std::min(hop->end_ns + shift, next));
      events.push_back(compute);
    }
    if (step + 1 < n()) transfer(Payload::kv, step, owner);
    if (!returns) continue;
    transfer(Payload::dkv, step, owner);
    if (step > 0) wait(Payload::dkv, step, owner, step - 1, computes_from(step + 1));
    if (step + 1 == n()) wait(Payload::dkv, step, rank, step, computes_from(n()));
  }
}

// Return why hops and attention would take turns, if something that makes them do so is seen at
// most of the hops.
std::string InferredLayers::turns_because(Index layer) const {
  int hops = 0, same_stream = 0, host_waits = 0, queued = 0;
  bool launches_block = true;
  std::int64_t stream = -1;
  for (int rank = 0; rank < n(); ++rank) {
    const RankProfile& profile = *ranks[rank].profile;
    launches_block = launches_block && profile.launches_block;
    // Return whether the host waited for what ended, and then launched what begins.
    const auto waited = [&](std::int64_t end, std::int64_t begin) {
      return ranges::any_of(profile.host_waits, [&](const ProfiledSpan& wait) {
        return wait.begin_ns < end && wait.end_ns >= end && wait.end_ns <= begin;
      });
    };
    for (const Pass pass : kAllPasses)
      for (int step = 0; step + 1 < n() && (pass == Pass::forward || has_backward()); ++step) {
        const auto hop = hop_of(rank, layer, pass, step);
        const auto kernels = kernels_of(rank, layer, pass, step),
                   next = kernels_of(rank, layer, pass, step + 1);
        if (!hop || kernels.empty()) continue;
        ++hops;
        const ProfiledSpan &first = kernels.front(), &last = kernels.back();
        same_stream += hop->stream >= 0 && hop->stream == first.stream;
        host_waits += waited(last.end_ns, hop->begin_ns) || waited(hop->end_ns, first.begin_ns) ||
                      (!next.empty() && waited(hop->end_ns, next.front().begin_ns));
        stream = hop->stream;
        queued += ranges::any_of(profile.other_messages, [&](const ProfiledSpan& other) {
          return other.stream == hop->stream && other.begin_ns < last.end_ns &&
                 other.end_ns <= hop->begin_ns && hop->begin_ns <= other.end_ns + kSoonNs;
        });
      }
  }
  const auto is_rule = [&](int count) { return 2 * count > hops; };
  if (launches_block)
    return "Each launch of an attention kernel lasts until the kernel ends, as with "
           "CUDA_LAUNCH_BLOCKING=1.";
  if (is_rule(same_stream))
    return fmt::format("Both are on stream {}, which runs one kernel after the other.", stream);
  if (is_rule(host_waits))
    return "The host waits for the one (a synchronisation) before it launches the other.";
  if (is_rule(queued))
    return fmt::format(
        "Hops queue behind other messages on stream {}: one communicator is used for both.",
        stream);
  return "";
}

Recording InferredLayers::recording_of(Index layer) {
  Recording recording;
  RunInfo& info = recording.info;
  info.backend = "profile";
  if (gathers) info.scheme = kGathersFirst;
  info.mask = deal.empty() ? "full" : "causal";
  if (!deal.empty()) info.partition = deal;
  info.world_size = n();
  info.is_midway = layer > 0;
  info.lacks_shape = shape.seqlen == 0;
  info.kv_buffers = 2;
  info.shape = shape;
  info.shape.seqlen = n() * rows;
  info.clock_offset_ns = moved;
  info.clock_error_ns.assign(n(), 0);
  recording.events.resize(n());
  recording.dropped.assign(n(), 0);
  for (const Pass pass : kAllPasses)
    for (int rank = 0; rank < n() && (pass == Pass::forward || has_backward()); ++rank)
      write_rank(recording, rank, layer, pass);
  join_passes(recording);
  if (ends_late) estimate_moves(recording);
  clear_lanes(recording);
  std::int64_t first = INT64_MAX;
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) first = std::min(first, e.begin_ns);
  if (__builtin_add_overflow(ranks[0].profile->base_time_ns, first, &info.base_time_ns))
    info.base_time_ns = 0;
  if (info.base_time_ns < kFirstProfile) info.base_time_ns = 0;  // it counts from something else
  for (auto& events : recording.events)
    for (TraceEvent& e : events) e.begin_ns -= first, e.end_ns -= first;
  if (info.lacks_shape)
    notes.push_back(
        fmt::format("The files do not give the lengths: {} rows per rank of one head stand for "
                    "them. {}",
                    kProfileRows,
                    ranks[0].profile->has_shapes
                        ? "They have shapes, but of no attention [batch, heads, rows, head_dim]."
                        : "Profile with record_shapes=True to have them read."));
  return recording;
}

}  // namespace ringscope
