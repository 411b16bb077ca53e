// Jobs and machines that nobody thought of, in which everything may be uneven.
#pragma once

#include <array>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/tools/sim/recording.h"

namespace ringscope {

struct RandomCase {
  Problem job;
  Pace pace = Pace::buffers;
  Machine machine;

  // How it came about, for a failure's message.
  std::string text() const {
    std::ostringstream text;
    text << name_of(job.scheme) << ", " << job.mask.name() << ", " << name_of(job.partition) << ", "
         << job.world_size << " ranks, seqlen " << job.shape.seqlen << ", "
         << (pace == Pace::in_step ? "in step" : std::to_string(job.kv_buffers) + " buffers")
         << (job.backward ? ", backward" : "") << ", jitter " << machine.jitter << " and "
         << machine.hop_jitter;
    return text.str();
  }
};

class RandomCases {
 public:
  explicit RandomCases(unsigned seed) : random_(seed) {}

  RandomCase next() {
    static const char* const masks[] = {"full",      "causal",     "causal+window:40",
                                        "window:25", "prefix:100", "causal+documents:120,3,77"};
    RandomCase made;
    Problem& job = made.job;
    job.mask = MaskSpec::parse(masks[below(6)]);
    job.shape = {1 + below(2), 4, 2, 200, 8};
    job.partition = kAllPartitions[below(4)];
    job.world_size = 1 + (below(4) == 0 ? below(100) : below(9));
    job.scheme = std::array{scheme_named("ring"), scheme_named("ring"), scheme_named("allgather"),
                            scheme_named("two-level")}[below(4)];
    if (job.scheme == scheme_named("two-level")) {
      std::vector<int> divisors;
      for (int nodes = 1; nodes <= job.world_size; ++nodes)
        if (job.world_size % nodes == 0) divisors.push_back(nodes);
      job.nodes = divisors[static_cast<std::size_t>(below(static_cast<int>(divisors.size())))];
    }
    job.backward = below(2) == 0;
    job.kv_buffers = 2 + (below(3) == 0 ? below(job.world_size + 2) : below(2));
    made.pace = below(3) == 0 ? Pace::in_step : Pace::buffers;

    Machine& machine = made.machine;
    machine.world_size = job.world_size;
    // A hop takes about as long as a step.
    const double rows = 200.0 / job.world_size;
    machine.rates.forward_flops = 1e9;
    machine.rates.backward_flops = 0.7e9;
    machine.rates.bytes_per_s = 1e9 * 8 / rows * share();
    machine.rates.latency_s = below(2) * 1e-6 * share();
    machine.step_s = below(2) * 1e-6 * share();
    machine.jitter = below(2) * share();
    machine.hop_jitter = below(2) * share();
    machine.seed = random_();
    const bool uneven_speed = below(2) == 0, uneven_links = below(2) == 0;
    for (int rank = 0; rank < job.world_size; ++rank) {
      if (uneven_speed) machine.speed.push_back(0.3 + share());
      for (auto* paths : {&machine.to_next, &machine.to_next_here})
        if (uneven_links)
          paths->push_back({machine.rates.bytes_per_s * (0.2 + share()), 1e-6 * share()});
      machine.to_next_node.push_back(
          {machine.rates.bytes_per_s * (0.05 + share()), 3e-6 * share()});
    }
    return made;
  }

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  double share() { return std::uniform_real_distribution<double>(0.01, 1)(random_); }

 private:
  std::mt19937_64 random_;
};

inline Simulation simulated(const RandomCase& made) {
  return simulate({made.job, made.pace}, Work(made.job), made.machine);
}

// Return the events of `ranks`, or of all ranks.
struct Recorded {
  Simulation simulation;
  std::vector<std::vector<TraceEvent>> events;
};
inline Recorded recorded(const RandomCase& made, std::vector<bool> ranks = {}) {
  ranks.resize(static_cast<std::size_t>(made.job.world_size), ranks.empty());
  const SimulatedRun run = run_of({made.job, made.pace}, Work(made.job), made.machine);
  return {summary_of(made.job, run), events_of(made.job, run, ranks)};
}

}  // namespace ringscope
