#include "core/model/merge.h"
#include "core/base/error.h"

#include <algorithm>
#include <span>

#include "core/attention/online_softmax.h"
#include "core/base/text.h"
#include "core/model/replica.h"

namespace ringscope {

bool hand_on(Communicator& comm, const TreeRound& round, const float* message, float* incoming,
             Index size, int& step) {
  const int n = comm.world_size();
  const auto is_sender = [&](int place) { return place >= 0 && round.sends(place); };
  const auto rank_at = [&](int place) { return (round.first_rank + place) % n; };
  bool is_for_me = false;
  for (int hop = 0; hop < round.distance; ++hop, ++step) {
    Exchange exchange{.payload = Payload::dkv, .step = step};
    // A message that began at a place is `hop` places on by now.
    if (const int from = round.place - hop; is_sender(from)) {
      exchange.send_owner = rank_at(from);
      exchange.send = hop == 0 ? message : incoming;
      exchange.send_bytes = size * static_cast<Index>(sizeof(float));
    }
    if (const int from = round.place - hop - 1; is_sender(from)) {
      exchange.recv_owner = rank_at(from);
      exchange.recv = incoming;
      exchange.recv_bytes = size * static_cast<Index>(sizeof(float));
      is_for_me = hop == round.distance - 1;
    }
    with_step_in_errors(comm.rank(), step, [&] { wait_for(comm.exchange(exchange, {})); });
  }
  return is_for_me;
}

void broadcast(Communicator& comm, int root, float* values, Index size, int& step) {
  const int n = comm.world_size();
  for (int k = tree_rounds(n) - 1; k >= 0; --k) {
    const int distance = 1 << k;
    const auto sends = [&](int place) {
      return place % (2 * distance) == 0 && place + distance < n;
    };
    // A rank that passes on what it already has only writes the same bytes again.
    hand_on(comm, {(comm.rank() - root + n) % n, root, distance, sends}, values, values, size,
            step);
  }
}

MergeKind parse_merge(std::string_view text) { return parse_name(text, kAllMerges); }

MergeCost merge_cost(MergeKind kind, Index heads, Index head_dim, int world_size) {
  const Index n = world_size, b = 4 * (head_dim + 1);
  MergeCost cost;
  cost.bytes = 2 * (n - 1) * heads * b;
  if (kind == MergeKind::ring) {
    cost.rounds = cost.hops = 2 * (n - 1);
    cost.messages = cost.hop_messages = 2 * (n - 1) * min_of(n, heads);
    cost.way_bytes = 2 * (n - 1) * ceil_div(heads, n) * b;
    cost.hop_bytes = cost.bytes;
    return cost;
  }
  cost.rounds = 2 * tree_rounds(world_size);
  cost.messages = 2 * (n - 1);
  cost.way_bytes = cost.rounds * heads * b;
  for (Index distance = 1; distance < n; distance *= 2) {
    const Index senders = (n - 1 + distance) / (2 * distance);
    cost.hops += 2 * distance;
    cost.hop_messages += 2 * senders * distance;
  }
  cost.hop_bytes = cost.hop_messages * heads * b;
  return cost;
}

Merger::Merger(MergeKind kind, const AttentionShape& shape, int world_size, MemoryMeter* meter)
    : kind_(kind),
      heads_(row_values(shape, 1)),
      stride_(shape.head_dim + 1),
      wide_(meter, world_size == 1 ? 0 : 2 * shape.head_dim) {
  if (world_size == 1) return;
  const Index heads = kind == MergeKind::ring ? ceil_div(heads_, world_size) : heads_;
  incoming_ = {meter, heads * stride_};
}

void Merger::merge(Communicator& comm, float* partial) {
  if (comm.world_size() == 1) return;
  if (kind_ == MergeKind::tree) return up_and_down_tree(comm, partial);
  ring_all_reduce(
      comm, Pass::forward, heads_, stride_, partial, incoming_.data(),
      [this](float* into, const float* other, Index heads) { merge_heads(into, other, heads); });
}

void Merger::merge_heads(float* into, const float* other, Index heads) {
  const Index d = stride_ - 1;
  const std::span a(wide_.data(), static_cast<std::size_t>(d));
  const std::span b(wide_.data() + d, static_cast<std::size_t>(d));
  for (Index h = 0; h < heads; ++h, into += stride_, other += stride_) {
    std::copy_n(into, d, a.begin());
    std::copy_n(other, d, b.begin());
    double lse = into[d];
    merge_by_lse<double>(lse, a, other[d], b);
    std::copy_n(a.begin(), d, into);
    into[d] = static_cast<float>(lse);
  }
}

void Merger::up_and_down_tree(Communicator& comm, float* partial) {
  const int n = comm.world_size(), last = n - 1;
  int step = 0;
  for (int distance = 1; distance < n; distance *= 2) {
    // Places are seen from the last rank, where the tree ends.
    const auto sends = [&](int rank) { return (last - rank) % (2 * distance) == distance; };
    if (hand_on(comm, {comm.rank(), 0, distance, sends}, partial, incoming_.data(),
                heads_ * stride_, step))
      merge_heads(partial, incoming_.data(), heads_);
  }
  broadcast(comm, last, partial, heads_ * stride_, step);
}

}  // namespace ringscope
