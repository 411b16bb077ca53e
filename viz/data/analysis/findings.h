// Says where the ranks' time went: how long each computed, and what the rest was lost to, as
// core/tools/explain finds it; and says in sentences why the run took as long as it did.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tools/explain/explain.h"
#include "viz/data/analysis/balance.h"
#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// A rank's wall time in nanoseconds. Every one of them is counted once, so the parts add up exactly:
//
//   compute   it computes; in a training step whose ring was recorded, also all outside the ring
//   causes    it idles, and would not without the cause (RankLosses)
//   hops      it idles because blocks are on their way, although no link is slow; also the
//             reduction of a training step's gradients
//   in_vain   it idles in a wait that the run's failure broke off
//   rest      it idles, and nothing explains it
struct RankIdle {
  bool recorded = true;  // false: not in the sample, and nothing else here says anything
  std::int64_t compute = 0;
  std::array<std::int64_t, kCauseCount> by_cause{};
  std::int64_t hops = 0, in_vain = 0, rest = 0;

  std::int64_t wait_ns = 0;        // in wait slices
  std::vector<int> waited_for;     // the ranks that they name for the longest time, mostly one
  std::int64_t waited_for_ns = 0;  // in those that name one of these

  std::int64_t of(Cause cause) const { return by_cause[static_cast<std::size_t>(cause)]; }
};

struct IdleReport {
  std::int64_t wall_ns = 0;
  std::vector<RankIdle> ranks;

  // Return the sum of value(rank) over all ranks.
  template <class Value>
  double total(Value&& value) const {
    double sum = 0;
    for (const RankIdle& rank : ranks) sum += static_cast<double>(value(rank));
    return sum;
  }
  double compute_ns() const {
    return total([](const RankIdle& rank) { return rank.compute; });
  }
  // Return how many ranks were recorded; the others have no times.
  int recorded() const {
    return static_cast<int>(total([](const RankIdle& rank) { return rank.recorded ? 1 : 0; }));
  }
  double ranks_ns() const { return double(wall_ns) * recorded(); }

  // Return the ranks that wait longest, several if they wait as long as each other, none if nobody waits.
  std::vector<int> longest_waiting() const;
};

// Return a cause as people read it: "slow rank".
inline std::string words_of(Cause cause) {
  std::string words(name_of(cause));
  std::replace(words.begin(), words.end(), '-', ' ');
  return words;
}

inline constexpr std::size_t kMostSlices = 5'000'000;  // of a trace that is fitted

// Explain a recording of ours; nothing for other traces and for those that would take too long.
Explanation explanation_of(const Trace& trace);

// Return the idle times of a recording of ours; empty for any other trace.
IdleReport idle_of(const Trace& trace, const Explanation& why);

// A sentence about the run, where to see what it says, and how to try to be without it.
struct Finding {
  std::string text;
  std::optional<SliceId> show = {};
  std::string settings = {};  // for apply() of What if; "": nothing to try

  bool operator==(const Finding&) const = default;
};

// Return the findings, the most important first: causes, who waits and for whom, how even the work
// is. For a failed run they say how it ended.
std::vector<Finding> findings(const Trace& trace, const Explanation& why, const IdleReport& idle,
                              const WorkTable& balance);

// ---
// How a recorded run failed: who waited for what never came, when each rank was last heard of, and
// where to look first.

// Return the waits that a failed run broke off, by rank, at most one each: a rank's last wait, if
// the rank computed nothing after it and its hop was not over. Return none if the run ended well.
std::vector<SliceId> unfinished_waits(const Trace& trace);

// Return the ranks of these waits that wait for each other in a circle, each for the next; or none.
std::vector<int> circle_of(const Trace& trace, const std::vector<SliceId>& waits);

struct FailurePlace {
  std::optional<SliceId> slice;  // a wait that was broken off
  int rank = -1;                 // the rank that failed, if known; in a circle that of the slice
  std::int64_t at_ns = 0;        // where the wait begins
};
// Return the wait that closes a circle, or else the failed rank's own unfinished wait, or else the
// longest, or else the moment at which the failed rank was last seen. Return none for a run that ended
// well.
std::optional<FailurePlace> failure_place(const Trace& trace, const std::vector<SliceId>& waits);

// Return at which step a run failed: "step 1", or "hop from step 1 to step 2" where that rank waits
// for what it would have attended at step 2.
std::string words_of_failed_step(const Trace& trace, const std::vector<SliceId>& waits);

// Return where a rank's last slice ends in a recording of ours; nullopt if it has none.
std::optional<std::int64_t> last_seen_ns(const Trace& trace, int rank);

// Return sentences: who waited for whom at the end, and what was last heard of a silent rank.
std::vector<std::string> findings_of_failure(const Trace& trace, const std::vector<SliceId>& waits);

}  // namespace ringscope::viz
