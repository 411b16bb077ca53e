// Puts a simulation into words, as text and as JSON.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "app/report/fields.h"
#include "app/simulate/simulate.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/sim/scenario_rows.h"

namespace ringscope {

// ---
// A simulation as text: what was asked, its time, where that went, and what decided it.

namespace {

constexpr int kMostRanksInTable = 16;
constexpr int kMostRanksInJson = 256;  // that are printed one by one
constexpr int kMostWithSteps = 64;     // world_size up to which each rank's steps are printed
constexpr std::size_t kMostRowsOfSweep = 60;

std::string figure_line(std::string_view what, std::string_view value) {
  return labelled_line(34, what, value);
}

std::string pace_text(const Scenario& scenario) {
  return has_buffers(scenario) ? fmt::format("{} buffers", scenario.job.kv_buffers) : "in step";
}

std::string way_text(const Scenario& scenario) {
  const Problem& job = scenario.job;
  const std::string scheme = job.scheme_name();
  if (job.scheme == Scheme::ulysses) return scheme;
  const std::string way = fmt::format("{}, {}", partition_name(scenario), scheme);
  const bool is_ring = job.scheme == Scheme::ring || job.scheme == Scheme::two_level;
  return is_ring ? way + ", " + pace_text(scenario) : way;
}

std::string faults_text(const Scenario& scenario) {
  std::vector<std::string> faults;
  for (const Straggler& straggler : scenario.stragglers)
    if (scenario.stragglers.size() <= 4)
      faults.push_back(
          fmt::format("rank {} at {:g} of the speed", straggler.rank, straggler.speed));
  if (scenario.stragglers.size() > 4)
    faults.push_back(count_text(std::ssize(scenario.stragglers), "straggler"));
  for (const Straggler& link : scenario.slow_links)
    faults.push_back(fmt::format("rank {}'s link at {:g} of its rate", link.rank, link.speed));
  if (!scenario.job.speeds.empty())
    faults.push_back(fmt::format("ranks of speed {}", fmt::join(scenario.job.speeds, ", ")));
  describe(scenario, [&](const MemberRow& row, const auto& member) {
    if constexpr (std::is_same_v<decltype(member), const double&>)
      if (!row.words.empty() && member > 0)
        faults.push_back(fmt::format(fmt::runtime(row.words), member));
  });
  if (scenario.cores > 0 && scenario.cores < scenario.job.world_size)
    faults.push_back(fmt::format("on {} shared", count_text(scenario.cores, "core")));
  if (scenario.step_s > 0)
    faults.push_back(fmt::format("{} a step", seconds_text(scenario.step_s)));
  if (scenario.calibrated) faults.push_back("calls and merging as in published runs");
  return faults.empty() ? "" : fmt::format("{}\n", fmt::join(faults, "; "));
}

std::string nodes_text(const Scenario& scenario) {
  if (scenario.job.nodes == 1) return "";
  return fmt::format("; {} nodes ({}), {} x {} between them: {:.4g} GB/s", scenario.job.nodes,
                     name_of(scenario.placement), scenario.nics, scenario.between.name,
                     scenario.between.bytes_per_s / 1e9);
}

std::string machine_line(const Scenario& scenario, const SimulatedHardware& hardware) {
  return fmt::format("{} of {}: {}; {}: {:.4g} GB/s one way{}\n",
                     count_text(scenario.job.world_size, "rank"), hardware.gpu,
                     flops_text(scenario.rates, scenario.job.backward), hardware.link,
                     scenario.rates.bytes_per_s / 1e9, nodes_text(scenario));
}

std::string header_text(const Scenario& scenario, const SimulatedHardware& hardware) {
  return problem_text(scenario.job) + "\n" + machine_line(scenario, hardware) +
         faults_text(scenario) + "\n";
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
  const SimulatedRank& rank = simulation.ranks[slowest];
  const auto row = [](const std::string& who, double compute, double wait, double exposed) {
    return Fields{{"", who, "", -34},
                  {"", compute, "computing", 12, seconds_text},
                  {"", wait, "waiting", 12, seconds_text},
                  {"", exposed, "exposed", 12, seconds_text}};
  };
  return text + "\n" +
         table_text({row("mean rank", f.compute_s, f.wait_s, f.mean_exposed_s),
                     row(fmt::format("rank {}, which computes most", slowest), rank.compute_s,
                         rank.wait_s, rank.exposed_s)}) +
         "\n";
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
    ranks =
        fmt::format("through ranks {}", fmt::join(path.ranks.rbegin(), path.ranks.rend(), ", "));
  } else {
    ranks = fmt::format("from rank {} to rank {}, through {} ranks", path.ranks.back(),
                        path.ranks.front(), count);
  }
  return figure_line("critical path",
                     fmt::format("{} of computing, {} of hops, {}", seconds_text(path.compute_s),
                                 seconds_text(path.hop_s), ranks));
}

std::string memory_text(const Figures& figures, const SimulatedHardware& hardware) {
  return fmt::format("{} of {}{}", gib_text(figures.peak_bytes), gib_text(hardware.memory_bytes),
                     figures.peak_bytes > hardware.memory_bytes ? ": too much" : "");
}

std::string balance_text(const Simulated& simulated) {
  const Figures& f = simulated.figures;
  std::string text = figure_line("imbalance, all steps together", ratio_text(f.imbalance)) +
                     figure_line("balance ceiling, step by step", ratio_text(f.balance_ceiling)) +
                     figure_line("efficiency (computing / time)", ratio_text(f.efficiency)) +
                     figure_line("exposed communication", seconds_text(f.exposed_s)) +
                     (f.closed_form_s == 0
                          ? ""
                          : figure_line("by formula, in step",
                                        fmt::format("{}: {}", seconds_text(f.closed_form_s),
                                                    difference_text(f.wall_s, f.closed_form_s)))) +
                     path_text(simulated);
  if (!simulated.scenario.calibrated && !simulated.scenario.cpu) text += kCallsLeftOut;
  const PartitionSpec& partition = simulated.scenario.job.partition;
  if (partition.is_searched())
    text += figure_line("searched partition", partition.found() + ", the best of all deals");
  if (partition == PartitionKind::contiguous && !partition.is_searched() &&
      f.balance_ceiling < 0.95)
    text += "contiguous is the default here; plan takes the best of four (--partition zigzag)\n";
  text += figure_line("memory a rank", memory_text(f, simulated.hardware));
  return text;
}

Fields rank_fields(const Simulated& simulated, int number) {
  const Problem& job = simulated.scenario.job;
  const Work& work = *simulated.work;
  const SimulatedRank& rank = simulated.simulation.ranks[number];
  const double bytes = total_bytes(memory_parts(job, static_cast<double>(work.rows(number))));
  std::vector<Json> pairs_by_step;
  const bool has_steps = is_plain(job);
  const bool tells_steps = has_steps && job.world_size <= kMostWithSteps;
  for (int step = 0; tells_steps && step < job.world_size; ++step)
    pairs_by_step.push_back(work.pairs(number, (number + job.world_size - step) % job.world_size));
  return {{"rank", number, "rank", 5},
          {"rows", work.rows(number)},
          {"pairs", rank.pairs, "pairs", 18, integer_text},
          {"compute_s", rank.compute_s, "computing", 12, seconds_text},
          {"wait_s", rank.wait_s, "waiting", 12, seconds_text},
          {"exposed_s", rank.exposed_s, "exposed", 12, seconds_text},
          {"bytes_sent", rank.bytes_sent, "sent", 12, gib_text},
          {"hops", rank.hops},
          {"peak_bytes", bytes},
          {"end_s", rank.end_s, "ends", 12, seconds_text},
          {tells_steps ? "pairs_by_step" : "", pairs_by_step}};
}

// Return all ranks if they are at most `most`, else an even sample.
std::vector<Fields> sampled_ranks(const Simulated& simulated, int most) {
  const std::int64_t world_size = simulated.scenario.job.world_size;
  const std::int64_t count = std::min<std::int64_t>(world_size, most);
  std::vector<Fields> ranks;
  for (std::int64_t i = 0; i < count; ++i)
    ranks.push_back(rank_fields(
        simulated, count == 1 ? 0 : static_cast<int>(i * (world_size - 1) / (count - 1))));
  return ranks;
}

// Return the values of the swept settings at a point, in columns as wide as their widest.
Fields setting_fields(const SweepTable& table, const SweepPoint& point) {
  Fields fields;
  for (std::size_t i = 0; i < table.axes.size(); ++i) {
    const auto& [setting, values] = table.axes[i];
    std::size_t width = setting.size();
    for (const std::string& value : values) width = std::max(width, value.size());
    fields.push_back({"", values[point.at[i]], setting, static_cast<int>(width) + 2});
  }
  return fields;
}

Fields figure_fields(const Figures& f) {
  return {{"wall_s", f.wall_s, "time", 12, seconds_text},
          {"forward_s", f.forward_s},
          {"backward_s", f.backward_s},
          {"compute_s", f.compute_s, "computing", 12, seconds_text},
          {"wait_s", f.wait_s},
          {"exposed_s", f.exposed_s, "exposed", 12, seconds_text},
          {"efficiency", f.efficiency, "efficiency", 12, ratio_text},
          {"imbalance", f.imbalance},
          {"balance_ceiling", f.balance_ceiling, "ceiling", 12, ratio_text},
          {"closed_form_s", f.closed_form_s},
          {"peak_bytes", f.peak_bytes, "memory", 12, gib_text},
          {"", f.closed_form_s, "by formula", 14,
           [](double seconds) { return seconds == 0 ? "none" : seconds_text(seconds); }}};
}

std::string figures_head() { return table_head(figure_fields({})) + "\n"; }

std::string figures_row(const Figures& f, const std::optional<std::string>& why, double memory) {
  if (why) return "  no: " + *why + "\n";
  return table_row(figure_fields(f)) + (f.peak_bytes > memory ? "  too much memory\n" : "\n");
}

}  // namespace

