// Causes of lost time, and what is said of a run: by explain(), and of the dumps of a run that hangs.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  // A slow rank or link: all that are about as slow, links by both ends and ranks as {rank, -1}.
  std::vector<std::pair<int, int>> alike = {};
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
  // What the findings cost all together beyond what each costs alone: where each holds up what the
  // others hold up too, one alone that is mended saves little. Less than 0 where they save the same.
  double together_s = 0;
  // Wall time without all causes that the blocks' way still costs, although nothing is wrong with any
  // link; and whether the scheme itself has them gathered before they are attended. RankSummary's
  // exposed time is another: of the run as it was, by rank.
  double transfers_s = 0;
  bool gathers = false;
  std::vector<RankLosses> ranks;        // empty for a run that failed
  std::vector<std::string> notes = {};  // what was inferred of others' files
};

}  // namespace ringscope
