#include "core/tools/sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/ring/scheme.h"

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

namespace {

// Throw InputError for a number that is not finite, or below 0, or 0 unless that `may_be_0`.
void check_number(double value, const char* name, bool may_be_0 = false) {
  if (!(may_be_0 ? value >= 0 : value > 0) || !std::isfinite(value))
    throw InputError(fmt::format("{}: {} given, a number {} accepted", name, value,
                                 may_be_0 ? "of at least 0" : "above 0"));
}

template <class T>
void check_length(const std::vector<T>& values, int world_size, const char* name) {
  if (!values.empty() && values.size() != static_cast<std::size_t>(world_size))
    throw InputError(fmt::format("{}: of {} ranks given, of none or all {} accepted", name,
                                 values.size(), world_size));
}

void check(const SimulationRequest& request, const Work& work, const Machine& machine) {
  const Problem& job = request.job;
  if (work.world_size() != job.world_size || machine.world_size != job.world_size)
    throw InputError(
        fmt::format("world-size: a job of {} ranks, work of {} and a machine of {} "
                    "given, the same accepted",
                    job.world_size, work.world_size(), machine.world_size));
  if (job.scheme->counts_nodes) job.ranks_a_node();  // throws where nodes don't divide
  if (job.kv_buffers < 2)
    throw InputError(fmt::format("kv-buffers: {} given, at least 2 accepted", job.kv_buffers));
  check_number(machine.rates.forward_flops, "forward rate");
  if (job.backward) check_number(machine.rates.backward_flops, "backward rate");
  check_number(machine.rates.bytes_per_s, "bandwidth");
  for (const auto& [value, name] : {std::pair{machine.rates.latency_s, "latency"},
                                    {machine.step_s, "cost of a step"},
                                    {machine.jitter, "jitter"},
                                    {machine.hop_jitter, "jitter of hops"}})
    check_number(value, name, true);
  check_length(machine.speed, job.world_size, "speed");
  for (const double speed : machine.speed) check_number(speed, "speed");
  for (const std::vector<Path>* paths :
       {&machine.to_next, &machine.to_next_here, &machine.to_next_node, &machine.to_all}) {
    check_length(*paths, job.world_size, "links");
    for (const Path& path : *paths) {
      check_number(path.bytes_per_s, "rate of a link");
      check_number(path.latency_s, "latency of a link", true);
    }
  }
  const bool shares_cores = machine.cores > 0 && machine.cores < job.world_size;
  const bool in_step = request.pace == Pace::in_step && job.rotates_blocks();
  if (shares_cores && in_step)
    throw InputError("cores: ranks that share them are in no step; accepted: with buffers");
  if (machine.cpu != nullptr && !is_plain(job))
    throw InputError(fmt::format("scheme: '{}' given for a measured CPU; accepted: ring, allgather",
                                 job.scheme_name()));
}

}  // namespace

SimulatedRun run_of(const SimulationRequest& request, const Work& work, const Machine& machine) {
  check(request, work, machine);
  const Problem& job = request.job;
  const bool paced = has_paces(job);
  const bool shares_cores = machine.cores > 0 && machine.cores < job.world_size;
  const bool on_cpu = shares_cores || machine.cpu != nullptr;
  GraphOptions options{.in_step = paced && !on_cpu && request.pace == Pace::in_step,
                       .hosts_compute = on_cpu || (is_followed(job) && !paced),
                       .granularity = work.granularity()};
  if (paced) options.work = &work;
  SimulatedRun run{graph_of(job, options), {}, {}};
  run.seconds = durations_on(run.graph, job, machine);
  run.times =
      evaluate(run.graph, run.seconds, {on_cpu ? machine.cores : 0, machine.cpu != nullptr});
  return run;
}

