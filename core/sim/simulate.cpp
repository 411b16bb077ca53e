#include "core/sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/sim/account.h"
#include "core/sim/loop_times.h"
#include "core/sim/shared_cores.h"
#include "core/sim/ulysses.h"

namespace ringscope {

double Simulation::imbalance() const {
  double total = 0, most = 0;
  for (const SimulatedRank& rank : ranks) {
    total += rank.pairs;
    most = std::max(most, rank.pairs);
  }
  return total == 0 ? 1 : most * static_cast<double>(ranks.size()) / total;
}

double Simulation::balance_ceiling() const {
  return slowest_step_pairs == 0 ? 1 : mean_step_pairs / slowest_step_pairs;
}

double Simulation::exposed_s() const {
  double most = 0;
  for (const SimulatedRank& rank : ranks) most = std::max(most, rank.exposed_s);
  return most;
}

Simulation simulate(const SimulationRequest& request, const Work& work, const Machine& machine) {
  const Problem& job = request.job;
  if (job.scheme == Scheme::ulysses && !is_followed(job))
    return simulate_ulysses(request, work, machine);
  if (!is_plain(job) && job.scheme != Scheme::two_level) {
    if (machine.cpu != nullptr)
      throw InputError(fmt::format(
          "scheme: '{}' given for a measured CPU; accepted: ring, allgather", job.scheme_name()));
    return simulate_on_shared_cores(request, work, machine);
  }
  const bool in_step = request.pace == Pace::in_step;
  const bool shares_cores = machine.cores > 0 && machine.cores < job.world_size;
  if (job.scheme == Scheme::two_level) {
    job.ranks_a_node();  // throws where nodes don't divide
    if (shares_cores)
      throw InputError(
          fmt::format("cores: {} given for {} ranks; accepted in a two-level ring: at "
                      "least as many",
                      machine.cores, job.world_size));
  } else if (shares_cores ||
             (machine.cpu != nullptr && (job.scheme == Scheme::allgather || !in_step))) {
    return simulate_on_shared_cores(request, work, machine);
  }
  Account account(request, work, machine);
  simulate_loop(account, in_step, request.with_path);
  return std::move(account.result);
}

}  // namespace ringscope
