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
#include "core/tools/sim/scenario_rows.h"
#include "core/tools/sim/searched.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/recorder.h"

namespace ringscope {

namespace {

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
  const bool many = options.nodes.value_or(1) > 1;
  if (many && !options.between) {
    contradiction("--nodes", fmt::format("{} given without --between", *options.nodes),
                  "it together with --between LINK");
  } else if (!many) {
    for (const char* const flag : {"--between", "--nics", "--placement"})
      if (flags.given(flag))
        contradiction(flag, "given without nodes", "it together with --nodes M");
  }
  const bool two_level = job.scheme == Scheme::two_level || sweeps(options, "scheme", "two-level");
  if (two_level && !many && job.nodes == 1)
    contradiction("--scheme", "two-level given without nodes",
                  "two-level:M, or --nodes M and --between LINK");
  if (options.nodes && job.nodes > 1 && *options.nodes != job.nodes)
    contradiction("--nodes",
                  fmt::format("{} given with --scheme {}", *options.nodes, job.scheme_name()),
                  "the same number");
  job.nodes = options.nodes.value_or(job.nodes);
}

void check_pace(const CommandFlags& flags, SimulateOptions& options) {
  Scenario& scenario = options.scenario;
  if (!flags.given("--kv-buffers")) {
    // The measured machine runs this program's ring, which has buffers.
    if (options.hardware.measure) scenario.pace = Pace::buffers;
    return;
  }
  const Scheme scheme = scenario.job.scheme;
  if (scheme != Scheme::ring && scheme != Scheme::two_level)
    contradiction("--kv-buffers", fmt::format("given with --scheme {}", name_of(scheme)),
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

struct Setup {
  Scenario scenario;
  SimulatedHardware hardware;
};

int most_ranks(const SimulateOptions& options) {
  int most = options.scenario.job.world_size;
  for (const SweptAxis& axis : options.sweep)
    if (axis.setting == "world-size")
      for (const std::string& value : axis.values)
        most = std::max(most, parse_number<int>(value).value_or(0));
  return most;
}

// Measure this machine. Ranks are threads that share cores and memory and run core/attention.
void measure_machine(const SimulateOptions& options, Setup& setup) {
  Scenario& scenario = setup.scenario;
  const Problem& job = scenario.job;
  scenario.rates =
      measure_rates(job.shape.head_dim, job.dtype, std::min(cores(), most_ranks(options)));
  if (!options.cores_given) scenario.cores = cores();
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
    names.insert(names.end(), axis.values.begin(), axis.values.end());
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
  const auto swept = std::make_shared<std::vector<std::string>>();
  options->scenario.job = planned_problem();
  add_hardware(flags, options->hardware);
  add_nodes(flags, options->nodes, options->between);
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
