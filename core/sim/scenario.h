// One simulation as people ask for it: a job, a machine in figures and by name, and what goes wrong
// on it. From here to what simulate() takes, and back to the figures that people look at.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cost/measure.h"
#include "core/cost/time.h"
#include "core/sim/machine/ring_order.h"
#include "core/sim/machine/topology.h"
#include "core/sim/simulate.h"

namespace ringscope {

struct Straggler {
  int rank = 0;      // as the topology numbers them, wherever in the ring it is
  double speed = 1;  // of computing: 0.5 takes twice as long
};

struct Scenario {
  Job job;
  Pace pace = Pace::in_step;
  bool searched = false;  // a partition found by search (searched.h) in place of the job's
  Granularity granularity;
  Rates rates;        // those of a rank and of the link to the next one
  double step_s = 0;  // as the next ones, see machine.h
  double jitter = 0, hop_jitter = 0;
  std::uint64_t seed = 0;
  int cores = 0;
  // Of a machine that was measured: taken where the ranks run the loops of core/ring, without a
  // topology, a searched partition, jitter and stragglers, of which these figures know nothing.
  std::shared_ptr<const CpuFigures> cpu;
  std::vector<Straggler> stragglers;

  // Where job.nodes > 1: each has `nics` links `between` it and the others. Or a topology instead,
  // of as many nodes and ranks as the job.
  int nics = 1;
  Link between;
  Placement placement = Placement::block;
  std::shared_ptr<const Topology> topology;
  RingOrder order = RingOrder::ranks;
};

inline constexpr std::string_view kSearched = "searched";

inline std::string_view partition_name(const Scenario& scenario) {
  return scenario.searched ? kSearched : name_of(scenario.job.partition);
}

// Whether ranks run ahead of each other: schemes other than rings know one pace only.
inline bool has_buffers(const Scenario& scenario) {
  return scenario.pace == Pace::buffers &&
         (scenario.job.scheme == JobScheme::ring || scenario.job.scheme == JobScheme::two_level);
}

// Throws InputError for stragglers that are not among the ranks, for more nodes than ranks, and a
// topology of other ranks.
void check(const Scenario& scenario);

// Why it can't be done whatever the memory: heads that Ulysses can't deal out, nodes that differ in
// a two-level ring, what only some schemes are simulated with; none when it can.
std::optional<std::string> obstacle(const Scenario& scenario);

// Throws InputError for a mask that does not fit.
Work work_of(const Scenario& scenario);
// Ranks are those of the ring then: rank r is ring_of(scenario)[r] of the scenario.
Machine machine_of(const Scenario& scenario);
// By place in the ring; empty where that is the ranks' own order.
std::vector<int> ring_of(const Scenario& scenario);

// What is told of a simulation. Seconds; of ranks: the mean one, where nothing else is said.
struct Figures {
  double wall_s = 0, forward_s = 0, backward_s = 0;
  double compute_s = 0, wait_s = 0;
  double exposed_s = 0;  // of the rank with the most
  double mean_exposed_s = 0;
  double efficiency = 0;  // compute / wall
  double imbalance = 1, balance_ceiling = 1;
  double closed_form_s = 0;  // the same job in step, on equal ranks, all links like the slowest
  double peak_bytes = 0;     // of the rank that holds most
};

// Of simulating `scenario` with `work` and `machine`.
Figures figures_of(const Scenario& scenario, const Work& work, const Machine& machine,
                   const Simulation& simulation);

// Simulates it. `work`: work_of(scenario). Throws as simulate().
Figures run_scenario(const Scenario& scenario, const Work& work);

}  // namespace ringscope
