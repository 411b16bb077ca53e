// Turn a simulation into a recording in the format of real runs. A file of all ranks grows with
// world_size squared. With many ranks it therefore holds those that determine the run's time and an
// even sample of the others; ranks that are left out have no events.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tools/sim/scenario.h"
#include "core/trace/event.h"

namespace ringscope {

inline constexpr std::int64_t kMostRecordedEvents = 300'000;  // where no number of ranks is given
inline constexpr int kMostRanksByItself = 64;                 // where no number of ranks is given

// Return an estimate of the number of slices of a rank that is never too low.
double events_of_rank(const Problem& job);

// Return how many ranks to record: all that were asked for, or as many as a file should have.
int ranks_to_record(const Problem& job, std::optional<int> asked);

// Choose `count` ranks of world_size: the first half along `path`, the others evenly. Choose all of
// them when count is world_size.
std::vector<bool> choose_ranks(int world_size, int count, const std::vector<int>& path);

// Return the events of the `recorded` ranks.
std::vector<std::vector<TraceEvent>> events_of(const Problem& job, const SimulatedRun& run,
                                               const std::vector<bool>& recorded);

struct RecordedSimulation {
  Simulation simulation;
  Recording recording;
};

// Simulate `request` and record it. `partition` is a name. `asked` is as in ranks_to_record(). Throw as
// simulate() does.
RecordedSimulation record(const SimulationRequest& request, const Work& work,
                          const Machine& machine, std::string_view partition,
                          std::optional<int> asked);
// The same for a scenario, whose partition may be given another name.
RecordedSimulation record(const Scenario& scenario, std::optional<int> asked = {},
                          std::string_view partition = {});

// ---
// What a ring's recording would show on machines that are all alike and do nothing else. Ranks that
// are threads on a few cores take turns, so their recording shows the scheduler more than the ring,
// and no two recordings are alike. Here the counted work and bytes, the order of a rank's work, and
// what each hop needs determine all times.

inline constexpr double kIdealFlopsPerNs = 100, kIdealBytesPerNs = 2.5;
inline constexpr const char* kIdealBackend = "ideal";  // RunInfo::backend of what this returns

// Return `recording` with new times, and with waits where these require them. A compute slice takes
// its FLOPs at kIdealFlopsPerNs, and a hop its bytes at kIdealBytesPerNs, from when both ends are
// ready for it (core/ring/ring.cpp). All ranks have a core of their own and begin at 0, at no time
// of day, and bookkeeping takes no time. Throw std::invalid_argument for a run by another scheme, a failed run, or a recording
// that lacks events.
Recording ideal_timeline(Recording recording);

}  // namespace ringscope
