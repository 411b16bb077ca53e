#include "viz/data/analysis/wait_reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "viz/data/analysis/ring_moment.h"

namespace ringscope::viz {
namespace {

// Return the slice of a rank's lane that ended last by `until` and fits, or none.
template <class Fits>
std::optional<SliceId> last_ended(const Trace& trace, int rank, Lane lane, std::int64_t until,
                                  Fits&& fits) {
  const std::uint32_t row = trace.row_of(rank, lane);
  const std::span<const TraceEvent> slices = trace.slices(row);
  auto at = std::partition_point(slices.begin(), slices.end(),
                                 [until](const TraceEvent& s) { return s.end_ns <= until; });
  while (at != slices.begin())
    if (fits(*--at)) return SliceId{row, static_cast<std::uint32_t>(at - slices.begin())};
  return std::nullopt;
}

std::string words_of_computing(int rank, const TraceEvent& compute) {
  return fmt::format("rank {} computes on KV {}", rank, compute.kv_owner);
}

// Return what a rank does at a moment that lets others wait, or "".
std::string words_of_doing(const Trace& trace, int rank, std::int64_t at) {
  for (const Lane lane : {Lane::compute, Lane::wait}) {
    const std::uint32_t row = trace.row_of(rank, lane);
    const std::span<const TraceEvent> slices = trace.slices(row);
    const auto now = std::partition_point(slices.begin(), slices.end(),
                                          [at](const TraceEvent& s) { return s.end_ns <= at; });
    if (now == slices.end() || now->begin_ns > at) continue;
    const SliceId id{row, static_cast<std::uint32_t>(now - slices.begin())};
    return lane == Lane::compute
               ? words_of_computing(rank, *now)
               : fmt::format("rank {} itself waits for {}", rank, words_of_awaited(trace, id));
  }
  return "";
}

// Follows a message back to what held it up. Of what had to be over before it got under way, that is what
// ended last.
class Reasons {
 public:
  Reasons(const Trace& trace, const TraceEvent& wait)
      : trace_(trace), since_(wait.begin_ns), slack_(wait.duration_ns() / 50) {}

  std::vector<std::string> of(int receiver, const TraceEvent& message) {
    const std::string name = name_of_message(trace_, message);
    const std::int64_t begun = under_way_ns(trace_, message);
    if (begun <= since_ + slack_) {
      const bool was_read = message.begin_ns >= since_ - slack_;
      return {name + (was_read ? " comes late: its receive buffer was read until now"
                               : fmt::format(" is on its way from rank {}", message.peer()))};
    }
    follow(receiver, message, begun);
    if (!said_.empty()) said_[0] = name + " has not come: " + said_[0];
    return std::move(said_);
  }

 private:
  void follow(int receiver, const TraceEvent& message, std::int64_t begun) {
    constexpr std::size_t kMost = 4;
    const int sender = message.peer();
    if (said_.size() == kMost || sender < 0 || sender >= trace_.rank_count()) return;
    const std::int64_t until = begun + slack_;
    const auto any = [](const TraceEvent&) { return true; };
    const auto block = last_ended(trace_, sender, Lane::recv, until, [&](const TraceEvent& s) {
      return s.pass == message.pass && s.payload == message.payload &&
             s.kv_owner == message.kv_owner;
    });
    const auto sent = last_ended(trace_, sender, Lane::send, until, [&](const TraceEvent& s) {
      return s.peer() == receiver && s.flow != message.flow && s.end_ns <= message.end_ns - 1;
    });
    const auto computed = last_ended(trace_, sender, Lane::compute, until, any);
    const auto read = last_ended(trace_, receiver, Lane::compute, until, any);
    std::optional<SliceId> last;
    for (const auto& each : {block, sent, computed, read})
      if (each && end_of(*each) > since_ + slack_ && (!last || end_of(*each) > end_of(*last)))
        last = each;
    if (!last) {
      said_.push_back(fmt::format("rank {} sends it late", sender));
    } else if (last == block) {
      const TraceEvent& before = trace_.slice(*block);
      said_.push_back(fmt::format("rank {} awaits it from rank {}", sender, before.peer()));
      const std::int64_t before_begun = under_way_ns(trace_, before);
      if (before_begun > since_ + slack_)
        follow(sender, before, before_begun);
      else
        said_.back() += ", and it is on its way";
    } else if (last == sent) {
      said_.push_back(fmt::format("rank {} still sends {}", sender,
                                  name_of_message(trace_, trace_.slice(*sent))));
    } else if (last == computed) {
      said_.push_back(words_of_computing(sender, trace_.slice(*computed)));
    } else {
      said_.push_back(fmt::format("rank {} still reads its receive buffer", receiver));
    }
  }

  std::int64_t end_of(SliceId id) const { return trace_.slice(id).end_ns; }

  const Trace& trace_;
  std::int64_t since_, slack_;  // times nearer to each other than the latter are one
  std::vector<std::string> said_;
};

}  // namespace

std::string words_of_awaited(const Trace& trace, SliceId wait) {
  const int peer = trace.slice(wait).peer();
  return trace.is_ring && peer == trace.rank_of_row(wait.row) ? "its own hop"
                                                              : fmt::format("rank {}", peer);
}

std::optional<SliceId> message_that_ended(const Trace& trace, SliceId wait) {
  const TraceEvent& about = trace.slice(wait);
  return last_ended(
      trace, trace.rank_of_row(wait.row), Lane::recv, about.end_ns, [&](const TraceEvent& s) {
        return s.pass == about.pass && s.payload == about.payload && s.peer() == about.peer();
      });
}

std::vector<std::string> reasons_of_wait(const Trace& trace, SliceId id) {
  const TraceEvent& wait = trace.slice(id);
  const int rank = trace.rank_of_row(id.row), peer = wait.peer();
  if (!trace.is_ring || wait.lane != Lane::wait || peer == rank || peer < 0 ||
      peer >= trace.rank_count())
    return {};
  const auto came = message_that_ended(trace, id);
  if (came && trace.slice(*came).end_ns > wait.begin_ns)
    return Reasons(trace, wait).of(rank, trace.slice(*came));
  // A rank may also wait until what it sends has left its buffer.
  const auto sent = last_ended(trace, rank, Lane::send, wait.end_ns, [&](const TraceEvent& s) {
    return s.pass == wait.pass && s.peer() == peer && s.begin_ns <= wait.begin_ns;
  });
  if (sent && trace.slice(*sent).end_ns > wait.begin_ns)
    return {fmt::format("{} is on its way to rank {}", name_of_message(trace, trace.slice(*sent)),
                        peer)};
  const std::string doing = words_of_doing(trace, peer, wait.begin_ns);
  return doing.empty() ? std::vector<std::string>() : std::vector{doing};
}

}  // namespace ringscope::viz