std::string simulated_text(const Simulated& simulated) {
  const Simulation& simulation = simulated.simulation;
  std::string text = header_text(simulated.scenario, simulated.hardware) + time_text(simulated) +
                     balance_text(simulated);
  if (simulated.scenario.job.world_size <= kMostRanksInTable)
    text += "\n" + table_text(sampled_ranks(simulated, kMostRanksInTable));
  text += fmt::format("\n{} steps of ranks simulated in {}\n", simulation.steps,
                      seconds_text(simulated.simulated_in_s));
  if (!simulated.largest_loss.empty()) text += figure_line("largest loss", simulated.largest_loss);
  if (simulated.recorded_ranks > 0)
    text += fmt::format("{} of {} are in the recording\n", simulated.recorded_ranks,
                        count_text(std::ssize(simulation.ranks), "rank"));
  return text;
}

std::string sweep_text(const SweepTable& table, const SimulatedHardware& hardware) {
  const std::size_t count = table.points.size();
  std::string text = fmt::format("{} simulations on {}; {}\n", count, hardware.gpu, hardware.link);
  text += faults_text(table.points.front().scenario) + "\n" +
          table_head(setting_fields(table, table.points.front())) + figures_head();
  for (std::size_t i = 0; i < std::min(count, kMostRowsOfSweep); ++i)
    text += table_row(setting_fields(table, table.points[i])) +
            figures_row(table.points[i].figures, table.points[i].why, hardware.memory_bytes);
  if (count > kMostRowsOfSweep)
    text += fmt::format("and {} more; --csv FILE writes all\n", count - kMostRowsOfSweep);
  return text;
}

