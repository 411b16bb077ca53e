#include "viz/model/analysis/failure.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/model/session/format.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kMostWaits = 4;  // one sentence each

bool failed(const Trace& trace) { return trace.run && trace.run->failure; }

bool is_of(const SliceId& id, const Trace& trace, int rank) {
  return static_cast<int>(trace.rank_of_row(id.row)) == rank;
}

// Return whether both ends of the hop that `wait` is for were over when it ended: its block was
// received, and the block that this rank sent in the same step was taken.
bool came(const Trace& trace, int rank, const Slice& wait) {
  const auto over = [&wait](const Slice& end) {
    return end.pass == wait.pass && end.payload == wait.payload && end.end_ns <= wait.end_ns;
  };
  const std::vector<Slice>& received = trace.slices_of(rank, RingLane::recv);
  const auto recv = std::find_if(received.begin(), received.end(), [&](const Slice& slice) {
    return over(slice) && slice.kv_owner == wait.kv_owner;
  });
  if (recv == received.end()) return false;
  const std::vector<Slice>& sent = trace.slices_of(rank, RingLane::send);
  return std::any_of(sent.begin(), sent.end(),
                     [&](const Slice& slice) { return over(slice) && slice.step == recv->step; });
}

// Return the slice of a rank that ends last, or the wait if several end together.
std::optional<SliceId> last_slice(const Trace& trace, int rank) {
  std::optional<SliceId> last;
  for (const RingLane lane : kAllLanes) {
    const std::uint32_t row = trace.row_of(rank, lane);
    const std::vector<Slice>& slices = trace.rows[row].slices;
    if (slices.empty()) continue;
    const SliceId id{row, static_cast<std::uint32_t>(slices.size() - 1)};
    if (!last || trace.slice(id).end_ns >= trace.slice(*last).end_ns) last = id;
  }
  return last;
}

}  // namespace

std::vector<SliceId> unfinished_waits(const Trace& trace) {
  std::vector<SliceId> waits;
  if (!failed(trace)) return waits;
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank) {
    const std::uint32_t row = trace.row_of(rank, RingLane::wait);
    const std::vector<Slice>& slices = trace.rows[row].slices;
    if (slices.empty()) continue;
    const Slice& wait = slices.back();
    const std::vector<Slice>& computed = trace.slices_of(rank, RingLane::compute);
    const bool went_on = !computed.empty() && computed.back().begin_ns >= wait.end_ns;
    if (!went_on && !came(trace, rank, wait))
      waits.push_back({row, static_cast<std::uint32_t>(slices.size() - 1)});
  }
  return waits;
}

std::optional<std::int64_t> last_seen_ns(const Trace& trace, int rank) {
  const std::optional<SliceId> last = last_slice(trace, rank);
  if (!last) return std::nullopt;
  return trace.slice(*last).end_ns;
}

std::optional<FailurePlace> failure_place(const Trace& trace, const std::vector<SliceId>& waits) {
  if (!failed(trace)) return std::nullopt;
  const int rank = trace.run->failure->rank;
  FailurePlace place;
  if (rank < static_cast<int>(trace.ranks.size())) place.rank = rank;
  place.at_ns = trace.end_ns;
  const auto own = std::find_if(waits.begin(), waits.end(),
                                [&](const SliceId& id) { return is_of(id, trace, rank); });
  const auto longest =
      std::max_element(waits.begin(), waits.end(), [&trace](const SliceId& a, const SliceId& b) {
        return trace.slice(a).duration_ns() < trace.slice(b).duration_ns();
      });
  if (!waits.empty()) {
    place.slice = own != waits.end() ? *own : *longest;
    // Look where the wait begins: what led to it is just before, and then nothing happens.
    place.at_ns = trace.slice(*place.slice).begin_ns;
  } else if (place.rank >= 0) {
    place.at_ns = last_seen_ns(trace, place.rank).value_or(trace.begin_ns);
  }
  return place;
}

std::vector<std::string> findings_of_failure(const Trace& trace,
                                             const std::vector<SliceId>& waits) {
  std::vector<std::string> sentences;
  if (!failed(trace)) return sentences;
  const int rank = trace.run->failure->rank;
  const bool known = rank >= 0 && rank < static_cast<int>(trace.ranks.size());
  const auto waits_itself = std::any_of(waits.begin(), waits.end(),
                                        [&](const SliceId& id) { return is_of(id, trace, rank); });
  if (known && !waits_itself) {
    const std::optional<SliceId> last = last_slice(trace, rank);
    sentences.push_back(
        last ? fmt::format("Nothing was recorded of rank {} after {}, at {}.", rank,
                           words_of_step(trace.slice(*last).pass, trace.slice(*last).step),
                           words_of_time(trace.slice(*last).end_ns - trace.begin_ns))
             : fmt::format("Nothing was recorded of rank {}.", rank));
  }
  std::vector<SliceId> longest = waits;
  std::stable_sort(longest.begin(), longest.end(), [&trace](const SliceId& a, const SliceId& b) {
    return trace.slice(a).duration_ns() > trace.slice(b).duration_ns();
  });
  for (std::size_t i = 0; i < std::min(longest.size(), kMostWaits); ++i) {
    const Slice& wait = trace.slice(longest[i]);
    const auto waiting = static_cast<int>(trace.rank_of_row(longest[i].row));
    const std::string step = words_of_step(wait.pass, wait.step);
    const std::string time = words_of_time(wait.duration_ns());
    sentences.push_back(
        wait.peer == waiting
            ? fmt::format("Rank {} waited in {} for its own part of the hop, in vain: {}.", waiting,
                          step, time)
            : fmt::format("Rank {} waited for rank {} in {}, in vain: {}.", waiting, wait.peer,
                          step, time));
  }
  if (longest.size() > kMostWaits)
    sentences.push_back(fmt::format("So did {} more ranks.", longest.size() - kMostWaits));
  sentences.push_back(
      "The run ended before its time: the figures are of what was recorded until then.");
  return sentences;
}

}  // namespace ringscope::viz
