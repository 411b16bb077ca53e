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
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/model/trace.h"

namespace ringscope::viz {

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
