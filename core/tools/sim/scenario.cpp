#include "core/tools/sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/sim/scenario_rows.h"

namespace ringscope {

void read_value(PaceOf<Scenario>& to, std::string_view text, const MemberRow& row) {
  Scenario& scenario = to.scenario;
  scenario.pace = text == kInStep ? Pace::in_step : Pace::buffers;
  if (scenario.pace == Pace::in_step) return;
  try {
    scenario.job.kv_buffers = integer_in<int>(text, row.range);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}, or {}", error.what(), kInStep));
  }
}

void read_value(std::vector<Straggler>& to, std::string_view text, const MemberRow& row) {
  to.clear();
  for (const std::string_view one : split(text, ',')) {
    const std::size_t colon = one.find(':');
    if (colon == one.npos)
      throw InputError(fmt::format(
          "'{}' given; accepted: RANK:SPEED,..., as in 3:0.5 for half the speed", text));
    const int rank = integer_in<int>(one.substr(0, colon), {0});
    for (const Straggler& other : to)
      if (other.rank == rank)
        throw InputError(fmt::format("rank {} given twice; accepted: each rank once", rank));
    to.push_back({rank, number_in(one.substr(colon + 1), row.range)});
  }
}

void read_value(Granularity& to, std::string_view text, const MemberRow& row) {
  const std::size_t cross = std::min(text.find('x'), text.size() - 1);
  const auto size = [&](std::string_view digits) {
    const auto value = parse_number<Index>(digits);
    const auto most = static_cast<Index>(row.range.most);
    if (value && *value >= 1 && *value <= most) return *value;
    throw InputError(fmt::format("'{}' given; accepted: ROWSxKEYS, each from 1 to {}", text, most));
  };
  to = {size(text.substr(0, cross)), size(text.substr(cross + 1))};
}

Json json_of(const std::vector<Straggler>& slow) {
  std::vector<Fields> all;
  for (const Straggler& one : slow) all.push_back({{"rank", one.rank}, {"speed", one.speed}});
  return all;
}

namespace {

bool is_in_step(const Scenario& scenario) {
  return scenario.pace == Pace::in_step && scenario.job.rotates_blocks();
}

}  // namespace

void check(const Scenario& scenario) {
  const int ranks = scenario.job.world_size;
  if (const auto speeds = std::ssize(scenario.job.speeds); speeds > 0 && speeds != ranks)
    throw InputError(
        fmt::format("speeds: {} given for {} ranks; accepted: a speed a rank", speeds, ranks));
  for (const auto& [name, slow] :
       {std::pair{"straggler", &scenario.stragglers}, {"slow-link", &scenario.slow_links}})
    for (const Straggler& one : *slow)
      if (one.rank < 0 || one.rank >= ranks)
        throw InputError(fmt::format("{}: rank {} of {} given; accepted: ranks from 0 to {}", name,
                                     one.rank, ranks, ranks - 1));
  if (scenario.job.nodes > ranks)
    throw InputError(fmt::format("nodes: {} given for {} rank{}; accepted: up to as many as ranks",
                                 scenario.job.nodes, ranks, ranks == 1 ? "" : "s"));
}

std::optional<std::string> obstacle(const Scenario& scenario) {
  const Problem& job = scenario.job;
  if (job.world_size > kMostSimulatedRanks)
    return fmt::format("up to {} ranks are simulated, {} given", kMostSimulatedRanks,
                       job.world_size);
  if (job.partition.is_searched() && job.world_size > kMostSearchedRanks)
    return fmt::format("a partition is searched for up to {} ranks, {} given", kMostSearchedRanks,
                       job.world_size);
  if (auto why = why_refused(job)) return why;
  if (scenario.cores > 0 && scenario.cores < job.world_size && is_in_step(scenario))
    return "cores are shared by ranks with --kv-buffers only, not by ranks in step";
  if (scenario.placement == Placement::cyclic && job.scheme->links == Links::by_node)
    return fmt::format("{} goes node by node, so it has one placement: block", job.scheme_name());
  if (expected_tasks(job) > kMostTasks)
    return fmt::format("{} ranks of {} have more than {:.0f} tasks to simulate", job.world_size,
                       job.scheme_name(), kMostTasks);
  return std::nullopt;
}

