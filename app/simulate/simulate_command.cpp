#include "app/command_line/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "app/command_line/flags.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/outputs.h"
#include "app/simulate/simulate.h"
#include "app/view/view_command.h"
#include "core/attention/blockwise.h"
#include "core/attention/tile_product.h"
#include "core/base/files.h"
#include "core/cost/measure.h"
#include "core/explain/explain.h"
#include "core/sim/recording.h"
#include "core/sim/search/searched.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/recorder.h"

namespace ringscope {
namespace {

constexpr int kMostRanksWithPath = 1 << 14;  // following it takes a byte per (rank, step)

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
  // A topology has its own links, so --link is not used then.
  const Link link = scenario.topology
                        ? Link{*options.topology, scenario.topology->path(0, 0).bytes_per_s,
                               scenario.topology->path(0, 0).latency_s}
                        : for_flag("--link", [&] { return find_link(*options.hardware.link); });
  scenario.rates = for_flag("--dtype:", [&] { return rates_of(gpu, link, scenario.job.dtype); });
  setup.hardware = {gpu.name, link.name, gpu.memory_bytes};
}

Setup set_up(const SimulateOptions& options) {
  Setup setup{options.scenario, {}};
  Scenario& scenario = setup.scenario;
  if (options.topology)
    for_flag("--topology", [&] {
      scenario.topology = std::make_shared<const Topology>(read_topology(*options.topology));
      scenario.job.nodes = scenario.topology->nodes();
    });
  if (options.between)
    for_flag("--between", [&] { scenario.between = find_link(*options.between); });
  options.hardware.measure ? measure_machine(options, setup) : look_up_machine(options, setup);
  if (options.cores) scenario.cores = *options.cores;
  return setup;
}

void check_places(const SimulateOptions& options) {
  std::vector<std::string> inputs;
  for (const auto& input :
       {options.topology, options.between, options.hardware.gpu, options.hardware.link})
    if (input) inputs.push_back(*input);
  check_output_places({{"--trace", options.trace},
                       {"--csv", options.csv},
                       {"--picture", options.picture},
                       {"--write-partition", options.write_partition}},
                      inputs, options.json);
}

Simulated simulate_one(const SimulateOptions& options, const Setup& setup) {
  const Scenario& scenario = setup.scenario;
  check(scenario);
  if (const auto why = obstacle(scenario))
    throw InputError(
        "simulate: " + *why +
        "; accepted: ranks, nodes and heads that go together (--scheme all shows what they allow)");
  if (options.trace)
    for_flag("--trace-ranks:", [&] { ranks_to_record(scenario.job, options.trace_ranks); });
  const std::int64_t begin_ns = monotonic_ns();
  Simulated result;
  result.scenario = scenario;
  result.hardware = setup.hardware;
  Problem dealt = scenario.job;
  if (scenario.searched) {
    const SearchedPartition found = search_partition(search_of(scenario));
    result.work = found.work;
    dealt.partition = PartitionSpec::parse(kSearched);
    dealt.partition.take(found.assignment(dealt.world_size), found.bound());
    result.searched = found.bound();
  } else {
    result.work = work_of(scenario);
  }
  const Work& work = *result.work;
  const Machine machine = machine_of(scenario);
  result.ring = ring_of(scenario);
  const SimulationRequest request{.job = scenario.job,
                                  .pace = scenario.pace,
                                  .with_path = scenario.job.world_size <= kMostRanksWithPath};
  if (options.trace) {
    RecordedSimulation recorded =
        record(request, work, machine, partition_name(scenario), options.trace_ranks);
    result.simulated_in_s = seconds_since(begin_ns);
    recorded.recording.info.partition_runs = dealt.partition.numbers();
    result.simulation = std::move(recorded.simulation);
    RunMachine& head = *recorded.recording.info.machine;
    head.device = setup.hardware.gpu;
    head.link = setup.hardware.link;
    if (scenario.job.nodes > 1) head.between = scenario.between.name;
    if (!has_consecutive_nodes(scenario)) head.nodes = 1;
    recorded.recording.info.command = options.command;
    for_flag("--trace", [&] { write_chrome_trace(*options.trace, recorded.recording); });
    result.largest_loss = largest_loss(recorded.recording);
    for (const auto& events : recorded.recording.events) result.recorded_ranks += !events.empty();
  } else {
    result.simulation = simulate(request, work, machine);
    result.simulated_in_s = seconds_since(begin_ns);
  }
  result.figures = figures_of(scenario, work, machine, result.simulation);
  if (options.write_partition)
    for_flag("--write-partition", [&] {
      AtomicFile file(*options.write_partition);
      write_partition(file, dealt.partition_of_sequence());
      file.commit();
    });
  return result;
}

// Simulate every scheme that the problem and the nodes allow, and rings with both paces.
std::vector<SimulatedWay> simulate_all(const Setup& setup) {
  std::vector<SimulatedWay> ways;
  const auto add = [&](Scheme scheme, Pace pace) {
    SimulatedWay way{setup.scenario, {}, {}};
    way.scenario.job.scheme = scheme;
    way.scenario.pace = pace;
    check(way.scenario);
    way.why = obstacle(way.scenario);
    ways.push_back(std::move(way));
  };
  const bool has_nodes = setup.scenario.job.nodes > 1;
  for (const Scheme scheme : {Scheme::ring, Scheme::two_level})
    for (const Pace pace : {Pace::in_step, Pace::buffers})
      if (scheme == Scheme::ring || has_nodes) add(scheme, pace);
  for (const Scheme scheme : {Scheme::allgather, Scheme::ulysses}) add(scheme, Pace::in_step);
  ProgressBar bar("simulating");
  const auto progress = bar.callback();
  const Work work = work_of(setup.scenario);
  for (SimulatedWay& way : ways) {
    if (!way.why) way.figures = run_scenario(way.scenario, work);
    if (progress)
      progress(static_cast<double>(&way - ways.data() + 1) / static_cast<double>(ways.size()));
  }
  return ways;
}

// Return the machine in words, for a title.
std::string machine_text(const Setup& setup) {
  const Scenario& scenario = setup.scenario;
  std::string text = setup.hardware.gpu + ", " + setup.hardware.link;
  if (scenario.job.nodes > 1 && !scenario.topology)
    text += fmt::format("; {} nodes, {} x {} between them", scenario.job.nodes, scenario.nics,
                        scenario.between.name);
  return text;
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
  if (options.picture)
    for_flag("--picture", [&] {
      write_sweep_picture(table, machine_text(setup), *options.picture, options.theme);
    });
  return table;
}

}  // namespace

int carry_out(const SimulateOptions& options) {
  if (options.picture) require_pictures("--picture", *options.picture);
  check_places(options);
  const Setup setup = set_up(options);
  if (!options.sweep.empty()) {
    const SweepTable table = sweep(options, setup);
    if (options.csv != "/dev/stdout")
      print_out(options.json ? sweep_json(table, setup.hardware)
                             : sweep_text(table, setup.hardware));
  } else if (options.all_schemes) {
    const auto ways = simulate_all(setup);
    print_out(options.json ? ways_json(ways, setup.hardware) : ways_text(ways, setup.hardware));
  } else {
    const Simulated simulated = simulate_one(options, setup);
    print_out(options.json ? simulated_json(simulated) : simulated_text(simulated));
  }
  return 0;
}

}  // namespace ringscope
