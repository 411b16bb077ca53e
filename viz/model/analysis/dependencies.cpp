#include "viz/model/analysis/dependencies.h"

#include <algorithm>

namespace ringscope::viz {

namespace {

constexpr std::uint64_t key(Pass pass, Payload payload, std::int32_t step) {
  return static_cast<std::uint64_t>(pass) << 63 | static_cast<std::uint64_t>(payload) << 62 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(step) & 0x3fffffff) << 32;
}

std::vector<std::uint64_t> table_of(const std::vector<Slice>& slices) {
  std::vector<std::uint64_t> table;
  table.reserve(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i)
    table.push_back(key(slices[i].pass, slices[i].payload, slices[i].step) | i);
  std::sort(table.begin(), table.end());
  return table;
}

std::optional<std::uint32_t> look_up(const std::vector<std::uint64_t>& table, std::uint64_t what) {
  const auto at = std::lower_bound(table.begin(), table.end(), what);
  if (at == table.end() || *at >> 32 != what >> 32) return std::nullopt;
  return static_cast<std::uint32_t>(*at);
}

// Return the slice with the greatest step <= that of `what`.
std::optional<std::uint32_t> look_up_last(const std::vector<std::uint64_t>& table,
                                          std::uint64_t what) {
  const auto at = std::upper_bound(table.begin(), table.end(), what | 0xffffffff);
  if (at == table.begin() || *std::prev(at) >> 62 != what >> 62) return std::nullopt;
  return static_cast<std::uint32_t>(*std::prev(at));
}

}  // namespace

Transfer transfer_of(const Trace& trace, const Slice& recv) {
  const std::int64_t sent_ns =
      recv.flow == 0 ? recv.begin_ns : trace.slice(trace.flows[recv.flow - 1].from).begin_ns;
  return {recv.peer, std::min(std::max(sent_ns, recv.begin_ns), recv.end_ns), recv.end_ns};
}

Dependencies::Dependencies(const Trace& trace)
    : trace_(trace),
      world_size_(trace.run->world_size),
      allgather_(trace.run->scheme == "allgather"),
      kv_buffers_(trace.run->kv_buffers > 0 ? std::min(trace.run->kv_buffers, world_size_) : 2) {
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    computes_.push_back(table_of(slices(static_cast<int>(rank), RingLane::compute)));
    recvs_.push_back(table_of(slices(static_cast<int>(rank), RingLane::recv)));
  }
}

std::optional<std::uint32_t> Dependencies::compute_at(int rank, Pass pass, int step) const {
  return look_up(computes_[static_cast<std::size_t>(rank)], key(pass, Payload::kv, step));
}

std::optional<std::uint32_t> Dependencies::last_compute(int rank, Pass pass) const {
  return look_up_last(computes_[static_cast<std::size_t>(rank)],
                      key(pass, Payload::kv, world_size_ - 1));
}

std::optional<std::uint32_t> Dependencies::recv_at(int rank, Pass pass, Payload payload,
                                                   int step) const {
  return look_up(recvs_[static_cast<std::size_t>(rank)], key(pass, payload, step));
}

std::optional<std::uint32_t> Dependencies::awaited(int rank, const Slice& wait) const {
  if (allgather_) {
    // There is one wait for all blocks, which ends with the last one, and then one for each sum.
    if (wait.payload == Payload::kv) return recv_at(rank, wait.pass, Payload::kv, world_size_ - 2);
    return recv_at(rank, wait.pass, Payload::dkv, wait.step);
  }
  // The sum of the rank's own block comes home by the last hop.
  const bool home = wait.payload == Payload::dkv && wait.kv_owner == rank;
  return recv_at(rank, wait.pass, wait.payload, home ? world_size_ - 1 : wait.step - 1);
}

std::optional<RankSlice> Dependencies::before_on_thread(const RankSlice& s) const {
  const std::int64_t begin = slice(s).begin_ns;
  std::optional<RankSlice> last;
  for (const RingLane lane : {RingLane::compute, RingLane::wait}) {
    const std::vector<Slice>& all = slices(s.rank, lane);
    std::size_t i = s.index;
    if (lane != s.lane)
      i = static_cast<std::size_t>(
          std::partition_point(all.begin(), all.end(),
                               [begin](const Slice& x) { return x.end_ns <= begin; }) -
          all.begin());
    if (i == 0) continue;
    // If both end at the same time, the wait came after.
    if (!last || all[i - 1].end_ns >= slice(*last).end_ns)
      last = RankSlice{s.rank, lane, static_cast<std::uint32_t>(i - 1)};
  }
  return last;
}

void Dependencies::needed_at(int rank, const Slice& recv, std::vector<RankSlice>& needed) const {
  const auto add = [&](RingLane lane, std::optional<std::uint32_t> index) {
    if (index) needed.push_back({rank, lane, *index});
  };
  const int step = recv.step;
  const bool kv = recv.payload == Payload::kv, backward = recv.pass == Pass::backward;
  // A block is passed on after it has come, and can come when the buffer's last block is attended.
  // A sum is passed on when the rank's own share is in it.
  if (step > 0) add(RingLane::recv, recv_at(rank, recv.pass, recv.payload, step - 1));
  if (allgather_) {
    if (!kv) add(RingLane::compute, last_compute(rank, recv.pass));
  } else if (kv) {
    // The hop is posted behind the sum of the step whose block was in the buffer.
    const int consumed = step + 1 - kv_buffers_;
    if (consumed >= 0) add(RingLane::compute, compute_at(rank, recv.pass, consumed));
    if (consumed >= 0 && backward)
      add(RingLane::recv, recv_at(rank, recv.pass, Payload::dkv, consumed));
  } else {
    add(RingLane::compute, compute_at(rank, recv.pass, step));
    // The sum is posted behind the blocks' hops that were posted before it.
    add(RingLane::recv, recv_at(rank, recv.pass, Payload::kv, step + kv_buffers_ - 2));
  }
  if (step == 0 && kv && backward) add(RingLane::compute, last_compute(rank, Pass::forward));
}

std::vector<RankSlice> Dependencies::needed_by(const RankSlice& recv) const {
  const Slice& received = slice(recv);
  std::vector<RankSlice> needed;
  needed_at(recv.rank, received, needed);
  if (is_rank(received.peer)) needed_at(received.peer, received, needed);
  return needed;
}

}  // namespace ringscope::viz
