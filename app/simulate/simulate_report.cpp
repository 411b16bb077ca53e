// Puts a simulation into words, as text and as JSON.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "app/plan/plan.h"
#include "app/report/json_writer.h"
#include "app/run/report.h"
#include "app/simulate/simulate.h"
#include "core/cost/amounts.h"

namespace ringscope {

// ---
// A simulation as text: what was asked, its time, where that went, and what decided it.

namespace {

constexpr int kMostRanksInTable = 16;
constexpr std::size_t kMostRowsOfSweep = 60;

std::string figure_line(const std::string& what, const std::string& value) {
  return fmt::format("{:<34}{}\n", what, value);
}

std::string count_text(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string pace_text(const Scenario& scenario) {
  return has_buffers(scenario) ? fmt::format("{} buffers", scenario.job.kv_buffers) : "in step";
}

std::string way_text(const Scenario& scenario) {
  const Problem& job = scenario.job;
  const std::string scheme(name_of(job.scheme));
  if (job.scheme == Scheme::ulysses) return scheme;
  const std::string way = fmt::format("{}, {}", partition_name(scenario), scheme);
  return job.scheme == Scheme::allgather ? way : way + ", " + pace_text(scenario);
}

std::string faults_text(const Scenario& scenario) {
  std::string text;
  const auto add = [&text](const std::string& fault) {
    text += (text.empty() ? "" : "; ") + fault;
  };
  for (const Straggler& straggler : scenario.stragglers)
    if (scenario.stragglers.size() <= 4)
      add(fmt::format("rank {} at {:g} of the speed", straggler.rank, straggler.speed));
  if (scenario.stragglers.size() > 4)
    add(count_text(static_cast<int>(scenario.stragglers.size()), "straggler"));
  if (scenario.jitter > 0) add(fmt::format("jitter {:g} of computing", scenario.jitter));
  if (scenario.hop_jitter > 0) add(fmt::format("jitter {:g} of hops", scenario.hop_jitter));
  if (scenario.cores > 0 && scenario.cores < scenario.job.world_size)
    add(fmt::format("on {} shared", count_text(scenario.cores, "core")));
  if (scenario.step_s > 0) add(fmt::format("{} a step", seconds_text(scenario.step_s)));
  return text.empty() ? "" : text + "\n";
}

std::string problem_line(const Problem& job) {
  const AttentionShape& s = job.shape;
  return fmt::format("{} tokens x {} batch, {} heads ({} kv), head_dim {}, {}, mask {}, {}\n",
                     s.seqlen, s.batch, s.num_heads, s.num_heads_kv, s.head_dim, name_of(job.dtype),
                     job.mask.name(), job.backward ? "forward and backward" : "forward");
}

std::string nodes_text(const Scenario& scenario) {
  if (scenario.topology || scenario.job.nodes == 1)
    return scenario.job.nodes == 1 ? "" : fmt::format("; {} nodes", scenario.job.nodes);
  return fmt::format("; {} nodes ({}), {} x {} between them: {:.4g} GB/s", scenario.job.nodes,
                     name_of(scenario.placement), scenario.nics, scenario.between.name,
                     scenario.between.bytes_per_s / 1e9);
}

// Return the link's name and bandwidth. A topology has several links, so it gets no number.
std::string link_text(const Scenario& scenario, const SimulatedHardware& hardware) {
  if (scenario.topology) return "links of " + hardware.link;
  return fmt::format("{}: {:.4g} GB/s one way", hardware.link, scenario.rates.bytes_per_s / 1e9);
}

std::string machine_line(const Scenario& scenario, const SimulatedHardware& hardware) {
  const Rates& rates = scenario.rates;
  return fmt::format(
      "{} of {}: {:.4g} TFLOP/s{}; {}{}\n", count_text(scenario.job.world_size, "rank"),
      hardware.gpu, rates.forward_flops / 1e12,
      scenario.job.backward
          ? fmt::format(" forward, {:.4g} TFLOP/s backward", rates.backward_flops / 1e12)
          : "",
      link_text(scenario, hardware), nodes_text(scenario));
}

std::string header_text(const Scenario& scenario, const SimulatedHardware& hardware) {
  return problem_line(scenario.job) + machine_line(scenario, hardware) + faults_text(scenario) +
         "\n";
}

int busiest_rank(const Simulation& simulation) {
  const auto busiest = std::max_element(
      simulation.ranks.begin(), simulation.ranks.end(),
      [](const SimulatedRank& a, const SimulatedRank& b) { return a.compute_s < b.compute_s; });
  return static_cast<int>(busiest - simulation.ranks.begin());
}

std::string time_text(const Simulated& simulated) {
  const Simulation& simulation = simulated.simulation;
  const Figures& f = simulated.figures;
  std::string text = figure_line("time of a layer", fmt::format("{}: {}", seconds_text(f.wall_s),
                                                                way_text(simulated.scenario)));
  if (simulated.scenario.job.backward)
    text += figure_line("", fmt::format("forward {}, backward {}", seconds_text(f.forward_s),
                                        seconds_text(f.backward_s)));
  const int slowest = busiest_rank(simulation);
  const SimulatedRank& rank = simulation.ranks[static_cast<std::size_t>(slowest)];
  text += fmt::format("\n{:<34}{:>12}{:>12}{:>12}\n", "", "computing", "waiting", "exposed");
  const auto row = [&text](const std::string& what, double compute, double wait, double exposed) {
    text += fmt::format("{:<34}{:>12}{:>12}{:>12}\n", what, seconds_text(compute),
                        seconds_text(wait), seconds_text(exposed));
  };
  row("mean rank", f.compute_s, f.wait_s, f.mean_exposed_s);
  row(fmt::format("rank {}, which computes most", slowest), rank.compute_s, rank.wait_s,
      rank.exposed_s);
  return text + "\n";
}

// Return "the same", or by how much the simulation takes more or less.
std::string difference_text(double simulated, double formula) {
  if (simulated == formula) return "the same";
  const double share = simulated / formula - 1;
  if (std::abs(share) < 5e-6) return "the same but for rounding";
  return fmt::format("the simulation takes {:.3g} % {}", 100 * std::abs(share),
                     share > 0 ? "more" : "less");
}

std::string path_text(const Simulated& simulated) {
  const CriticalPath& path = simulated.simulation.path;
  if (path.ranks.empty()) return "";
  std::string ranks;
  const std::size_t count = path.ranks.size();
  if (count == 1) {
    ranks = fmt::format("all on rank {}", path.ranks[0]);
  } else if (count <= 8) {
    for (std::size_t i = count; i-- > 0;)
      ranks += fmt::format("{}{}", ranks.empty() ? "through ranks " : ", ", path.ranks[i]);
  } else {
    ranks = fmt::format("from rank {} to rank {}, through {} ranks", path.ranks.back(),
                        path.ranks.front(), count);
  }
  return figure_line("critical path",
                     fmt::format("{} of computing, {} of hops, {}", seconds_text(path.compute_s),
                                 seconds_text(path.hop_s), ranks));
}

// Return text such as "0, 1, 4, ...".
std::string ring_text(const std::vector<int>& ring) {
  constexpr std::size_t kMost = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(ring.size(), kMost); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ring[i]);
  return ring.size() > kMost ? text + ", ..." : text;
}

std::string memory_text(const Figures& figures, const SimulatedHardware& hardware) {
  return fmt::format("{} of {}{}", gb_text(figures.peak_bytes), gb_text(hardware.memory_bytes),
                     figures.peak_bytes > hardware.memory_bytes ? ": too much" : "");
}

std::string balance_text(const Simulated& simulated) {
  const Figures& f = simulated.figures;
  std::string text =
      figure_line("imbalance (slowest rank / mean)", fmt::format("{:.3f}", f.imbalance)) +
      figure_line("balance ceiling (mean / slowest)", fmt::format("{:.3f}", f.balance_ceiling)) +
      figure_line("efficiency (computing / time)", fmt::format("{:.3f}", f.efficiency)) +
      figure_line("exposed communication", seconds_text(f.exposed_s));
  text +=
      figure_line("by formula, in step", fmt::format("{}: {}", seconds_text(f.closed_form_s),
                                                     difference_text(f.wall_s, f.closed_form_s)));
  text += path_text(simulated);
  if (!simulated.ring.empty())
    text += figure_line("ring order",
                        ring_text(simulated.ring) + "; ranks are told by their place in it");
  text += figure_line("memory a rank", memory_text(f, simulated.hardware));
  return text;
}

std::string rank_table(const Simulated& simulated) {
  const Simulation& simulation = simulated.simulation;
  if (simulation.ranks.size() > kMostRanksInTable) return "";
  std::string text = fmt::format("\n{:>5}{:>18}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "rank", "pairs",
                                 "computing", "waiting", "exposed", "sent", "ends");
  for (std::size_t r = 0; r < simulation.ranks.size(); ++r) {
    const SimulatedRank& rank = simulation.ranks[r];
    text += fmt::format("{:>5}{:>18.0f}{:>12}{:>12}{:>12}{:>12}{:>12}\n", r, rank.pairs,
                        seconds_text(rank.compute_s), seconds_text(rank.wait_s),
                        seconds_text(rank.exposed_s), gb_text(rank.bytes_sent),
                        seconds_text(rank.end_s));
  }
  return text;
}

// The values of the swept settings at a point, in columns as wide as their widest.
class SweepRows {
 public:
  explicit SweepRows(const SweepTable& table) : table_(table) {
    for (const SweptAxis& axis : table.axes) {
      std::size_t width = name_of(axis.setting).size();
      for (const SweptValue& value : axis.values) width = std::max(width, value.text.size());
      widths_.push_back(width + 2);
    }
  }
  std::string head() const {
    std::string text;
    for (std::size_t i = 0; i < widths_.size(); ++i)
      text += fmt::format("{:>{}}", name_of(table_.axes[i].setting), widths_[i]);
    return text;
  }
  std::string row(const SweepPoint& point) const {
    std::string text;
    for (std::size_t i = 0; i < widths_.size(); ++i)
      text += fmt::format("{:>{}}", table_.axes[i].values[point.at[i]].text, widths_[i]);
    return text;
  }

