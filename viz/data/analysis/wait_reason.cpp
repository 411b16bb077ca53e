#include "viz/data/analysis/wait_reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/base/ranges.h"
#include "viz/data/analysis/ring_moment.h"

namespace ringscope::viz {
namespace {

std::string words_of_awaited(const Trace& trace, int rank, const TraceEvent& wait) {
  return trace.is_ring && wait.peer() == rank ? "its own hop" : fmt::format("rank {}", wait.peer());
}

// Return what a rank does at a moment that lets others wait, and whom it waits for, and so on. Skip
// ranks in `seen`, and name none twice.
std::vector<std::string> words_of_doing(const Trace& trace, int rank, std::int64_t at,
                                        std::vector<int> seen) {
  std::vector<std::string> said;
  while (rank >= 0 && rank < trace.rank_count() && ranges::find(seen, rank) == seen.end()) {
    seen.push_back(rank);
    const TraceEvent* now = nullptr;
    for (const Lane lane : {Lane::wait, Lane::compute}) {
      const std::span<const TraceEvent> slices = trace.slices_of(rank, lane);
      const auto next =
          ranges::partition_point(slices, [at](const TraceEvent& s) { return s.end_ns <= at; });
      if (next != slices.end() && next->begin_ns <= at) now = &*next;
    }
    if (now == nullptr) break;
    said.push_back(now->lane == Lane::compute
                       ? fmt::format("rank {} computes on KV {}", rank, now->kv_owner)
                       : fmt::format("rank {} itself waits for {}", rank,
                                     words_of_awaited(trace, rank, *now)));
    rank = now->peer();  // of a computation: none
  }
  return said;
}

bool carry_the_same(const TraceEvent& a, const TraceEvent& b) {
  return a.pass == b.pass && a.payload == b.payload && a.kv_owner == b.kv_owner;
}

// Follows what ended a wait back to when the wait began: from a message that could not get under way, or a
// computation that could not begin, to what ended just before. The reason is what took longest of it.
class Reasons {
 public:
  Reasons(const Trace& trace, SliceId wait)
      : trace_(trace),
        wait_(trace.slice(wait)),
        waiting_(trace.rank_of_row(wait.row)),
        slack_(wait_.duration_ns() / 50) {}

  std::vector<std::string> tell() {
    follow();
    return causes_.empty() ? words_of_doing(trace_, wait_.peer(), wait_.begin_ns, {waiting_})
                           : words();
  }

 private:
  // A message or a computation, as far as `rank` has to do with it; or that the rank comes late to it.
  struct Cause {
    int rank = -1;
    const TraceEvent* what = nullptr;
    std::int64_t ended_ns = 0;  // for the rank
    std::int64_t ns = 0;        // how much of the wait it took
    bool is_late = false;

    bool is_message() const { return what->lane != Lane::compute; }
    int other_end() const {
      return !is_message() ? rank : rank == what->src ? what->dst : what->src;
    }
  };

  // Let `found` be what ended last by `until` in a rank's lane, if it fits and is nearer to `moment`.
  template <class Fits>
  void look(Cause& found, std::int64_t moment, std::int64_t until, int rank, Lane lane,
            Fits&& fits) const {
    if (rank < 0 || rank >= trace_.rank_count()) return;
    const std::span<const TraceEvent> slices = trace_.slices_of(rank, lane);
    auto at =
        ranges::partition_point(slices, [until](const TraceEvent& s) { return s.end_ns <= until; });
    while (at != slices.begin() && (--at)->end_ns > since()) {
      if (!fits(*at)) continue;
      if (found.what == nullptr ||
          std::abs(moment - at->end_ns) < std::abs(moment - found.ended_ns))
        found = {rank, received(*at), at->end_ns};
      return;
    }
  }
  // What ends by then was no reason to wait.
  std::int64_t since() const { return wait_.begin_ns + slack_; }