Work work_of(const Scenario& scenario) { return Work(scenario.job, scenario.granularity); }

namespace {

// Return the cluster, or none where all links of a rank are alike.
std::optional<Cluster> cluster_of(const Scenario& scenario) {
  if (scenario.job.nodes == 1 || scenario.between.bytes_per_s == 0) return std::nullopt;
  return Cluster{.world_size = scenario.job.world_size,
                 .nodes = scenario.job.nodes,
                 .inside = {"", scenario.rates.bytes_per_s, scenario.rates.latency_s},
                 .between = scenario.between,
                 .nics = scenario.nics,
                 .placement = scenario.placement};
}

// Return what a step costs besides its pairs. Ulysses and all-gather attend all keys in one call; of
// the blocks of other schemes each but a rank's first is merged into the result so far.
double calibrated_step_s(const Scenario& scenario) {
  if (!scenario.calibrated) return 0;
  const auto [call_s, merge_s] = *scenario.calibrated;
  const Problem& job = scenario.job;
  if (job.scheme->course == Course::heads) return call_s;
  if (job.scheme->course == Course::gathers) return call_s / job.world_size;
  return call_s +
         (1 - 1.0 / job.world_size) * merge_s * out_values(job.shape, job.max_query_rows());
}

}  // namespace

Machine machine_of(const Scenario& scenario) {
  Machine machine;
  const auto cluster = cluster_of(scenario);
  if (cluster)
    machine = machine_on(*cluster, scenario.rates, scenario.job.scheme, scenario.job.rings());
  machine.world_size = scenario.job.world_size;
  machine.rates = scenario.rates;
  machine.step_s = scenario.step_s + calibrated_step_s(scenario);
  if (scenario.calibrated) machine.backward_steps = kBackwardCalls;
  machine.jitter = scenario.jitter;
  machine.hop_jitter = scenario.hop_jitter;
  machine.seed = scenario.seed;
  machine.cores = scenario.cores < machine.world_size ? scenario.cores : 0;
  const auto slow_down = [&](int rank, double speed) {
    machine.speed.resize(machine.world_size, 1);
    machine.speed[rank] *= speed;
  };
  for (const Straggler& link : scenario.slow_links)
    for (std::vector<Path>* paths :
         {&machine.to_next, &machine.to_next_here, &machine.to_next_node, &machine.to_all}) {
      if (paths->empty())
        paths->assign(machine.world_size, {machine.rates.bytes_per_s, machine.rates.latency_s});
      (*paths)[link.rank].bytes_per_s *= link.speed;
    }
  for (const Straggler& straggler : scenario.stragglers) slow_down(straggler.rank, straggler.speed);
  for (int rank = 0; rank < std::ssize(scenario.job.speeds); ++rank)
    slow_down(rank, scenario.job.speeds[rank]);
  const bool by_figures = scenario.cpu != nullptr && is_plain(scenario.job) &&
                          !is_in_step(scenario) && !cluster && machine.step_s == 0 &&
                          scenario.jitter == 0 && scenario.hop_jitter == 0 &&
                          machine.speed.empty() && scenario.slow_links.empty();
  if (by_figures) {
    machine.cpu = scenario.cpu;
    machine.cores = scenario.cores;
  }
  return machine;
}

