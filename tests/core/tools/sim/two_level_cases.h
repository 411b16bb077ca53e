// Two-level rings to try things on: small ones by hand, and such that nobody thought of.
#pragma once

#include <utility>
#include <vector>

#include "tests/core/tools/sim/random_machines.h"

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

inline RandomCase random_two_level(RandomCases& cases) {
  RandomCase made = cases.next();
  while (made.job.world_size > 64 || made.job.scheme != Scheme::two_level) made = cases.next();
  return made;
}

}  // namespace ringscope
