#include "cuda/nccl/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "core/base/error.h"
#include "cuda/nccl/nccl_api.h"

namespace ringscope::cuda {

Placement place_ranks(std::span<const RankGpus> ranks) {
  Placement placement;
  std::map<std::pair<std::string, std::string>, int> users;  // (machine, GPU): ranks on it
  std::map<std::string, std::set<std::string>> gpus;         // of a machine
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankGpus& its = ranks[rank];
    if (its.gpus.empty()) throw RunError("sees no GPU", static_cast<int>(rank));
    const auto used = [&](const std::string& gpu) { return users[{its.machine, gpu}]; };
    const auto best =
        std::min_element(its.gpus.begin(), its.gpus.end(),
                         [&](const auto& a, const auto& b) { return used(a) < used(b); });
    placement.devices.push_back(static_cast<int>(best - its.gpus.begin()));
    placement.shares_gpus = ++users[{its.machine, *best}] > 1 || placement.shares_gpus;
    gpus[its.machine].insert(its.gpus.begin(), its.gpus.end());
  }
  placement.machines = static_cast<int>(gpus.size());
  for (const auto& [machine, all] : gpus) {
    const int count = static_cast<int>(all.size());
    placement.fewest_gpus =
        placement.fewest_gpus == 0 ? count : std::min(placement.fewest_gpus, count);
  }
  return placement;
}

Environment nccl_environment(const Placement& placement, int version, bool are_processes,
                             int rank) {
  if (!placement.shares_gpus) return {};
  constexpr int kSharesGpus = 23003;  // NCCL_VERSION(2, 30, 3)
  if (version >= kSharesGpus) return {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}};
  if (are_processes) {
    Environment environment = {{"NCCL_HOSTID", fmt::format("ringscope-rank-{}", rank)},
                               {"NCCL_NET", "Socket"}};
    if (placement.machines == 1) environment.emplace_back("NCCL_SOCKET_IFNAME", "lo");
    return environment;
  }
  const std::size_t n = placement.devices.size();
  throw RunError(fmt::format(
      "backend nccl: {} ranks on {} GPU{}: NCCL {} takes one rank a GPU within a process; give "
      "--world-size {}, or NCCL 2.30.3 or later, or a process a rank (mpirun -np {}), or virtual "
      "ranks (--backend cuda)",
      n, placement.fewest_gpus, placement.fewest_gpus == 1 ? "" : "s", nccl_version_text(version),
      placement.fewest_gpus, n));
}

void apply(const Environment& environment) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 0);
}

}  // namespace ringscope::cuda