namespace {

// Return how much of the union of `transfers` lies outside `computing`, which is in order and has
// no overlaps.
double time_outside(std::vector<TimeSpan> transfers, const std::vector<TimeSpan>& computing) {
  std::sort(transfers.begin(), transfers.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  double outside = 0, until = 0;
  bool is_first = true;
  std::size_t next = 0;  // the first computation that may still overlap
  for (const TimeSpan& span : transfers) {
    double from = is_first ? span.begin : std::max(span.begin, until);
    is_first = false;
    if (from >= span.end) continue;
    until = span.end;
    while (next < computing.size() && computing[next].end <= from) ++next;
    for (std::size_t i = next; i < computing.size() && computing[i].begin < span.end; ++i) {
      outside += std::max(0.0, computing[i].begin - from);
      from = std::max(from, std::min(computing[i].end, span.end));
    }
    outside += std::max(0.0, span.end - from);
  }
  return outside;
}

// Adds up what the ranks do.
class Summary {
 public:
  Summary(const Problem& job, const SimulatedRun& run)
      : job_(job), run_(run), n_(static_cast<std::size_t>(job.world_size)), incoming_(n_) {
    result.ranks.resize(n_);
    for (std::size_t i = 0; i < run.graph.tasks.size(); ++i) {
      const Task& task = run.graph.tasks[i];
      if (!task.is_hop()) continue;
      if (task.is_message()) incoming_[task.to].push_back(static_cast<std::int32_t>(i));
      hops_ = std::max(hops_, static_cast<std::size_t>(task.number) + 1);
    }
  }

  void add(Pass pass) {
    (pass == Pass::forward ? result.forward_s : result.backward_s) =
        pass == Pass::forward ? run_.times.forward_s : run_.times.backward_s;
    const double origin_s = pass == Pass::forward ? 0 : run_.times.forward_s;
    const bool gathers = job_.scheme->course == Course::gathers;
    std::vector<double> pairs_of(n_ * n_, 0);  // [step][rank]
    for (std::size_t r = 0; r < n_; ++r) {
      SimulatedRank& mine = result.ranks[r];
      std::vector<TimeSpan> computing, sent;
      std::set<std::pair<int, Payload>> hops;
      // By number, when the rank had asked for a hop: at the end of what it computed before.
      std::vector<double> asked(hops_, 0);
      double now = 0, asks = -std::numeric_limits<double>::infinity();
      const auto [first, last] = run_.graph.of_rank(static_cast<int>(r));
      for (std::size_t i = first; i < last; ++i) {
        const Task& task = run_.graph.tasks[i];
        if (task.pass != pass) continue;
        if (task.kind == Task::Kind::begin) now = run_.times.begin[i];
        if (task.is_hop()) {
          asked[task.number] = asks;
          mine.bytes_sent += task.bytes;
          if (!task.is_message()) continue;
          take(sent, i, asks);
          hops.emplace(task.step, gathers ? task.payload : Payload::kv);
          continue;
        }
        mine.wait_s += std::max(0.0, run_.times.begin[i] - now);
        now = asks = run_.times.end[i];
        mine.end_s = origin_s + now;
        if (task.kind != Task::Kind::attend) continue;
        mine.compute_s += run_.times.seconds(i);
        computing.push_back({run_.times.begin[i], now});
        pairs_of[static_cast<std::size_t>(task.step) * n_ + r] += task.work.pairs;
        if (pass == Pass::forward) mine.pairs += task.work.pairs;
        ++result.steps;
        if (task.work.pairs > 0) ++result.calls[static_cast<int>(pass)];
      }
      for (const std::int32_t i : incoming_[r])
        if (const Task& task = run_.graph.tasks[i]; task.pass == pass)
          take(sent, i, asked[task.number]);
      mine.exposed_s += time_outside(std::move(sent), computing);
      mine.hops += std::ssize(hops);
    }
    if (pass == Pass::backward) return;
    result.mean_step_pairs =
        std::accumulate(pairs_of.begin(), pairs_of.end(), 0.0) / job_.world_size;
    RunInfo info;
    info.scheme = job_.scheme_name();
    const int n = info.world_size = job_.world_size;
    if (!travel_of(info).shares_steps(n)) {
      result.slowest_step_pairs = result.mean_step_pairs * result.imbalance();
      return;
    }
    for (auto step = pairs_of.begin(); step != pairs_of.end(); step += n)
      result.slowest_step_pairs += *std::max_element(step, step + n);
  }

  Simulation result;

 private:
  // A rank that waited before it asked for a hop did not wait for it.
  void take(std::vector<TimeSpan>& transfers, std::size_t hop, double asked) const {
    const TimeSpan span = run_.span_of_hop(hop);
    if (span.end > asked) transfers.push_back({std::max(span.begin, asked), span.end});
  }

  const Problem& job_;
  const SimulatedRun& run_;
  std::size_t n_, hops_ = 0;
  std::vector<std::vector<std::int32_t>> incoming_;  // hops by receiver
};

}  // namespace

Simulation summary_of(const Problem& job, const SimulatedRun& run) {
  Summary summary(job, run);
  for (const Pass pass : kAllPasses)
    if (pass == Pass::forward || job.backward) summary.add(pass);
  summary.result.path = critical_path(run.graph, run.times);
  return std::move(summary.result);
}

Simulation simulate(const SimulationRequest& request, const Work& work, const Machine& machine) {
  return summary_of(request.job, run_of(request, work, machine));
}

}  // namespace ringscope
