// The time of a recording's ranks, cut into pieces by what it is lost to: losses.h says under which
// heading what falls. A piece of waiting for a rank that waits itself names that rank instead of a
// heading: whose reason counts there changes with time, and is followed by the sweep in losses.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

enum class Heading : std::uint8_t { compute, imbalance, late, link, overhead };
inline constexpr int kHeadingCount = 5;

// From `begin_ns` on, until the rank's next piece.
struct LossPiece {
  std::int64_t begin_ns = 0;
  int rank = 0;
  int follows = -1;  // a waiting rank, whose heading counts; -1: `heading` does
  Heading heading = Heading::overhead;
};

// All ranks' pieces by time; each rank's cover the whole recording. `trace` is one of ours.
std::vector<LossPiece> loss_pieces(const Trace& trace);

// ---
// Why ranks idle. A rank's idle time is the wall time less the time that it computes; every
// nanosecond of it is put under one heading, so the parts add up exactly:
//
//   link        it waits, and the block it waits for is on its way (both ends have begun)
//   imbalance   it waits for a rank that is still computing on the pairs that it has more than this
//               one, in that step or in all up to it; or it has finished while another computes on
//               the pairs that it has more in all. The pairs that are more are taken to come last.
//   late        it waits for a rank that has no more to compute than it had itself and yet is not
//               there: a slow or late-started rank, or one held up itself by what is no computation
//   overhead    nobody is waited for, or both ends could go on: the awaited block has arrived, or
//               nothing is missing to send it. Wake-ups, buffers, recording, starting up
//
// Of a training step, whose ring was recorded: outside of the ring a rank counts as computing, and
// the gradient reduction as link.
//
// Whom a wait is for is followed from rank to rank: when the rank waited for waits itself, its own
// reason counts.

struct RankLoss {
  std::int64_t compute_ns = 0;
  std::int64_t imbalance_ns = 0, late_ns = 0, link_ns = 0, overhead_ns = 0;
  std::int64_t wait_ns = 0;  // in wait slices
  // [rank]: in wait slices, by the rank they name; empty for thousands of ranks.
  std::vector<std::int64_t> waited_for_ns;
  std::int64_t idle_ns() const { return imbalance_ns + late_ns + link_ns + overhead_ns; }
};

struct LossReport {
  std::int64_t wall_ns = 0;
  std::vector<RankLoss> ranks;  // for each, compute_ns + idle_ns() == wall_ns

  // The rank that waits longest, and for whom most; -1 when nobody waits.
  int longest_waiting_rank() const;
  int waited_for_most(int rank) const;
};

// Only for recordings of ours; empty otherwise.
LossReport losses_of(const Trace& trace);

// What the numbers say, in sentences for people: who waits longest and for whom; what the largest
// loss is and what would cure it. Of a run that failed: what it ended with.
std::vector<std::string> findings(const Trace& trace, const LossReport& losses);

}  // namespace ringscope::viz