// ---
// A simulation as JSON. Its keys are those of `run --json` where they mean the same.

namespace {

Fields scenario_fields(const Scenario& scenario) {
  const Problem& job = scenario.job;
  const bool buffers = has_buffers(scenario);
  return way_fields(job) +
         Fields{{"pace", buffers ? "buffers" : "in-step"},
                {"kv_buffers", buffers ? std::optional(job.kv_buffers) : std::nullopt}};
}

Fields machine_fields(const Scenario& scenario, const SimulatedHardware& hardware) {
  const bool has_nodes = scenario.job.nodes > 1;
  return Fields{{"gpu", hardware.gpu},
                {"link", hardware.link},
                {"forward_flops", scenario.rates.forward_flops},
                {"backward_flops", scenario.rates.backward_flops},
                {"bytes_per_s", scenario.rates.bytes_per_s},
                {"latency_s", scenario.rates.latency_s},
                {"memory_bytes", hardware.memory_bytes},
                {"nodes", scenario.job.nodes},
                {has_nodes ? "between" : "", scenario.between.name},
                {has_nodes ? "between_bytes_per_s" : "", scenario.between.bytes_per_s},
                {"calibrated", scenario.calibrated.has_value()},
                {"tile_rows", scenario.granularity.rows},
                {"tile_keys", scenario.granularity.keys}} +
         fields_of(scenario, {"nics", "placement", "cores", "step-us", "jitter", "hop-jitter",
                              "seed", "speeds", "straggler", "slow-link"});
}

// Return whether the way is possible, and its figures.
Fields outcome_fields(const std::optional<std::string>& why, const Figures& figures) {
  return Fields{{"why_not", why}} + (why ? Fields() : figure_fields(figures));
}

const Fields kBackend{{"backend", "sim"}};

}  // namespace

std::string simulated_json(const Simulated& simulated) {
  const Scenario& scenario = simulated.scenario;
  const CriticalPath& path = simulated.simulation.path;
  const PartitionSpec& partition = scenario.job.partition;
  return json_line(
      kBackend + scenario_fields(scenario) +
      Fields{{"machine", machine_fields(scenario, simulated.hardware)}} +
      figure_fields(simulated.figures) +
      Fields{{partition.is_searched() ? "searched" : "", partition.found()},
             {"ranks", sampled_ranks(simulated, kMostRanksInJson)},
             {path.ranks.empty() ? "" : "critical_path",
              Fields{{"compute_s", path.compute_s}, {"hop_s", path.hop_s}, {"ranks", path.ranks}}},
             {"recorded_ranks", simulated.recorded_ranks},
             {"steps", simulated.simulation.steps},
             {"simulated_in_s", simulated.simulated_in_s}});
}

std::string sweep_json(const SweepTable& table, const SimulatedHardware& hardware) {
  std::vector<Fields> points;
  for (const SweepPoint& point : table.points)
    points.push_back(scenario_fields(point.scenario) +
                     Fields{{"bytes_per_s", point.scenario.rates.bytes_per_s},
                            {"jitter", point.scenario.jitter}} +
                     outcome_fields(point.why, point.figures));
  return json_line(kBackend +
                   Fields{{"machine", machine_fields(table.points.front().scenario, hardware)},
                          {"sweep", points}});
}

}  // namespace ringscope
