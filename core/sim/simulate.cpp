#include "core/sim/simulate.h"

#include <algorithm>
#include <utility>

#include "core/sim/account.h"
#include "core/sim/ring_times.h"
#include "core/sim/shared_cores.h"
#include "core/sim/two_level.h"
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
  if (job.scheme == Scheme::two_level) return simulate_two_level(request, work, machine);
  if (job.scheme == Scheme::ulysses) return simulate_ulysses(request, work, machine);
  const bool in_step = request.pace == Pace::in_step;
  const bool by_figures = machine.cpu != nullptr && (job.scheme == Scheme::allgather || !in_step);
  if (by_figures || (machine.cores > 0 && machine.cores < job.world_size))
    return simulate_on_shared_cores(request, work, machine);

  Account account(request, work, machine);
  if (job.scheme == Scheme::allgather) {
    simulate_allgather(account, in_step, request.with_path);
  } else if (in_step) {
    simulate_ring_in_step(account, request.with_path);
  } else {
    simulate_ring_with_buffers(account, request.with_path);
  }
  return std::move(account.result);
}

}  // namespace ringscope