 private:
  const SweepTable& table_;
  std::vector<std::size_t> widths_;
};

std::string figures_head() {
  return fmt::format("{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>14}\n", "time", "computing", "exposed",
                     "efficiency", "ceiling", "memory", "by formula");
}

std::string figures_row(const Figures& f, const std::optional<std::string>& why, double memory) {
  if (why) return "  no: " + *why + "\n";
  return fmt::format("{:>12}{:>12}{:>12}{:>12.3f}{:>12.3f}{:>12}{:>14}{}\n", seconds_text(f.wall_s),
                     seconds_text(f.compute_s), seconds_text(f.exposed_s), f.efficiency,
                     f.balance_ceiling, gb_text(f.peak_bytes), seconds_text(f.closed_form_s),
                     f.peak_bytes > memory ? "  too much memory" : "");
}

}  // namespace

std::string simulated_text(const Simulated& simulated) {
  const Simulation& simulation = simulated.simulation;
  std::string text = header_text(simulated.scenario, simulated.hardware) + time_text(simulated) +
                     balance_text(simulated) + rank_table(simulated);
  text += fmt::format("\n{} steps of ranks simulated in {}\n", simulation.steps,
                      seconds_text(simulated.simulated_in_s));
  if (simulated.recorded_ranks > 0)
    text += fmt::format("{} of {} are in the recording\n", simulated.recorded_ranks,
                        count_text(static_cast<int>(simulation.ranks.size()), "rank"));
  return text;
}

// A way must be faster by this factor to count as better, as for `plan`.
constexpr double kAsGood = 1.01;

std::string ways_text(const std::vector<SimulatedWay>& ways, const SimulatedHardware& hardware) {
  const Scenario& scenario = ways.front().scenario;
  std::string text = header_text(scenario, hardware);
  text += fmt::format("  {:<11}{:<12}{:<11}", "scheme", "partition", "pace") + figures_head();
  const SimulatedWay* best = nullptr;
  for (const SimulatedWay& way : ways)
    if (!way.why && way.figures.peak_bytes <= hardware.memory_bytes &&
        (best == nullptr || way.figures.wall_s * kAsGood < best->figures.wall_s))
      best = &way;
  for (const SimulatedWay& way : ways) {
    const Problem& job = way.scenario.job;
    const bool by_heads = job.scheme == Scheme::ulysses;
    const bool is_ring = job.scheme == Scheme::ring || job.scheme == Scheme::two_level;
    text += fmt::format("{} {:<11}{:<12}{:<11}", &way == best ? '*' : ' ', name_of(job.scheme),
                        by_heads ? "(by heads)" : partition_name(way.scenario),
                        is_ring ? pace_text(way.scenario) : "") +
            figures_row(way.figures, way.why, hardware.memory_bytes);
  }
  return text + (best != nullptr ? "* the fastest that fits; within 1 % the first counts\n"
                                 : "none of them fits\n");
}

std::string sweep_text(const SweepTable& table, const SimulatedHardware& hardware) {
  const SweepRows rows(table);
  const std::size_t count = table.points.size();
  std::string text = fmt::format("{} simulations on {}; {}\n", count, hardware.gpu, hardware.link);
  text += faults_text(table.points.front().scenario) + "\n" + rows.head() + figures_head();
  for (std::size_t i = 0; i < std::min(count, kMostRowsOfSweep); ++i)
    text += rows.row(table.points[i]) +
            figures_row(table.points[i].figures, table.points[i].why, hardware.memory_bytes);
  if (count > kMostRowsOfSweep)
    text += fmt::format("and {} more; --csv FILE writes all\n", count - kMostRowsOfSweep);
  return text;
}

// ---
// A simulation as JSON. Its keys are those of `run --json` where they mean the same.

namespace {

constexpr int kMostRanksInJson = 256;  // that are printed one by one
constexpr int kMostWithSteps = 64;     // world_size up to which each rank's steps are printed

std::string_view pace_name(const Scenario& scenario) {
  return has_buffers(scenario) ? "buffers" : "in-step";
}

void put_way(JsonWriter& json, const Scenario& scenario) {
  const Problem& job = scenario.job;
  json.put("world_size", Index{job.world_size});
  json.put("partition", partition_name(scenario));
  json.put("mask", std::string_view(job.mask.name()));
  json.put("scheme", name_of(job.scheme));
  json.put("pace", pace_name(scenario));
  has_buffers(scenario) ? json.put("kv_buffers", Index{job.kv_buffers}) : json.null("kv_buffers");
  json.put("dtype", name_of(job.dtype));
  put_shape(json, job.shape);
  json.put("backward", job.backward);
}

void put_machine(JsonWriter& json, const Scenario& scenario, const SimulatedHardware& hardware) {
  json.key("machine");
  json.object([&] {
    json.put("gpu", std::string_view(hardware.gpu));
    json.put("link", std::string_view(hardware.link));
    json.put("forward_flops", scenario.rates.forward_flops);
    json.put("backward_flops", scenario.rates.backward_flops);
    json.put("bytes_per_s", scenario.rates.bytes_per_s);
    json.put("latency_s", scenario.rates.latency_s);
    json.put("memory_bytes", hardware.memory_bytes);
    json.put("nodes", Index{scenario.job.nodes});
    if (scenario.job.nodes > 1 && !scenario.topology) {
      json.put("between", std::string_view(scenario.between.name));
      json.put("between_bytes_per_s", scenario.between.bytes_per_s);
      json.put("nics", Index{scenario.nics});
      json.put("placement", name_of(scenario.placement));
    }
    json.put("order",
             std::string_view(scenario.order == RingOrder::topology ? "topology" : "rank"));
    json.put("cores", Index{scenario.cores});
    json.put("step_s", scenario.step_s);
    json.put("tile_rows", scenario.granularity.rows);
    json.put("tile_keys", scenario.granularity.keys);
    json.put("jitter", scenario.jitter);
    json.put("hop_jitter", scenario.hop_jitter);
    put_seed(json, scenario.seed);
    json.array("stragglers", [&] {
      for (const Straggler& straggler : scenario.stragglers)
        json.object([&] {
          json.put("rank", Index{straggler.rank});
          json.put("speed", straggler.speed);
        });
    });
  });
}

void put_figures(JsonWriter& json, const Figures& f) {
  json.put("wall_s", f.wall_s);
  json.put("forward_s", f.forward_s);
  json.put("backward_s", f.backward_s);
  json.put("compute_s", f.compute_s);
  json.put("wait_s", f.wait_s);
  json.put("exposed_s", f.exposed_s);
  json.put("efficiency", f.efficiency);
  json.put("imbalance", f.imbalance);
  json.put("balance_ceiling", f.balance_ceiling);
  json.put("closed_form_s", f.closed_form_s);
  json.put("peak_bytes", f.peak_bytes);
}

void put_rank(JsonWriter& json, const Simulated& simulated, int number) {
  const Problem& job = simulated.scenario.job;
  const Work& work = *simulated.work;
  const SimulatedRank& rank = simulated.simulation.ranks[static_cast<std::size_t>(number)];
  json.object([&] {
    json.put("rank", Index{number});
    json.put("rows", work.rows(number));
    json.put("pairs", rank.pairs);
    json.put("compute_s", rank.compute_s);
    json.put("wait_s", rank.wait_s);
    json.put("exposed_s", rank.exposed_s);
    json.put("bytes_sent", rank.bytes_sent);
    json.put("hops", rank.hops);
    json.put("peak_bytes", total_bytes(memory_parts(job, static_cast<double>(work.rows(number)))));
    json.put("end_s", rank.end_s);
    const bool has_steps = job.scheme == Scheme::ring || job.scheme == Scheme::allgather;
    if (!has_steps || job.world_size > kMostWithSteps) return;
    json.array("pairs_by_step", [&] {
      for (int step = 0; step < job.world_size; ++step)
        json.value(work.pairs(number, (number + job.world_size - step) % job.world_size));
    });
  });
}

void put_path(JsonWriter& json, const CriticalPath& path) {
  json.key("critical_path");
  json.object([&] {
    json.put("compute_s", path.compute_s);
    json.put("hop_s", path.hop_s);
    json.array("ranks", [&] {
      for (const int rank : path.ranks) json.value(Index{rank});
    });
  });
}

// Put whether the way is possible, and its figures.
void put_outcome(JsonWriter& json, const std::optional<std::string>& why, const Figures& figures) {
  why ? json.put("why_not", std::string_view(*why)) : json.null("why_not");
  if (!why) put_figures(json, figures);
}

// Return all ranks if they are at most `most`, else an even sample.
std::vector<int> told_ranks(int world_size, int most) {
  const int count = std::min(world_size, most);
  std::vector<int> ranks;
  for (std::int64_t i = 0; i < count; ++i)
    ranks.push_back(
        count == 1 ? 0 : static_cast<int>(i * (std::int64_t{world_size} - 1) / (count - 1)));
  return ranks;
}

}  // namespace

std::string simulated_json(const Simulated& simulated) {
  const Scenario& scenario = simulated.scenario;
  JsonWriter json;
  json.object([&] {
    json.put("backend", std::string_view("sim"));
    put_way(json, scenario);
    put_machine(json, scenario, simulated.hardware);
    put_figures(json, simulated.figures);
    json.array("ranks", [&] {
      for (const int rank : told_ranks(scenario.job.world_size, kMostRanksInJson))
        put_rank(json, simulated, rank);
    });
    if (!simulated.simulation.path.ranks.empty()) put_path(json, simulated.simulation.path);
    json.array("ring_order", [&] {
      for (const int rank : simulated.ring) json.value(Index{rank});
    });
    json.put("recorded_ranks", Index{simulated.recorded_ranks});
    json.put("steps", simulated.simulation.steps);
    json.put("simulated_in_s", simulated.simulated_in_s);
  });
  return json.text() + "\n";
}

std::string ways_json(const std::vector<SimulatedWay>& ways, const SimulatedHardware& hardware) {
  JsonWriter json;
  json.object([&] {
    json.put("backend", std::string_view("sim"));
    put_machine(json, ways.front().scenario, hardware);
    json.array("schemes", [&] {
      for (const SimulatedWay& way : ways)
        json.object([&] {
          put_way(json, way.scenario);
          put_outcome(json, way.why, way.figures);
        });
    });
  });
  return json.text() + "\n";
}

std::string sweep_json(const SweepTable& table, const SimulatedHardware& hardware) {
  JsonWriter json;
  json.object([&] {
    json.put("backend", std::string_view("sim"));
    put_machine(json, table.points.front().scenario, hardware);
    json.array("sweep", [&] {
      for (const SweepPoint& point : table.points)
        json.object([&] {
          put_way(json, point.scenario);
          json.put("bytes_per_s", point.scenario.rates.bytes_per_s);
          json.put("jitter", point.scenario.jitter);
          put_outcome(json, point.why, point.figures);
        });
    });
  });
  return json.text() + "\n";
}

}  // namespace ringscope