namespace {

// Return the closed form, which assumes that all ranks are equal: each has its share of the cores
// and the slowest link.
double closed_form_s(const Problem& job, const Machine& machine) {
  Rates rates = machine.rates;
  if (machine.cores > 0 && machine.cores < machine.world_size) {
    rates.forward_flops *= static_cast<double>(machine.cores) / machine.world_size;
    rates.backward_flops *= static_cast<double>(machine.cores) / machine.world_size;
  }
  const double bytes = block_values(job.shape, job.max_rows()) * job.storage_bytes();
  double slowest = 0;
  for (const Path& path : job.scheme->links == Links::to_all ? machine.to_all : machine.to_next) {
    if (path.seconds(bytes) <= slowest) continue;
    slowest = path.seconds(bytes);
    rates.bytes_per_s = path.bytes_per_s;
    rates.latency_s = path.latency_s;
  }
  return layer_time(job, balance_of(job), rates).total();
}

}  // namespace

Figures figures_of(const Simulation& simulation) {
  Figures figures;
  figures.wall_s = simulation.wall_s();
  figures.forward_s = simulation.forward_s;
  figures.backward_s = simulation.backward_s;
  const double ranks = static_cast<double>(simulation.ranks.size());
  for (const SimulatedRank& rank : simulation.ranks) {
    figures.compute_s += rank.compute_s / ranks;
    figures.wait_s += rank.wait_s / ranks;
    figures.mean_exposed_s += rank.exposed_s / ranks;
  }
  figures.exposed_s = simulation.exposed_s();
  figures.efficiency = figures.wall_s > 0 ? figures.compute_s / figures.wall_s : 1;
  figures.imbalance = simulation.imbalance();
  figures.balance_ceiling = simulation.balance_ceiling();
  return figures;
}

Figures figures_of(const Scenario& scenario, const Machine& machine, const Simulation& simulation) {
  const Problem& job = scenario.job;
  Figures figures = figures_of(simulation);
  if (scenario.calibrated)
    for (const Pass pass : kAllPasses)
      figures.efficiency -= static_cast<double>(simulation.calls[static_cast<int>(pass)]) /
                            job.world_size * machine.step_seconds(pass) / figures.wall_s;
  if (!is_followed(job) && job.scheme->course != Course::turns)
    figures.closed_form_s = closed_form_s(job, machine);
  figures.peak_bytes = peak_bytes(job);
  return figures;
}

Figures run_scenario(const Scenario& scenario, const Work& work) {
  const Machine machine = machine_of(scenario);
  return figures_of(scenario, machine, simulate({scenario.job, scenario.pace}, work, machine));
}

Choice judge_by_simulation(Scenario scenario, double memory_bytes, const MemoryOf& memory_of) {
  const Problem job = scenario.job;
  Choice choice{job, {}, {}, memory_of(job), obstacle(job, memory_bytes, memory_of)};
  if (why_refused(job)) return choice;
  if (auto why = obstacle(scenario)) {
    choice.obstacle = std::move(why);
    return choice;
  }
  const SimulatedRun run = run_of({job, scenario.pace}, work_of(scenario), machine_of(scenario));
  // With free links, ranks wait for each other's work alone.
  std::vector<double> free = run.seconds;
  double compute[2] = {};  // by pass: mean over ranks
  for (std::size_t i = 0; i < free.size(); ++i) {
    const Task& task = run.graph.tasks[i];
    if (task.is_hop()) free[i] = 0;
    if (task.kind == Task::Kind::attend)
      compute[static_cast<int>(task.pass)] += run.seconds[i] / job.world_size;
  }
  const TaskTimes even = evaluate(run.graph, free);
  const auto time_of = [&](double computing, double without_links, double wall) {
    return PassTime{computing, std::max(0.0, without_links - computing),
                    std::max(0.0, wall - without_links), wall};
  };
  choice.time.forward = time_of(compute[0], even.forward_s, run.times.forward_s);
  choice.time.backward = time_of(compute[1], even.backward_s, run.times.backward_s);
  const Simulation simulation = summary_of(job, run);
  const double mean = simulation.mean_step_pairs;
  choice.balance = {{{simulation.slowest_step_pairs, false}}, mean, mean * simulation.imbalance()};
  return choice;
}

}  // namespace ringscope
