#include "app/simulate/simulate_options.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "app/command_line/flags.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr double kMostNumber =
    1e12;  // of any number here, far from where sums of times would overflow

// Return a number up to kMostNumber: above 0 if `positive`, else from 0. Throw InputError.
double number_of_flag(const std::string& flag, const std::string& text, bool positive) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value <= kMostNumber &&
      (positive ? value > 0 : value >= 0))
    return value;
  throw InputError(fmt::format("{}: '{}' given; accepted: a number {} 0, up to {:g}", flag, text,
                               positive ? "above" : "from", kMostNumber));
}

// Parse text such as "3:0.5,7:0.8".
std::vector<Straggler> parse_stragglers(const std::string& text) {
  std::vector<Straggler> stragglers;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const std::size_t colon = one.find(':');
    if (colon == std::string::npos)
      throw InputError(fmt::format(
          "--straggler: '{}' given; accepted: RANK:SPEED,..., as in 3:0.5 for half the speed",
          text));
    const int rank = integer_of_flag<int>("--straggler", one.substr(0, colon), 0,
                                          std::numeric_limits<int>::max());
    for (const Straggler& other : stragglers)
      if (other.rank == rank)
        throw InputError(
            fmt::format("--straggler: rank {} given twice; accepted: each rank once", rank));
    stragglers.push_back({rank, number_of_flag("--straggler", one.substr(colon + 1), true)});
    begin = end + 1;
  }
  return stragglers;
}

// Parse text such as "128x64".
Granularity parse_tile(const std::string& text) {
  constexpr Index kLongest = Index{1} << 20;
  Granularity tile;
  const char* const end = text.data() + text.size();
  const auto [cross, error] = std::from_chars(text.data(), end, tile.rows);
  if (error == std::errc() && cross != end && *cross == 'x') {
    const auto [stop, second_error] = std::from_chars(cross + 1, end, tile.keys);
    if (second_error == std::errc() && stop == end && tile.rows >= 1 && tile.keys >= 1 &&
        tile.rows <= kLongest && tile.keys <= kLongest)
      return tile;
  }
  throw InputError(
      fmt::format("--tile: '{}' given; accepted: ROWSxKEYS, each from 1 to {}", text, kLongest));
}

void add_ways(CommandFlags& flags, SimulateRequest& request) {
  flags.value("--partition", "contiguous|striped|zigzag|fold|searched",
              "which rank holds which positions (contiguous)", [&](const std::string& text) {
                for_flag("--partition:",
                         [&] { apply(Setting::partition, {text}, request.options.scenario); });
              });
  flags.value("--scheme", "ring|allgather|ulysses|two-level|all", "how blocks get around (ring)",
              [&](const std::string& text) {
                request.options.all_schemes = text == "all";
                if (text == "all") return;
                try {
                  apply(Setting::scheme, {text}, request.options.scenario);
                } catch (const InputError& error) {
                  throw InputError(fmt::format("--scheme: {}, all", error.what()));
                }
              });
  flags.value(
      "--kv-buffers", "K|in-step",
      "ranks run ahead of each other, with so many buffers for blocks, as the real ring with "
      "2 (in-step: all wait for the slowest after every step, as in formulas; with "
      "--measure: 2)",
      [&](const std::string& text) { request.kv_buffers = text; });
}

void add_nodes(CommandFlags& flags, SimulateRequest& request) {
  flags.value("--nodes", "M", "nodes of world-size / M ranks; --link is then inside them (1)",
              [&](const std::string& text) {
                request.nodes =
                    integer_of_flag<Index>("--nodes", text, 1, std::numeric_limits<int>::max());
              });
  flags.value("--between", "NAME|FILE", "the link between nodes",
              [&](const std::string& text) { request.options.between = text; });
  flags.value("--nics", "K", "links between nodes that a node has (1)",
              [&](const std::string& text) {
                request.nics = integer_of_flag<Index>("--nics", text, 1, 1 << 20);
              });
  flags.value("--placement", "block|cyclic", "consecutive ranks on one node, or dealt out (block)",
              [&](const std::string& text) {
                request.placement =
                    for_flag("--placement:", [&] { return parse_name(text, kAllPlacements); });
              });
  flags.path("--topology", request.options.topology,
             "nodes and links from a file instead of --nodes");
  flags.value(
      "--order", "rank|topology", "of the ring: by rank, or along short ways (rank)",
      [&](const std::string& text) {
        if (text != "rank" && text != "topology")
          throw InputError(fmt::format("--order: '{}' given; accepted: rank, topology", text));
        request.options.scenario.order =
            text == "topology" ? RingOrder::topology : RingOrder::ranks;
      });
}

