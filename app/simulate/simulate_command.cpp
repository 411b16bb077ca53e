// `ringscope simulate`: from its flags to the answer, as text and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/command_line/commands.h"
#include "app/command_line/hardware.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "core/attention/blockwise.h"
#include "core/attention/vectors.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/measure.h"
#include "core/tools/explain/explain.h"
#include "core/tools/sim/graph.h"
#include "core/tools/sim/recording.h"
#include "core/tools/sim/scenario.h"
#include "core/tools/sim/scenario_rows.h"
#include "core/tools/sim/sweep.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/recorder.h"

namespace ringscope {

struct SimulateOptions {
  HardwareOptions hardware;
  // Rates and links are filled in later, as are cores and granularity if measured and not given.
  Scenario scenario;
  bool cores_given = false, tiles_given = false;

  std::vector<SweptAxis> sweep;

  std::optional<std::string> trace, csv, write_partition;
  std::optional<int> trace_ranks;  // none: as many as fit well into a file
  bool json = false;
};

namespace {

struct Setup {
  Scenario scenario;
  Hardware hardware;
};

struct Simulated : Setup {
  std::optional<Work> work;
  Simulation simulation;
  Figures figures;
  int recorded_ranks = 0;    // in --trace
  std::string largest_loss;  // of --trace; "" if there is none
  double simulated_in_s = 0;
};

// ---
// A simulation as text: what was asked, its time, where that went, and what decided it.

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

std::string paced_way_text(const Scenario& scenario) {
  return way_text(scenario.job) + (scenario.job.rotates_blocks() ? ", " + pace_text(scenario) : "");
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

std::string header_text(const Scenario& scenario, const Hardware& hardware) {
  return problem_text(scenario.job) + "\n" +
         machine_text(hardware, scenario.job, scenario.nics, scenario.placement) + "\n" +
         faults_text(scenario) + "\n";
}

int busiest_rank(const Simulation& simulation) {
  const auto busiest = std::ranges::max_element(simulation.ranks, {}, &SimulatedRank::compute_s);
  return static_cast<int>(busiest - simulation.ranks.begin());
}

std::string time_text(const Simulated& simulated) {
  const Simulation& simulation = simulated.simulation;
  const Figures& f = simulated.figures;
  std::string text = figure_line(
      "time of a layer",
      fmt::format("{}: {}", seconds_text(f.wall_s), paced_way_text(simulated.scenario)));
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

std::string memory_text(const Figures& figures, const Hardware& hardware) {
  return fmt::format("{} of {}{}", gib_text(figures.peak_bytes),
                     gib_text(hardware.gpu.memory_bytes),
                     figures.peak_bytes > hardware.gpu.memory_bytes ? ": too much" : "");
}

std::string balance_text(const Simulated& simulated) {
  const Figures& f = simulated.figures;
  std::string text = figure_line("imbalance, all steps together", ratio_text(f.imbalance)) +
                     figure_line("balance ceiling, step by step", ratio_text(f.balance_ceiling)) +
                     figure_line("efficiency (computing / time)", ratio_text(f.efficiency)) +
                     figure_line("exposed communication, worst rank", seconds_text(f.exposed_s)) +
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
  const double bytes = total_bytes(memory_parts(job, static_cast<double>(job.query_rows(number)),
                                                static_cast<double>(work.rows(number))));
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

std::string sweep_text(const SweepTable& table, const Hardware& hardware) {
  const std::size_t count = table.points.size();
  std::string text =
      fmt::format("{} simulations on {}; {}\n", count, hardware.gpu.name, hardware.link.name);
  text += faults_text(table.points.front().scenario) + "\n" +
          table_head(setting_fields(table, table.points.front())) + figures_head();
  for (std::size_t i = 0; i < std::min(count, kMostRowsOfSweep); ++i)
    text += table_row(setting_fields(table, table.points[i])) +
            figures_row(table.points[i].figures, table.points[i].why, hardware.gpu.memory_bytes);
  if (count > kMostRowsOfSweep)
    text += fmt::format("and {} more; --csv FILE writes all\n", count - kMostRowsOfSweep);
  return text;
}

// ---
// A simulation as JSON. Its keys are those of `run --json` where they mean the same.

Fields scenario_fields(const Scenario& scenario) {
  const Problem& job = scenario.job;
  const bool buffers = has_buffers(scenario);
  return way_fields(job) +
         Fields{{"pace", buffers ? "buffers" : "in-step"},
                {"kv_buffers", buffers ? std::optional(job.kv_buffers) : std::nullopt}};
}

Fields scenario_machine_fields(const Scenario& scenario, const Hardware& hardware) {
  return machine_fields(hardware, scenario.job, scenario.nics) +
         Fields{{"tile_rows", scenario.granularity.rows},
                {"tile_keys", scenario.granularity.keys}} +
         fields_of(scenario, {"placement", "cores", "step-us", "jitter", "hop-jitter", "seed",
                              "speeds", "straggler", "slow-link"});
}

// Return whether the way is possible, and its figures.
Fields outcome_fields(const std::optional<std::string>& why, const Figures& figures) {
  return Fields{{"why_not", why}} + (why ? Fields() : figure_fields(figures));
}

const Fields kBackend{{"backend", "sim"}};

std::string simulated_json(const Simulated& simulated) {
  const Scenario& scenario = simulated.scenario;
  const CriticalPath& path = simulated.simulation.path;
  const PartitionSpec& partition = scenario.job.partition;
  return json_line(
      kBackend + scenario_fields(scenario) +
      Fields{{"machine", scenario_machine_fields(scenario, simulated.hardware)}} +
      figure_fields(simulated.figures) +
      Fields{{partition.is_searched() ? "searched" : "", partition.found()},
             {"ranks", sampled_ranks(simulated, kMostRanksInJson)},
             {path.ranks.empty() ? "" : "critical_path",
              Fields{{"compute_s", path.compute_s}, {"hop_s", path.hop_s}, {"ranks", path.ranks}}},
             {"recorded_ranks", simulated.recorded_ranks},
             {"steps", simulated.simulation.steps},
             {"simulated_in_s", simulated.simulated_in_s}});
}

std::string sweep_json(const SweepTable& table, const Hardware& hardware) {
  std::vector<Fields> points;
  for (const SweepPoint& point : table.points)
    points.push_back(scenario_fields(point.scenario) +
                     Fields{{"bytes_per_s", point.scenario.rates.bytes_per_s},
                            {"jitter", point.scenario.jitter}} +
                     outcome_fields(point.why, point.figures));
  return json_line(kBackend + Fields{{"machine", scenario_machine_fields(
                                                     table.points.front().scenario, hardware)},
                                     {"sweep", points}});
}

// ---
// From the flags to the simulation.

void add_outputs(CommandFlags& flags, SimulateOptions& options, std::vector<std::string>& swept) {
  flags.path("--write-partition", options.write_partition,
             "write the rank of each position, .npy, as file: reads it");
  flags.path("--trace", options.trace, "write a recording for view, Chrome Trace Event JSON");
  flags
      .value("--trace-ranks", "all|K",
             "ranks in it: those on the critical path and a sample (as many as make a file of a "
             "sensible size)",
             [&options](const std::string& text) {
               constexpr int kAll = std::numeric_limits<int>::max();
               options.trace_ranks = text == "all" ? kAll : for_flag("--trace-ranks:", [&] {
                 return integer_in<int>(text, 1, kAll);
               });
             })
      .needs("--trace FILE");
  flags.values("--sweep", "NAME=LIST...", swept,
               "simulate all combinations: seqlen=8192:131072:*2 world-size=2,4,8 "
               "partition=zigzag,striped; of " +
                   swept_names() + " (bandwidth: GB/s of --link)");
  flags.path("--csv", options.csv,
             "write the sweep's table, CSV (-: to stdout, instead of the text)");
  flags.flag("--json", options.json, "print one JSON object");
}

// Throw InputError if a swept setting is also given as a flag.
void check_sweep(const SimulateOptions& options, const CommandFlags& flags) {
  for (const SweptAxis& axis : options.sweep) {
    const std::string flag = "--" + axis.setting;
    if (axis.setting != "bandwidth" && flags.given(flag))
      contradiction(flag, fmt::format("given beside --sweep {}", axis.setting), "one of them");
  }
  const bool sweeps = !options.sweep.empty();
  if (options.csv && !sweeps)
    contradiction("--csv", fmt::format("'{}' given without --sweep", *options.csv),
                  "it together with --sweep");
  for (const auto& [flag, path] :
       {std::pair{"--trace", &options.trace}, {"--write-partition", &options.write_partition}})
    if (path->has_value() && sweeps)
      contradiction(flag, fmt::format("'{}' given beside --sweep", **path),
                    "it with one simulation");
}

bool sweeps(const SimulateOptions& options, std::string_view setting, const std::string& value) {
  for (const SweptAxis& axis : options.sweep)
    for (const std::string& swept : axis.values)
      if (axis.setting == setting && swept == value) return true;
  return false;
}

void set_nodes(const CommandFlags& flags, SimulateOptions& options) {
  Problem& job = options.scenario.job;
  place_on_nodes(flags, options.hardware, job);
  for (const Scheme* const scheme : all_schemes()) {
    const std::string name(scheme->name);
    const bool is_asked_for = job.scheme == scheme || sweeps(options, "scheme", name);
    if (scheme->counts_nodes && is_asked_for && job.nodes == 1)
      contradiction("--scheme", name + " given without nodes",
                    name + ":M, or --nodes M and --between LINK");
  }
}

void check_pace(const CommandFlags& flags, SimulateOptions& options) {
  Scenario& scenario = options.scenario;
  if (!flags.given("--kv-buffers")) {
    // The measured machine runs this program's ring, which has buffers.
    if (options.hardware.measure) scenario.pace = Pace::buffers;
    return;
  }
  if (!scenario.job.rotates_blocks())
    contradiction("--kv-buffers",
                  fmt::format("given with --scheme {}", name_of(scenario.job.scheme)),
                  "it with --scheme ring or two-level");
}

// Throw InputError naming the flag, the value and what would be accepted.
void complete(SimulateOptions& options, const std::vector<std::string>& swept,
              const CommandFlags& flags) {
  if (!swept.empty())
    options.sweep =
        for_flag("--sweep", [&] { return parse_sweep(fmt::format("{}", fmt::join(swept, " "))); });
  if (options.csv == "-") options.csv = "/dev/stdout";
  check_sweep(options, flags);
  // The checks below use the first of the swept values for all of them.
  for (const SweptAxis& axis : options.sweep) apply(axis, 0, options.scenario);
  complete_problem("simulate", options.scenario.job);
  Problem& job = options.scenario.job;
  job.partition.is_searched() ? check_speeds(job) : deal_out_as_given(job);
  check_hardware("simulate", options.hardware);
  set_nodes(flags, options);
  check_pace(flags, options);
  options.cores_given = flags.given("--cores");
  options.tiles_given = flags.given("--tile");
}

int most_ranks(const SimulateOptions& options) {
  int most = options.scenario.job.world_size;
  for (const SweptAxis& axis : options.sweep)
    if (axis.setting == "world-size")
      for (const std::string& value : axis.values)
        most = std::max(most, parse_number<int>(value).value_or(0));
  return most;
}

Setup set_up(const SimulateOptions& options) {
  Setup setup{options.scenario, {}};
  Scenario& scenario = setup.scenario;
  setup.hardware = find_hardware(options.hardware, scenario.job, most_ranks(options));
  scenario.rates = setup.hardware.rates;
  scenario.calibrated = setup.hardware.calls;
  scenario.between = setup.hardware.between.value_or(Link{});
  // Ranks on this machine are threads that share its cores and run core/attention.
  if (options.hardware.measure && !options.cores_given) scenario.cores = cores();
  if (options.hardware.measure && !options.tiles_given) {
    scenario.granularity = {kTileRows, vector_width()};
    scenario.cpu =
        std::make_shared<const CpuFigures>(measured_kernels(scenario.job, most_ranks(options)));
  }
  if (scenario.job.partition.is_searched() && options.sweep.empty())
    deal_out_as_given(scenario.job, scenario.granularity);
  return setup;
}

void check_places(const SimulateOptions& options) {
  std::vector<std::string> inputs;
  for (const auto& input : {options.hardware.between, options.hardware.gpu, options.hardware.link})
    if (input) {  // a file, or FILE:NAME
      inputs.push_back(*input);
      inputs.push_back(input->substr(0, input->rfind(':')));
    }
  const Problem& job = options.scenario.job;
  std::vector<std::string> names{job.mask.name(), job.partition.name()};
  for (const SweptAxis& axis : options.sweep)
    names.insert(names.end(), axis.values.begin(), axis.values.end());
  add_files_in(names, inputs);
  check_output_places({{"--trace", options.trace},
                       {"--csv", options.csv},
                       {"--write-partition", options.write_partition}},
                      inputs, options.json);
}

Simulated simulate_one(const SimulateOptions& options, const Setup& setup) {
  Simulated result;
  static_cast<Setup&>(result) = setup;
  const Scenario& scenario = result.scenario;
  check(scenario);
  with_dashes([&] { check_scheme(scenario.job); });
  if (const auto why = obstacle(scenario))
    throw InputError("simulate: " + *why + "; accepted: ranks, nodes and heads that go together");
  if (options.trace)
    require_memory_to_simulate(scenario.job, options.trace_ranks ? 450 : 320);
  else
    require_memory_to_simulate(scenario.job);
  const std::int64_t begin_ns = monotonic_ns();
  result.work = work_of(scenario);
  const Work& work = *result.work;
  const Machine machine = machine_of(scenario);
  const SimulationRequest request{.job = scenario.job, .pace = scenario.pace};
  if (options.trace) {
    RecordedSimulation recorded =
        record(request, work, machine, scenario.job.partition.recorded_name(), options.trace_ranks);
    result.simulated_in_s = seconds_since(begin_ns);
    result.simulation = std::move(recorded.simulation);
    RunMachine& head = *recorded.recording.info.machine;
    head.device = setup.hardware.gpu.name;
    head.link = setup.hardware.link.name;
    if (scenario.job.nodes > 1) head.between = scenario.between.name;
    if (scenario.placement == Placement::cyclic)
      head.nodes = 1;  // readers take nodes for ranks in a row
    recorded.recording.info.command = recorded_words();
    for_flag("--trace", [&] { write_chrome_trace(*options.trace, recorded.recording); });
    result.largest_loss = largest_loss(recorded.recording);
    for (const auto& events : recorded.recording.events) result.recorded_ranks += !events.empty();
  } else {
    result.simulation = simulate(request, work, machine);
    result.simulated_in_s = seconds_since(begin_ns);
  }
  result.figures = figures_of(scenario, machine, result.simulation);
  if (options.write_partition)
    for_flag("--write-partition", [&] {
      AtomicFile file(*options.write_partition);
      write_partition(file, scenario.job.partition_of_sequence());
      file.commit();
    });
  return result;
}

SweepTable sweep(const SimulateOptions& options, const Setup& setup) {
  SweepTable table = for_flag("--sweep:", [&] { return points_of(setup.scenario, options.sweep); });
  for (const SweepPoint& point : table.points)
    if (!point.why) require_memory_to_simulate(point.scenario.job);
  {
    ProgressBar bar("simulating");
    run_sweep(table, bar.callback());
  }
  if (options.csv)
    for_flag("--csv", [&] {
      std::vector<std::pair<std::string, std::string>> constants{
          {"gpu", setup.hardware.gpu.name}, {"link", setup.hardware.link.name}};
      const auto origin = provenance();
      constants.insert(constants.end(), origin.begin(), origin.end());
      write_file(*options.csv, sweep_csv(table, constants));
    });
  return table;
}

}  // namespace

Finish declare_simulate(CommandFlags& flags) {
  const auto options = std::make_shared<SimulateOptions>();
  const auto swept = std::make_shared<std::vector<std::string>>();
  options->scenario.job = planned_problem();
  add_hardware(flags, options->hardware);
  flags.rows(options->scenario);
  add_outputs(flags, *options, *swept);
  return [options, swept, &flags] {
    complete(*options, *swept, flags);
    return *options;
  };
}

int carry_out(const SimulateOptions& options) {
  check_places(options);
  const Setup setup = set_up(options);
  if (!options.sweep.empty()) {
    const SweepTable table = sweep(options, setup);
    if (options.csv != "/dev/stdout")
      print_out(options.json ? sweep_json(table, setup.hardware)
                             : sweep_text(table, setup.hardware));
  } else {
    const Simulated simulated = simulate_one(options, setup);
    print_out(options.json ? simulated_json(simulated) : simulated_text(simulated));
  }
  return 0;
}

}  // namespace ringscope