  // Return the slice in which a message is received, or itself.
  const TraceEvent* received(const TraceEvent& slice) const {
    return slice.lane == Lane::send && slice.flow > 0
               ? &trace_.slice(trace_.flows[slice.flow - 1].to)
               : &slice;
  }
  std::int64_t begin_of(const Cause& cause) const {
    return cause.what->lane == Lane::recv ? under_way_ns(trace_, *cause.what)
                                          : cause.what->begin_ns;
  }

  // Return what ended when the wait did: a message of the rank, else what the awaited rank did.
  Cause ended_with_wait() const {
    const std::int64_t end = wait_.end_ns;
    const auto is_awaited = [this](const TraceEvent& s) {
      return s.pass == wait_.pass && s.payload == wait_.payload && s.peer() == wait_.peer();
    };
    const auto any = [this](const TraceEvent& s) { return s.pass == wait_.pass; };
    Cause found, of_peer;
    look(found, end, end, waiting_, Lane::recv, is_awaited);
    look(found, end, end, waiting_, Lane::send, is_awaited);
    look(found, end, end, waiting_, Lane::recv, any);
    look(found, end, end, waiting_, Lane::send, any);
    if (found.what != nullptr && found.ended_ns >= end - slack_) return found;
    for (const Lane lane : {Lane::compute, Lane::send, Lane::recv})
      look(of_peer, end, end, wait_.peer(), lane, any);
    return of_peer.what != nullptr && of_peer.ended_ns >= end - slack_ ? of_peer : found;
  }

  // Return what ended just before a cause began, or none.
  Cause before(const Cause& cause, std::int64_t begun) const {
    const TraceEvent& what = *cause.what;
    const auto is_earlier = [&](const TraceEvent& s) { return s.begin_ns < what.begin_ns; };
    const auto is_another = [&](const TraceEvent& s) {
      return s.flow != what.flow && is_earlier(s) && s.end_ns < what.end_ns;
    };
    const auto is_block = [&](const TraceEvent& s) {
      return is_earlier(s) && (!cause.is_message() || carry_the_same(s, what));
    };
    const int from = cause.is_message() ? what.src : cause.rank;
    const int to = cause.is_message() ? what.dst : -1;
    Cause found;
    const std::int64_t until = begun + slack_;
    look(found, begun, until, from, Lane::recv, is_block);
    look(found, begun, until, from, Lane::send, is_another);
    look(found, begun, until, from, Lane::compute, is_earlier);
    look(found, begun, until, to, Lane::compute, is_earlier);
    look(found, begun, until, to, Lane::send, is_another);
    return found;
  }

  void follow() {
    std::int64_t until = wait_.end_ns;
    for (Cause at = ended_with_wait(); at.what != nullptr;) {
      const std::int64_t begun = begin_of(at);
      at.ns = std::min(until, at.ended_ns) - std::max(begun, wait_.begin_ns);
      causes_.push_back(at);
      if (begun <= since()) return;
      const Cause earlier = before(at, begun);
      // Clocks of several machines may be apart.
      if (earlier.what != nullptr && begin_of(earlier) >= begun) return;
      const int late = at.other_end();
      if (late >= 0 && late < trace_.rank_count() && !trace_.events[late].empty())
        causes_.push_back({late, at.what, begun,
                           begun - (earlier.what ? earlier.ended_ns : wait_.begin_ns), true});
      until = begun;
      at = earlier;
    }
  }

  // Return the sentences, from the wait to what took longest. Where the way back comes to a rank once more,
  // what lies between is left out.
  std::vector<std::string> words() {
    std::size_t last = 0;
    for (std::size_t i = 1; i < causes_.size(); ++i)
      if (causes_[i].ns >= causes_[last].ns) last = i;
    std::vector<Cause> told = {causes_[0]};
    const std::size_t first = told[0].rank == waiting_ ? 1 : 0;
    for (std::size_t i = 1; i <= last; ++i) {
      if (causes_[i].is_late && i < last) continue;
      for (std::size_t k = first; k < told.size(); ++k)
        if (told[k].rank == causes_[i].rank || causes_[i].rank == waiting_) told.resize(k);
      told.push_back(causes_[i]);
    }
    constexpr std::size_t kMost = 5;
    std::vector<std::string> said;
    for (std::size_t i = 0; i < told.size(); ++i) {
      if (told.size() > kMost && i == kMost - 2) {
        i = told.size() - 1;
        said.push_back(fmt::format("and so on to rank {}", told[i - 1].rank));
      }
      std::string words = i + 1 == told.size() ? words_of_last(told[i]) : words_of(told[i]);
      if (!said.empty() && said.back().ends_with(": "))
        said.back() += words;
      else
        said.push_back(std::move(words));
    }
    return said;
  }

