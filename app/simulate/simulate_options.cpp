#include "app/simulate/simulate_options.h"

#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "app/command_line/commands.h"
#include "app/view/view_command.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

// Numbers far from where sums of times would overflow.
constexpr Accepted kSpeed = {0, 1e12, false, true, "a number above 0, up to 1e+12"};
constexpr Accepted kDelay = {0, 1e12, true, true, "a number from 0, up to 1e+12"};

// What the flags give beside the options, before it is known that they fit together.
struct Given {
  std::optional<int> nodes, nics;
  std::optional<Placement> placement;
  std::optional<std::string> kv_buffers, order;
  std::vector<std::string> sweep;
};

// Parse text such as "3:0.5,7:0.8".
std::vector<Straggler> parse_stragglers(const std::string& text) {
  std::vector<Straggler> stragglers;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const std::size_t colon = one.find(':');
    if (colon == std::string::npos)
      contradiction("--straggler", fmt::format("'{}' given", text),
                    "RANK:SPEED,..., as in 3:0.5 for half the speed");
    const int rank = integer_of_flag<int>("--straggler", one.substr(0, colon), 0,
                                          std::numeric_limits<int>::max());
    for (const Straggler& other : stragglers)
      if (other.rank == rank)
        contradiction("--straggler", fmt::format("rank {} given twice", rank), "each rank once");
    stragglers.push_back({rank, number_of_flag("--straggler", one.substr(colon + 1), kSpeed)});
    begin = end + 1;
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
  flags.value("--scheme", std::string(kSchemeNames) + "|all",
              "what travels between the ranks, and how (ring)", [&](const std::string& text) {
                options.all_schemes = text == "all";
                if (text == "all") return;
                try {
                  apply(Setting::scheme, {text}, options.scenario);
                } catch (const InputError& error) {
                  throw InputError(fmt::format("--scheme {}; or all", error.what()));
                }
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
  flags.path("--topology", options.topology, "nodes and links from a file instead of --nodes");
  flags.one_of("--order", {"rank", "topology"}, given.order,
               "of the ring: by rank, or along short ways (rank)");
}

void add_faults(CommandFlags& flags, SimulateOptions& options) {
  Scenario& scenario = options.scenario;
  flags.value(
      "--straggler", "RANK:SPEED,...", "ranks that compute at another speed (1)",
      [&scenario](const std::string& text) { scenario.stragglers = parse_stragglers(text); });
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
  flags.value("--trace-ranks", "all|K",
              "ranks in it: those on the critical path and a sample (as many as make a file of a "
              "sensible size)",
              [&options](const std::string& text) {
                constexpr int kAll = std::numeric_limits<int>::max();
                options.trace_ranks =
                    text == "all" ? kAll : integer_of_flag<int>("--trace-ranks", text, 1, kAll);
              });
  flags.values(
      "--sweep", "NAME=LIST...", given.sweep,
      "simulate all combinations: seqlen=8192:131072:*2 world-size=2,4,8 "
      "partition=zigzag,striped; also scheme, mask, kv-buffers, bandwidth (GB/s of --link) "
      "and jitter");
  flags.path("--csv", options.csv,
             "write the sweep's table, CSV (-: to stdout, instead of the text)");
  flags.path("--picture", options.picture, "write the sweep's curves, PNG or SVG");
  add_theme(flags, options.theme);
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
  if (options.theme && !options.picture)
    contradiction("--theme", "given without --picture", "it together with --picture FILE");
  for (const auto& [flag, path] :
       {std::pair{"--csv", &options.csv}, {"--picture", &options.picture}})
    if (path->has_value() && !sweeps)
      contradiction(flag, fmt::format("'{}' given without --sweep", **path),
                    "it together with --sweep");
  for (const auto& [flag, path] :
       {std::pair{"--trace", &options.trace}, {"--write-partition", &options.write_partition}})
    if (path->has_value() && (sweeps || options.all_schemes))
      contradiction(
          flag, fmt::format("'{}' given beside {}", **path, sweeps ? "--sweep" : "--scheme all"),
          "it with one simulation");
  if (sweeps && options.all_schemes)
    contradiction("--scheme", "'all' given beside --sweep", "--sweep scheme=ring,allgather,...");
  if (options.trace_ranks && !options.trace)
    contradiction("--trace-ranks", "given without --trace", "it together with --trace FILE");
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
  scenario.order = given.order == "topology" ? RingOrder::topology : RingOrder::ranks;
  if (options.topology) {
    if (options.hardware.measure)
      contradiction("--measure", "given beside --topology", "--gpu NAME beside it");
    if (sweeps(options, Setting::bandwidth))
      contradiction("--sweep bandwidth", "given beside --topology", "one of them");
    for (const auto& [flag, is_given] : {std::pair{"--nodes", given.nodes.has_value()},
                                         {"--between", options.between.has_value()},
                                         {"--nics", given.nics.has_value()},
                                         {"--placement", given.placement.has_value()},
                                         {"--link", options.hardware.link.has_value()}})
      if (is_given) contradiction(flag, "given beside --topology", "one of them");
  } else if (many && !options.between) {
    contradiction("--nodes", fmt::format("{} given without --between", *given.nodes),
                  "it together with --between LINK");
  } else if (!many) {
    for (const auto& [flag, is_given] :
         {std::pair{"--between", options.between.has_value()},
          {"--nics", given.nics.has_value()},
          {"--placement", given.placement.has_value()},
          {"--order topology", scenario.order == RingOrder::topology}})
      if (is_given)
        contradiction(flag, "given without nodes", "it together with --nodes M or --topology FILE");
  }
  const bool two_level =
      scenario.job.scheme == Scheme::two_level || sweeps(options, Setting::scheme, "two-level");
  if (two_level && !many && !options.topology && scenario.job.nodes == 1)
    contradiction("--scheme", "two-level given without nodes",
                  "two-level:M, or --nodes M and --between LINK, or --topology FILE");
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
  options.scenario.searched ? check_speeds(options.scenario.job) : deal_out(options.scenario.job);
  HardwareOptions hardware = options.hardware;
  if (options.topology && !hardware.measure) hardware.link.emplace();  // the file has the links
  check_hardware("simulate", hardware);
  set_nodes(given, options);
  set_pace(given, options);
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

}  // namespace ringscope
