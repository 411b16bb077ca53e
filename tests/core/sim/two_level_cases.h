// Two-level rings to try things on: small ones by hand, and such that nobody thought of.
#pragma once

#include <utility>
#include <vector>

#include "tests/core/sim/random_machines.h"

namespace ringscope {

inline constexpr std::pair<int, int> kTwoLevelSizes[] = {{1, 1}, {1, 5}, {5, 1}, {2, 2}, {2, 4},
                                                         {4, 2}, {3, 3}, {5, 3}, {2, 7}};

inline Problem two_level_job(int nodes, int places, const char* mask = "causal",
                             PartitionKind partition = PartitionKind::contiguous,
                             bool backward = true) {
  return {.shape = {2, 4, 2, 203, 8},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = nodes * places,
          .scheme = Scheme::two_level,
          .backward = backward,
          .nodes = nodes};
}

inline Machine two_level_machine(const Problem& job, const Rates& rates, const Link& between) {
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = rates;
  machine.to_next_node.assign(static_cast<std::size_t>(job.world_size),
                              {between.bytes_per_s, between.latency_s});
  return machine;
}

// Everything uneven, as in random_machines.h.
inline RandomCase random_two_level(RandomCases& cases) {
  RandomCase made = cases.next();
  while (made.job.world_size > 64) made = cases.next();
  made.job.scheme = Scheme::two_level;
  std::vector<int> divisors;
  for (int nodes = 1; nodes <= made.job.world_size; ++nodes)
    if (made.job.world_size % nodes == 0) divisors.push_back(nodes);
  made.job.nodes =
      divisors[static_cast<std::size_t>(cases.below(static_cast<int>(divisors.size())))];
  for (int rank = 0; rank < made.job.world_size; ++rank) {
    const double rate = made.machine.rates.bytes_per_s;
    made.machine.to_next_here.push_back({rate * (0.2 + cases.share()), 1e-6 * cases.share()});
    made.machine.to_next_node.push_back({rate * (0.05 + cases.share()), 3e-6 * cases.share()});
  }
  return made;
}

}  // namespace ringscope