void add_faults(CommandFlags& flags, SimulateOptions& options) {
  Scenario& scenario = options.scenario;
  const auto number = [&flags](const char* name, const char* type, double& target, double scale,
                               const char* help) {
    flags.value(name, type, help, [name, &target, scale](const std::string& text) {
      target = scale * number_of_flag(name, text, false);
    });
  };
  flags.value(
      "--straggler", "RANK:SPEED,...", "ranks that compute at another speed (1)",
      [&scenario](const std::string& text) { scenario.stragglers = parse_stragglers(text); });
  number("--jitter", "X", scenario.jitter, 1,
         "every computation takes (1 + X x) times as long, x random with mean 1 (0)");
  number("--hop-jitter", "X", scenario.hop_jitter, 1, "the same of every hop (0)");
  flags.value("--seed", "N", "of --jitter and --hop-jitter (0)",
              [&scenario](const std::string& text) {
                scenario.seed = integer_of_flag<std::uint64_t>(
                    "--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
              });
  flags.value("--cores", "C",
              "cores that the ranks share (each has its own; with --measure: this machine's)",
              [&options](const std::string& text) {
                options.cores =
                    integer_of_flag<int>("--cores", text, 1, std::numeric_limits<int>::max());
              });
  number("--step-us", "X", scenario.step_s, 1e-6,
         "microseconds that a step costs a rank besides its pairs (0)");
  flags.value("--tile", "ROWSxKEYS",
              "what a kernel computes whole where any pair is allowed (1x1; with --measure: this "
              "program's)",
              [&options](const std::string& text) {
                options.scenario.granularity = parse_tile(text);
                options.tiles_given = true;
              });
}

void add_outputs(CommandFlags& flags, SimulateRequest& request) {
  SimulateOptions& options = request.options;
  flags.path("--trace", options.trace, "write a recording for view, Chrome Trace Event JSON");
  flags.value("--trace-ranks", "all|K",
              "ranks in it: those on the critical path and a sample (as many as make a file of a "
              "sensible size)",
              [&options](const std::string& text) {
                options.trace_ranks = text == "all"
                                          ? std::numeric_limits<int>::max()
                                          : integer_of_flag<int>("--trace-ranks", text, 1,
                                                                 std::numeric_limits<int>::max());
              });
  flags.values(
      "--sweep", "NAME=LIST...", request.sweep,
      "simulate all combinations: seqlen=8192:131072:*2 world-size=2,4,8 "
      "partition=zigzag,striped; also scheme, mask, kv-buffers, bandwidth (GB/s of --link) "
      "and jitter");
  flags.path("--csv", options.csv, "write the sweep's table, CSV");
  flags.path("--picture", options.picture, "write the sweep's curves, PNG");
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
  for (const auto& [flag, path] :
       {std::pair{"--csv", &options.csv}, {"--picture", &options.picture}})
    if (path->has_value() && !sweeps)
      contradiction(flag, fmt::format("'{}' given without --sweep", **path),
                    "it together with --sweep");
  if (options.trace && (sweeps || options.all_schemes))
    contradiction(
        "--trace",
        fmt::format("'{}' given beside {}", *options.trace, sweeps ? "--sweep" : "--scheme all"),
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

void set_nodes(const SimulateRequest& request, SimulateOptions& options) {
  Scenario& scenario = options.scenario;
  const bool many = request.nodes.value_or(1) > 1;
  if (options.topology) {
    if (options.hardware.measure)
      contradiction("--measure", "given beside --topology", "--gpu NAME beside it");
    if (sweeps(options, Setting::bandwidth))
      contradiction("--sweep bandwidth", "given beside --topology", "one of them");
    for (const auto& [flag, given] : {std::pair{"--nodes", request.nodes.has_value()},
                                      {"--between", options.between.has_value()},
                                      {"--nics", request.nics.has_value()},
                                      {"--placement", request.placement.has_value()},
                                      {"--link", options.hardware.link.has_value()}})
      if (given) contradiction(flag, "given beside --topology", "one of them");
  } else if (many && !options.between) {
    contradiction("--nodes", fmt::format("{} given without --between", *request.nodes),
                  "it together with --between LINK");
  } else if (!many) {
    for (const auto& [flag, given] : {std::pair{"--between", options.between.has_value()},
                                      {"--nics", request.nics.has_value()},
                                      {"--placement", request.placement.has_value()},
                                      {"--order topology", scenario.order == RingOrder::topology}})
      if (given)
        contradiction(flag, "given without nodes", "it together with --nodes M or --topology FILE");
  }
  const bool two_level =
      scenario.job.scheme == Scheme::two_level || sweeps(options, Setting::scheme, "two-level");
  if (two_level && !many && !options.topology)
    contradiction("--scheme", "two-level given without nodes",
                  "it together with --nodes M and --between LINK, or --topology FILE");
  scenario.job.nodes = static_cast<int>(request.nodes.value_or(1));
  scenario.nics = static_cast<int>(request.nics.value_or(1));
  scenario.placement = request.placement.value_or(Placement::block);
}

void set_pace(const SimulateRequest& request, SimulateOptions& options) {
  if (!request.kv_buffers) {
    // The measured machine runs this program's ring, which has buffers.
    if (options.hardware.measure) options.scenario.pace = Pace::buffers;
    return;
  }
  SweptAxis axis;
  try {
    axis = parse_sweep("kv-buffers=" + *request.kv_buffers).front();
  } catch (const InputError&) {
  }
  if (axis.values.size() != 1 || axis.values.front().text != *request.kv_buffers)
    throw InputError(
        fmt::format("--kv-buffers: '{}' given; accepted: an integer from 2 to 1000000, or in-step",
                    *request.kv_buffers));
  apply(Setting::kv_buffers, axis.values.front(), options.scenario);
  const Scheme scheme = options.scenario.job.scheme;
  if (scheme == Scheme::allgather || scheme == Scheme::ulysses)
    contradiction("--kv-buffers",
                  fmt::format("{} given with --scheme {}", *request.kv_buffers, name_of(scheme)),
                  "it with --scheme ring or two-level");
}

}  // namespace

void add_simulate(CommandFlags& flags, SimulateRequest& request) {
  Problem& job = request.options.scenario.job;
  job.dtype = DType::bf16;  // unless given
  add_problem(flags, request.problem, job);
  add_ways(flags, request);
  add_hardware(flags, request.options.hardware);
  add_nodes(flags, request);
  add_faults(flags, request.options);
  add_outputs(flags, request);
}

SimulateOptions checked_simulate(const SimulateRequest& request, const CommandFlags& flags) {
  SimulateOptions options = request.options;
  if (!request.sweep.empty())
    options.sweep = for_flag(
        "--sweep", [&] { return parse_sweep(fmt::format("{}", fmt::join(request.sweep, " "))); });
  check_sweep(options, flags);
  // The checks below use the first of the swept values for all of them.
  ProblemRequest problem = request.problem;
  for (const SweptAxis& axis : options.sweep) {
    const SweptValue& first = axis.values.front();
    if (axis.setting == Setting::seqlen) problem.seqlen = static_cast<Index>(first.number);
    if (axis.setting == Setting::world_size) problem.world_size = static_cast<Index>(first.number);
    apply(axis.setting, first, options.scenario);
  }
  set_problem("simulate", problem, options.scenario.job);
  HardwareOptions hardware = options.hardware;
  if (options.topology && !hardware.measure) hardware.link.emplace();  // the file has the links
  check_hardware("simulate", hardware);
  set_nodes(request, options);
  set_pace(request, options);
  return options;
}

}  // namespace ringscope
