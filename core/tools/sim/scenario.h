// One simulation as users ask for it: a job, a machine given by figures and names, and what goes
// wrong on it. It becomes the arguments of simulate(), and the result becomes figures to read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tools/cost/choices.h"
#include "core/tools/cost/measure.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/machine.h"
#include "core/tools/sim/simulate.h"
#include "core/tools/sim/work.h"

namespace ringscope {

struct Straggler {
  int rank = 0;
  double speed = 1;  // of computing: 0.5 takes twice as long
};

struct Scenario {
  Problem job;
  Pace pace = Pace::in_step;
  Granularity granularity = {};
  Rates rates = {};  // of a rank and of the link to the next one
  std::optional<CallCosts> calibrated = {};
  double step_s = 0;  // beside these costs; for this and the next ones see machine.h
  double jitter = 0, hop_jitter = 0;
  std::uint64_t seed = 0;
  int cores = 0;
  // Figures of a measured machine. They apply when ranks run the loops of core/ring on one
  // node, without step_s, jitter or stragglers, which the figures do not cover.
  std::shared_ptr<const CpuFigures> cpu = {};
  std::vector<Straggler> stragglers =
      {};  // job.speeds are those that a searched partition knows of
  std::vector<Straggler> slow_links =
      {};  // the link over which `rank` sends has `speed` of its rate

  // For job.nodes > 1: each node has `nics` links `between` it and the others. A link of rate 0: all
  // links are as inside a node.
  int nics = 1;
  Link between = {};
  Placement placement = Placement::block;
};

// Return whether ranks run ahead of each other, which only rings (flat or two-level) do.
inline bool has_buffers(const Scenario& scenario) {
  return scenario.pace == Pace::buffers && scenario.job.rotates_blocks();
}

// Throw InputError for stragglers and slow links that are not of the ranks, more nodes than ranks, or speeds
// of another number of ranks.
void check(const Scenario& scenario);

// Return why the scenario is impossible whatever the memory: heads that Ulysses can't distribute,
// unequal nodes in a two-level ring, features that a scheme lacks. Return none if it is possible.
std::optional<std::string> obstacle(const Scenario& scenario);

// Throw InputError for a mask that does not fit.
Work work_of(const Scenario& scenario);
Machine machine_of(const Scenario& scenario);

// Results of a simulation, in seconds. They are means over ranks unless a comment says otherwise.
struct Figures {
  double wall_s = 0, forward_s = 0, backward_s = 0;
  double compute_s = 0, wait_s = 0;
  double exposed_s = 0;  // of the rank with the most
  double mean_exposed_s = 0;
  double efficiency = 0;  // compute / wall, without calls and merging if these are calibrated
  double imbalance = 1, balance_ceiling = 1;
  double closed_form_s = 0;  // the same job in step, with equal ranks and the slowest link; 0: none
  double peak_bytes = 0;     // of the rank that holds most
};

// Summarise a simulation, without what only the scenario says: closed form and peak memory.
Figures figures_of(const Simulation& simulation);
// Summarise the simulation of `scenario` on `machine`.
Figures figures_of(const Scenario& scenario, const Machine& machine, const Simulation& simulation);

// Simulate `scenario`. `work` is work_of(scenario). Throw as simulate() does.
Figures run_scenario(const Scenario& scenario, const Work& work);

// Do what judge() in core/tools/cost/choices.h does for a scheme without a closed form, or for links that
// differ, by simulating its loop. What ranks would still wait with free links is imbalance; what they
// wait beyond that is exposed.
Choice judge_by_simulation(Scenario scenario, double memory_bytes, const MemoryOf& memory_of);

}  // namespace ringscope