  // Return "it" for a message of the block that was spoken of last, else its name.
  std::string name_of(const TraceEvent& message) {
    const bool is_it = spoken_of_ != nullptr && carry_the_same(*spoken_of_, message);
    spoken_of_ = &message;
    return is_it ? "it" : name_of_message(trace_, message);
  }

  // Return what a rank has yet to do before it does what was told before.
  std::string words_of(const Cause& cause) {
    const TraceEvent& what = *cause.what;
    if (!cause.is_message())
      return fmt::format("rank {} has not attended KV {} yet", cause.rank, what.kv_owner);
    const bool receives = cause.rank == what.dst;
    if (cause.rank == waiting_)
      return name_of(what) + (receives ? " has not come: " : " has not gone: ");
    return receives
               ? fmt::format("rank {} awaits {} from rank {}", cause.rank, name_of(what), what.src)
               : fmt::format("rank {} has not sent {} to rank {} yet", cause.rank, name_of(what),
                             what.dst);
  }

  std::string words_of_last(const Cause& cause) {
    const TraceEvent& what = *cause.what;
    if (!cause.is_message())
      return fmt::format("rank {} computes on KV {}{}", cause.rank, what.kv_owner,
                         cause.is_late ? " late" : "");
    const std::string name = name_of(what);
    if (cause.is_late)
      return fmt::format("rank {} {} {} late", cause.rank,
                         cause.rank == what.src ? "sends" : "takes", name);
    if (&what == causes_[0].what && what.dst == waiting_ && begin_of(cause) <= since() &&
        what.begin_ns >= wait_.begin_ns - slack_)
      return fmt::format("{} comes late from rank {}: its receive buffer was read until now", name,
                         what.src);
    return name + " is on its way" +
           (what.src == waiting_ ? "" : fmt::format(" from rank {}", what.src)) +
           (what.dst == waiting_ ? "" : fmt::format(" to rank {}", what.dst));
  }

  const Trace& trace_;
  const TraceEvent& wait_;
  int waiting_;
  std::int64_t slack_;  // times nearer to each other are one
  std::vector<Cause> causes_;
  const TraceEvent* spoken_of_ = nullptr;
};

}  // namespace

std::string words_of_awaited(const Trace& trace, SliceId wait) {
  return words_of_awaited(trace, trace.rank_of_row(wait.row), trace.slice(wait));
}

std::optional<SliceId> message_that_ended(const Trace& trace, SliceId wait) {
  const TraceEvent& about = trace.slice(wait);
  const std::uint32_t row = trace.row_of(trace.rank_of_row(wait.row), Lane::recv);
  const std::span<const TraceEvent> slices = trace.slices(row);
  auto at = ranges::partition_point(slices,
                                    [&](const TraceEvent& s) { return s.end_ns <= about.end_ns; });
  while (at != slices.begin())
    if (--at; at->pass == about.pass && at->payload == about.payload && at->peer() == about.peer())
      return SliceId{row, static_cast<std::uint32_t>(at - slices.begin())};
  return std::nullopt;
}

std::vector<std::string> reasons_of_wait(const Trace& trace, SliceId id) {
  const TraceEvent& wait = trace.slice(id);
  const int peer = wait.peer();
  if (!trace.is_ring || wait.lane != Lane::wait || peer == trace.rank_of_row(id.row) || peer < 0 ||
      peer >= trace.rank_count())
    return {};
  return Reasons(trace, id).tell();
}

}  // namespace ringscope::viz
