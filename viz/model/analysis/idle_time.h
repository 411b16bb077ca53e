// Explains why a recording's ranks idle: it adds up their time by what it is lost to.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

enum class Heading : std::uint8_t { compute, imbalance, late, link, overhead };
inline constexpr std::size_t kHeadingCount = 5;

// A rank's idle time is the wall time less the time that it computes. Every nanosecond of it is put
// under one heading, so the parts add up exactly:
//
//   link        it waits, and the block it waits for is on its way (both ends have begun)
//   imbalance   it waits for a rank that still computes on its excess of pairs over this one, in
//               that step or in all up to it; or it has finished while another rank computes on its
//               excess in all. Excess pairs are assumed to come last.
//   late        it waits for a rank that has no more to compute than it had itself and yet is not
//               there: a slow or late-started rank, or one held up by something else than computing
//   overhead    nobody is waited for, or both ends could go on, because the awaited block has
//               arrived or can be sent. This covers wake-ups, buffers, recording and start-up.
//
// In a training step whose ring was recorded, a rank counts as computing outside the ring, and the
// gradient reduction counts as link.
//
// A wait is followed from rank to rank: if the rank waited for waits itself, its own reason counts.

struct RankIdle {
  std::array<std::int64_t, kHeadingCount> ns{};  // by heading; they add up to the wall time
  std::int64_t wait_ns = 0;                      // in wait slices
  // [rank]: time in wait slices by the rank they name; empty for thousands of ranks.
  std::vector<std::int64_t> waited_for_ns;

  std::int64_t operator[](Heading heading) const { return ns[static_cast<std::size_t>(heading)]; }
};

struct IdleReport {
  std::int64_t wall_ns = 0;
  std::vector<RankIdle> ranks;

  double total_ns(Heading heading) const;  // of all ranks
  // Return the sum of all totals.
  double ranks_ns() const { return double(wall_ns) * double(ranks.size()); }

  // Return the rank that waits longest, and for whom it waits most; -1 if nobody waits.
  int longest_waiting_rank() const;
  int waited_for_most(int rank) const;
};

// Return the idle times of a recording of ours; empty for any other trace.
IdleReport idle_of(const Trace& trace);

// Return sentences for people: who waits longest and for whom, what the largest idle time is, and
// what would cure it. For a failed run they say how it ended.
std::vector<std::string> findings(const Trace& trace, const IdleReport& idle);

}  // namespace ringscope::viz
