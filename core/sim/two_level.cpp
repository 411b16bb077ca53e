#include "core/sim/two_level.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/sim/account.h"
#include "core/sim/two_level_hops.h"
#include "core/sim/two_level_times.h"

namespace ringscope {

Simulation simulate_two_level(const SimulationRequest& request, const Work& work,
                              const Machine& machine) {
  const Problem& job = request.job;
  job.ranks_a_node();
  if (machine.cores > 0 && machine.cores < job.world_size)
    throw InputError(
        fmt::format("cores: {} given for {} ranks; accepted in a two-level ring: at "
                    "least as many",
                    machine.cores, job.world_size));
  Account account(request, work, machine);
  TwoLevelHops hops(request, account);
  if (request.pace == Pace::in_step) {
    simulate_two_level_in_step(account, hops, request.with_path);
  } else {
    simulate_two_level_with_buffers(account, hops, request.with_path);
  }
  return std::move(account.result);
}

}  // namespace ringscope
