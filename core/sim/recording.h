// A simulation as a recording, in the format of real runs. A file of all ranks grows with
// world_size squared, so of many ranks it holds those that decide how long the run takes, and an
// even sample of the others; ranks that are left out have no events.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/sim/simulate.h"

namespace ringscope {

inline constexpr std::int64_t kMostRecordedEvents = 300'000;  // where nobody says how many ranks
inline constexpr int kMostRanksByItself = 64;                 // the same
inline constexpr std::int64_t kMostEventsAtAll = 20'000'000;  // about 4 GB as a file

// About how many slices a rank has, and not fewer.
double events_of_rank(const Job& job);

// How many ranks a recording holds: all that were asked for, or as many as a file should have.
// Throws InputError where `asked` ranks are too many events.
int ranks_to_record(const Job& job, std::optional<int> asked);

// `count` ranks of world_size: the first half of them along `path`, the others evenly. All of them
// when count is world_size.
std::vector<bool> choose_ranks(int world_size, int count, const std::vector<int>& path);

struct RecordedSimulation {
  Simulation simulation;
  Recording recording;
};

// `partition`: its name. Simulates `request`, whose sink and recorded ranks are set here: twice
// where the critical path says which ranks to record. `asked`: how many ranks; none: see
// ranks_to_record. Throws as simulate(), and as ranks_to_record().
RecordedSimulation record(SimulationRequest request, const Work& work, const Machine& machine,
                          std::string_view partition, std::optional<int> asked);

}  // namespace ringscope
