// Says why a recorded run took as long as it did. Each cause is one thing in the recorded times that
// is set right; the run's graph (recorded_run.h) is evaluated with them, and the difference is what the
// cause cost. So a wait counts for what made the awaited rank or block late, however many
// ranks pass the delay on, and not for the rank that it names.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/event.h"

namespace ringscope {

enum class Cause {
  imbalance,      // ranks have unequal pairs; without it every step has the mean work
  slow_rank,      // a rank takes longer for the same pairs, or loses time at every step
  slow_link,      // a link moves the same bytes more slowly than most
  shared_cores,   // more ranks compute at once than there are cores
  step_overhead,  // a step costs time besides its pairs, on every rank
  jitter,      // computations or hops take longer at random, or other programs have the processors
  late_start,  // one rank begins late, and is as fast as the others from then on
  no_overlap,  // hops that could run beside attention do not
  fault        // the run failed, or nothing in it moves any more
};
inline constexpr int kCauseCount = 9;

constexpr std::string_view name_of(Cause cause) {
  constexpr std::string_view names[kCauseCount] = {"imbalance",    "slow-rank",     "slow-link",
                                                   "shared-cores", "step-overhead", "jitter",
                                                   "late-start",   "no-overlap",    "fault"};
  return names[static_cast<int>(cause)];
}

struct Diagnosis {
  Cause cause = Cause::imbalance;
  int rank = -1;              // -1: no one rank
  int from = -1, to = -1;     // the ends of a link; -1: none
  double saved_s = 0;         // how much sooner the run would end without the cause
  double share = 0;           // of the wall time
  double confidence = 0;      // 0 to 1
  std::string evidence = {};  // sentences that say what was seen
  bool by_others = false;     // jitter: other programs had the processors
};

// What a rank idles for, in seconds: how much less it would idle if a cause were gone along with
// those that were looked for before it, and if hops took no time then. A rank's own lack of speed is
// no idling of its own, but the others'.
struct RankLosses {
  std::array<double, kCauseCount> by_cause{};
  double hops = 0;
};

struct Explanation {
  double wall_s = 0;
  // The most important first. Each saves at least kLeastShare of the wall time, except a fault.
  std::vector<Diagnosis> findings;
  // Time for which no computation hides the blocks' way, although nothing is wrong with any link; and
  // whether the scheme itself has them gathered before they are attended.
  double exposed_s = 0;
  bool gathers = false;
  std::vector<RankLosses> ranks;        // empty for a run that failed
  std::vector<std::string> notes = {};  // what was inferred of others' files
};

inline constexpr double kLeastShare = 0.01;

// Explain a recording. Throw InputError for one without events, unless the run failed, for a real run of
// several ranks of which one was recorded, and beyond kMostExplainedRanks.
Explanation explain(const Recording& recording);

// Return the rank that alone of several was recorded, or -1.
int only_rank_of(const Recording& recording);

// Return whether `other` is of one rank of the run that `recording` is of: `run --trace DIR/` writes a
// file per rank.
bool is_rank_of_run(const Recording& other, const Recording& recording);
// Add what that rank recorded, unless it is there.
void join_rank(Recording& recording, Recording other);

// Return what a finding is and what it costs, in one sentence without its full stop.
std::string headline_of(const Diagnosis& finding);
// Return the same and what was seen, as one paragraph.
std::string sentence_of(const Diagnosis& finding);

// Return the headline of the first finding; "" if there is none, not every rank was recorded, or
// there are too many to say it at once.
std::string largest_loss(const Recording& recording);

}  // namespace ringscope
