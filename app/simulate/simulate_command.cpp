// Carries out `ringscope simulate`, from its flags to the answer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/command_line/output_places.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/simulate/simulate.h"
#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/measure.h"
#include "core/tools/explain/explain.h"
#include "core/tools/sim/recording.h"
#include "core/tools/sim/searched.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/recorder.h"

namespace ringscope {

namespace {

// Numbers far from where sums of times would overflow.
constexpr Accepted kSpeed = {0, 1e12, false, true, "a number above 0, up to 1e+12"};
constexpr Accepted kDelay = {0, 1e12, true, true, "a number from 0, up to 1e+12"};

// What the flags give beside the options, before it is known that they fit together.
struct Given {
  std::optional<int> nodes, nics;
  std::optional<Placement> placement;
  std::optional<std::string> kv_buffers;
  std::vector<std::string> sweep;
};

// Parse text such as "3:0.5,7:0.8".
std::vector<Straggler> parse_stragglers(const char* flag, const std::string& text) {
  std::vector<Straggler> stragglers;
  for (const std::string_view part : split(text, ',')) {
    const std::string one(part);
    const std::size_t colon = one.find(':');
    if (colon == std::string::npos)
      contradiction(flag, fmt::format("'{}' given", text),
                    "RANK:SPEED,..., as in 3:0.5 for half the speed");
    const int rank =
        integer_of_flag<int>(flag, one.substr(0, colon), 0, std::numeric_limits<int>::max());
    for (const Straggler& other : stragglers)
      if (other.rank == rank)
        contradiction(flag, fmt::format("rank {} given twice", rank), "each rank once");
    stragglers.push_back({rank, number_of_flag(flag, one.substr(colon + 1), kSpeed)});
  }
  return stragglers;
}

// Parse text such as "128x64".
Granularity parse_tile(const std::string& text) {
  constexpr Index kLongest = Index{1} << 20;
  const auto tile = sizes_in(text);
  if (!tile || tile->first < 1 || tile->second < 1 || tile->first > kLongest ||
      tile->second > kLongest)
    contradiction("--tile", fmt::format("'{}' given", text),
                  fmt::format("ROWSxKEYS, each from 1 to {}", kLongest));
  return {tile->first, tile->second};
}

void add_ways(CommandFlags& flags, SimulateOptions& options, Given& given) {
  flags.value("--partition", "contiguous|striped|zigzag|fold|documents:P|file:RANKS.npy|searched",
              "which rank holds which positions (contiguous); P: contiguous or zigzag",
              [&](const std::string& text) {
                for_flag("--partition:",
                         [&] { apply(Setting::partition, {text}, options.scenario); });
              });
  add_speeds(flags, options.scenario.job.speeds, "also for --partition searched");
  flags.path("--write-partition", options.write_partition,
             "write the rank of each position, .npy, as file: reads it");
  flags.value("--scheme", kSchemeNames, "what travels between the ranks, and how (ring)",
              [&](const std::string& text) {
                for_flag("--scheme", [&] { apply(Setting::scheme, {text}, options.scenario); });
              });
  flags.text(
      "--kv-buffers", "K|in-step", given.kv_buffers,
      "ranks run ahead of each other, with so many buffers for blocks, as the real ring with "
      "2 (in-step: all wait for the slowest after every step, as in formulas; with "
      "--measure: 2)");
}

void add_nodes(CommandFlags& flags, SimulateOptions& options, Given& given) {
  add_nodes(flags, given.nodes, options.between);
  flags.integer("--nics", given.nics, "links between nodes that a node has (1)", 1, 1 << 20, "K");
  flags.name("--placement", given.placement, "block|cyclic",
             "consecutive ranks on one node, or dealt out (block)",
             [](const std::string& text) { return parse_name(text, kAllPlacements); });
}

void add_faults(CommandFlags& flags, SimulateOptions& options) {
  Scenario& scenario = options.scenario;
  flags.value("--straggler", "RANK:SPEED,...", "ranks that compute at another speed (1)",
              [&scenario](const std::string& text) {
                scenario.stragglers = parse_stragglers("--straggler", text);
              });
  flags.value("--slow-link", "RANK:SPEED,...",
              "ranks whose link to the next one has this share of its rate (1)",
              [&scenario](const std::string& text) {
                scenario.slow_links = parse_stragglers("--slow-link", text);
              });
  flags.number("--jitter", scenario.jitter, kDelay,
               "every computation takes (1 + X x) times as long, x random with mean 1 (0)");
  flags.number("--hop-jitter", scenario.hop_jitter, kDelay, "the same of every hop (0)");
  flags.integer("--seed", scenario.seed, "of --jitter and --hop-jitter (0)", 0);
  flags.integer("--cores", options.cores,
                "cores that the ranks share (each has its own; with --measure: this machine's)", 1,
                std::numeric_limits<int>::max(), "C");
  flags.number("--step-us", scenario.step_s, kDelay,
               "microseconds that a step costs a rank besides its pairs (0)", 1e-6);
  flags.value("--tile", "ROWSxKEYS",
              "what a kernel computes whole where any pair is allowed (1x1; with --measure: this "
              "program's)",
              [&options](const std::string& text) {
                options.scenario.granularity = parse_tile(text);
                options.tiles_given = true;
              });
}

void add_outputs(CommandFlags& flags, SimulateOptions& options, Given& given) {
  flags.path("--trace", options.trace, "write a recording for view, Chrome Trace Event JSON");
  flags
      .value("--trace-ranks", "all|K",
             "ranks in it: those on the critical path and a sample (as many as make a file of a "
             "sensible size)",
             [&options](const std::string& text) {
               constexpr int kAll = std::numeric_limits<int>::max();
               options.trace_ranks =
                   text == "all" ? kAll : integer_of_flag<int>("--trace-ranks", text, 1, kAll);
             })
      .needs("--trace FILE");
  flags.values(
      "--sweep", "NAME=LIST...", given.sweep,
      "simulate all combinations: seqlen=8192:131072:*2 world-size=2,4,8 "
      "partition=zigzag,striped; also scheme, mask, kv-buffers, bandwidth (GB/s of --link) "
      "and jitter");
  flags.path("--csv", options.csv,
             "write the sweep's table, CSV (-: to stdout, instead of the text)");
  flags.flag("--json", options.json, "print one JSON object");
}

// Throw InputError if a swept setting is also given as a flag.
void check_sweep(const SimulateOptions& options, const CommandFlags& flags) {
  for (const SweptAxis& axis : options.sweep) {
    const std::string flag = "--" + std::string(name_of(axis.setting));
    if (axis.setting != Setting::bandwidth && flags.given(flag))
      contradiction(flag, fmt::format("given beside --sweep {}", name_of(axis.setting)),
                    "one of them");
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

bool sweeps(const SimulateOptions& options, Setting setting, const std::string& value = "") {
  for (const SweptAxis& axis : options.sweep)
    for (const SweptValue& swept : axis.values)
      if (axis.setting == setting && (value.empty() || swept.text == value)) return true;
  return false;
}

void set_nodes(const Given& given, SimulateOptions& options) {
  Scenario& scenario = options.scenario;
  const bool many = given.nodes.value_or(1) > 1;
  if (many && !options.between) {
    contradiction("--nodes", fmt::format("{} given without --between", *given.nodes),
                  "it together with --between LINK");
  } else if (!many) {
    for (const auto& [flag, is_given] : {std::pair{"--between", options.between.has_value()},
                                         {"--nics", given.nics.has_value()},
                                         {"--placement", given.placement.has_value()}})
      if (is_given) contradiction(flag, "given without nodes", "it together with --nodes M");
  }
  const bool two_level =
      scenario.job.scheme == Scheme::two_level || sweeps(options, Setting::scheme, "two-level");
  if (two_level && !many && scenario.job.nodes == 1)
    contradiction("--scheme", "two-level given without nodes",
                  "two-level:M, or --nodes M and --between LINK");
  if (given.nodes && scenario.job.nodes > 1 && *given.nodes != scenario.job.nodes)
    contradiction(
        "--nodes",
        fmt::format("{} given with --scheme {}", *given.nodes, scenario.job.scheme_name()),
        "the same number");
  scenario.job.nodes = given.nodes.value_or(scenario.job.nodes);
  scenario.nics = given.nics.value_or(1);
  scenario.placement = given.placement.value_or(Placement::block);
}

void set_pace(const Given& given, SimulateOptions& options) {
  if (!given.kv_buffers) {
    // The measured machine runs this program's ring, which has buffers.
    if (options.hardware.measure) options.scenario.pace = Pace::buffers;
    return;
  }
  SweptAxis axis;
  try {
    axis = parse_sweep("kv-buffers=" + *given.kv_buffers).front();
  } catch (const InputError&) {
  }
  if (axis.values.size() != 1 || axis.values.front().text != *given.kv_buffers)
    throw InputError(
        fmt::format("--kv-buffers: '{}' given; accepted: an integer from 2 to 1000000, or in-step",
                    *given.kv_buffers));
  apply(Setting::kv_buffers, axis.values.front(), options.scenario);
  const Scheme scheme = options.scenario.job.scheme;
  if (scheme != Scheme::ring && scheme != Scheme::two_level)
    contradiction("--kv-buffers",
                  fmt::format("{} given with --scheme {}", *given.kv_buffers, name_of(scheme)),
                  "it with --scheme ring or two-level");
}

// Throw InputError naming the flag, the value and what would be accepted.
void complete(SimulateOptions& options, const Given& given, const CommandFlags& flags) {
  if (!given.sweep.empty())
    options.sweep = for_flag(
        "--sweep", [&] { return parse_sweep(fmt::format("{}", fmt::join(given.sweep, " "))); });
  if (options.csv == "-") options.csv = "/dev/stdout";
  check_sweep(options, flags);
  // The checks below use the first of the swept values for all of them.
  for (const SweptAxis& axis : options.sweep)
    apply(axis.setting, axis.values.front(), options.scenario);
  complete_problem("simulate", options.scenario.job);
  Problem& job = options.scenario.job;
  job.partition.is_searched() ? check_speeds(job) : deal_out_as_given(job);
  check_hardware("simulate", options.hardware);
  set_nodes(given, options);
  set_pace(given, options);
}

struct Setup {
  Scenario scenario;
  SimulatedHardware hardware;
};

int most_ranks(const SimulateOptions& options) {
  int most = options.scenario.job.world_size;
  for (const SweptAxis& axis : options.sweep)
    if (axis.setting == Setting::world_size)
      for (const SweptValue& value : axis.values)
        most = std::max(most, static_cast<int>(value.number));
  return most;
}

// Measure this machine. Ranks are threads that share cores and memory and run core/attention.
void measure_machine(const SimulateOptions& options, Setup& setup) {
  Scenario& scenario = setup.scenario;
  const Problem& job = scenario.job;
  scenario.rates =
      measure_rates(job.shape.head_dim, job.dtype, std::min(cores(), most_ranks(options)));
  scenario.cores = cores();
  if (!options.tiles_given) {
    scenario.granularity = {kTileRows, kVectorWidth};
    scenario.cpu = std::make_shared<const CpuFigures>(measured_kernels(job, most_ranks(options)));
  }
  setup.hardware = {kMeasuredGpu, kMeasuredLink,
                    static_cast<double>(available_memory().bytes) / job.world_size};
}

void look_up_machine(const SimulateOptions& options, Setup& setup) {
  Scenario& scenario = setup.scenario;
  const Gpu gpu = for_flag("--gpu", [&] { return find_gpu(*options.hardware.gpu); });
  const Link link = for_flag("--link", [&] { return find_link(*options.hardware.link); });
  scenario.rates = for_flag("--dtype:", [&] { return rates_of(gpu, link, scenario.job.dtype); });
  if (options.hardware.calibrated)
    scenario.calibrated = for_flag("--calibrated:", [&] { return calibrated_costs(gpu); });
  setup.hardware = {gpu.name, link.name, gpu.memory_bytes};
}

Setup set_up(const SimulateOptions& options) {
  Setup setup{options.scenario, {}};
  Scenario& scenario = setup.scenario;
  if (options.between)
    for_flag("--between", [&] { scenario.between = find_link(*options.between); });
  options.hardware.measure ? measure_machine(options, setup) : look_up_machine(options, setup);
  if (options.cores) scenario.cores = *options.cores;
  if (scenario.job.partition.is_searched() && options.sweep.empty())
    deal_out_as_given(scenario.job, scenario.granularity);
  return setup;
}

void check_places(const SimulateOptions& options) {
  std::vector<std::string> inputs;
  for (const auto& input : {options.between, options.hardware.gpu, options.hardware.link})
    if (input) {  // a file, or FILE:NAME
      inputs.push_back(*input);
      inputs.push_back(input->substr(0, input->rfind(':')));
    }
  const Problem& job = options.scenario.job;
  std::vector<std::string> names{job.mask.name(), job.partition.name()};
  for (const SweptAxis& axis : options.sweep)
    for (const SweptValue& value : axis.values) names.push_back(value.text);
  add_files_in(names, inputs);
  check_output_places({{"--trace", options.trace},
                       {"--csv", options.csv},
                       {"--write-partition", options.write_partition}},
                      inputs, options.json);
}

Simulated simulate_one(const SimulateOptions& options, const Setup& setup) {
  const Scenario& scenario = setup.scenario;
  check(scenario);
  if (is_followed(scenario.job)) with_dashes([&] { check_scheme(scenario.job); });
  if (const auto why = obstacle(scenario))
    throw InputError("simulate: " + *why + "; accepted: ranks, nodes and heads that go together");
  const std::int64_t begin_ns = monotonic_ns();
  Simulated result;
  result.scenario = scenario;
  result.hardware = setup.hardware;
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
    head.device = setup.hardware.gpu;
    head.link = setup.hardware.link;
    if (scenario.job.nodes > 1) head.between = scenario.between.name;
    if (scenario.placement == Placement::cyclic)
      head.nodes = 1;  // readers take nodes for ranks in a row
    recorded.recording.info.command = options.command;
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
  {
    ProgressBar bar("simulating");
    run_sweep(table, bar.callback());
  }
  if (options.csv)
    for_flag("--csv", [&] {
      std::vector<std::pair<std::string, std::string>> constants{{"gpu", setup.hardware.gpu},
                                                                 {"link", setup.hardware.link}};
      const auto origin = provenance();
      constants.insert(constants.end(), origin.begin(), origin.end());
      write_file(*options.csv, sweep_csv(table, constants));
    });
  return table;
}

}  // namespace

Finish declare_simulate(CommandFlags& flags) {
  const auto options = std::make_shared<SimulateOptions>();
  const auto given = std::make_shared<Given>();
  options->scenario.job = planned_problem();
  add_problem(flags, options->scenario.job);
  add_ways(flags, *options, *given);
  add_hardware(flags, options->hardware);
  add_nodes(flags, *options, *given);
  add_faults(flags, *options);
  add_outputs(flags, *options, *given);
  return [options, given, &flags] {
    complete(*options, *given, flags);
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
