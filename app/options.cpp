#include "app/options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "app/flags.h"
#include "app/for_flag.h"
#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr const char* kCommands[] = {"run", "info", "demo", "view", "lesson", "plan", "simulate"};

double parse_scale(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end &&
      std::abs(value) <= double{std::numeric_limits<float>::max()})
    return value;
  throw InputError(
      fmt::format("{}: '{}' given; accepted: a finite number that f32 can hold", flag, text));
}

void add_run(CommandFlags& flags, RunOptions& run) {
  flags.path("--q", run.q, "queries, .npy [batch, heads, seqlen, head_dim]");
  flags.path("--k", run.k, "keys, .npy [batch, heads-kv, seqlen, head_dim]");
  flags.path("--v", run.v, "values, .npy, shaped like the keys");
  flags.path("--text", run.text, "embed the bytes of a file instead");
  flags.flag("--random", run.random, "draw from N(0, 1) instead");
  flags.value("--seed", "N", "of --random (0)", [&run](const std::string& text) {
    run.seed = integer_of_flag<std::uint64_t>("--seed", text, 0,
                                              std::numeric_limits<std::uint64_t>::max());
  });
  flags.size("--batch", run.batch, "batch entries (1), for --text and --random as the next four");
  flags.size("--heads", run.heads, "query heads (4)");
  flags.size("--heads-kv", run.heads_kv, "key and value heads, a divisor of the heads (as many)");
  flags.size("--seqlen", run.seqlen, "positions (1024; of a text: all of it, divided by --batch)");
  flags.size("--head-dim", run.head_dim, "values a head (64)");

  flags.name("--backend", run.backend, "cpu|mpi|cuda|nccl",
             "what computes and communicates (cpu); this build has: " + built_backends(),
             parse_backend);
  for (const auto& [name, kernel, pass] :
       {std::tuple{"--kernel", &run.cuda.forward_kernel, "forward"},
        {"--backward-kernel", &run.cuda.backward_kernel, "backward"}})
    flags.value(name, "N",
                fmt::format("{} kernel of --backend cuda, by its number in info (the best)", pass),
                [name = name, kernel = kernel](const std::string& text) {
                  *kernel = integer_of_flag<int>(name, text, 1, 99);
                });
  flags.flag("--cupti", run.cuda.cupti,
             "of --backend cuda: kernels' times from CUPTI's activity records, not from events");
  flags.value("--world-size", "N", "ranks (4)", [&run](const std::string& text) {
    run.world_size = integer_of_flag<int>("--world-size", text, 1, std::numeric_limits<int>::max());
  });
  flags.name("--partition", run.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which positions (contiguous)", parse_partition);
  flags.name("--scheme", run.scheme, "ring|allgather", "how key-value blocks get around (ring)",
             parse_scheme);
  flags.name("--mask", run.mask, "MASK",
             "full, causal, window:W, prefix:P, documents:L1,L2,..., joined by + (full)",
             MaskSpec::parse);
  flags.name("--dtype", run.dtype, "f32|bf16|f16", "storage type (f32)", parse_dtype);
  flags.value("--scale", "X", "softmax scale (1/sqrt(head_dim))", [&run](const std::string& text) {
    run.softmax_scale = parse_scale("--scale", text);
  });

  flags.path("--out", run.out, "write the output, .npy");
  flags.path("--lse", run.lse, "write the log-sum-exp, .npy [batch, heads, seqlen]");
  flags.flag("--backward", run.backward, "compute the gradients too");
  flags.path("--dout", run.dout, "gradient of the output, .npy shaped like the queries (ones)");
  flags.path("--dq", run.dq, "write the gradient of the queries, .npy");
  flags.path("--dk", run.dk, "write the gradient of the keys, .npy");
  flags.path("--dv", run.dv, "write the gradient of the values, .npy");
  flags.path("--trace", run.trace, "write the recording, Chrome Trace Event JSON");
  flags.flag("--verify", run.verify,
             "compare with naive attention in f64; exit status 1 when it differs");
  flags.flag("--json", run.json, "print the summary as one JSON object");
}

void add_demo(CommandFlags& flags, DemoOptions& demo) {
  flags
      .value("--text", "FILE", "the text, at least --seqlen bytes",
             [&demo](const std::string& text) { demo.text = text; })
      ->required();
  flags
      .value("--out", "DIR", "folder for the traces; made when it is missing",
             [&demo](const std::string& text) { demo.out = text; })
      ->required();
  flags.flag("--no-view", demo.no_view, "don't open the viewer at the end");
  flags.value("--seqlen", "N", "tokens (32768)", [&demo](const std::string& text) {
    demo.seqlen = integer_of_flag<Index>("--seqlen", text, 1, std::numeric_limits<Index>::max());
  });
}

// "1600x900" as width and height.
std::pair<int, int> parse_size(const std::string& text) {
  int width = 0, height = 0;
  const char* const end = text.data() + text.size();
  const auto [cross, error] = std::from_chars(text.data(), end, width);
  if (error == std::errc() && cross != end && *cross == 'x') {
    const auto [stop, second_error] = std::from_chars(cross + 1, end, height);
    if (second_error == std::errc() && stop == end && width >= 320 && width <= 7680 &&
        height >= 240 && height <= 4320)
      return {width, height};
  }
  throw InputError(
      fmt::format("--size: '{}' given; accepted: WIDTHxHEIGHT from 320x240 to 7680x4320", text));
}

void add_view(CommandFlags& flags, CLI::App* command, viz::ViewOptions& view) {
  command->add_option("TRACE", view.traces, "recordings of run --trace, or other Chrome traces");
  flags.path("--screenshot", view.screenshot, "write a picture, PNG, and open no window");
  flags.value("--size", "WxH", "of the picture (1600x900)", [&view](const std::string& text) {
    std::tie(view.width, view.height) = parse_size(text);
  });
  flags.value("--step", "T", "begin at this ring step", [&view](const std::string& text) {
    view.step = integer_of_flag<int>("--step", text, 0, std::numeric_limits<int>::max());
  });
  flags.value("--theme", "dark|light", "background (as last time; of a picture: dark)",
              [&view](const std::string& text) {
                if (text != "dark" && text != "light")
                  throw InputError(fmt::format("--theme: '{}' given; accepted: dark, light", text));
                view.theme = text;
              });
}

[[noreturn]] void contradiction(const std::string& flag, const std::string& why,
                                const std::string& accepted) {
  throw InputError(flag + ": " + why + "; accepted: " + accepted);
}

void check_source(const RunOptions& run, bool seed_given) {
  const bool files = run.q || run.k || run.v;
  const char* const given = files      ? (run.q   ? "--q"
                                          : run.k ? "--k"
                                                  : "--v")
                            : run.text ? "--text"
                                       : "--random";
  const int sources = files + run.text.has_value() + run.random;
  constexpr const char* kOneOf = "one of --q with --k and --v, --text, --random";
  if (sources == 0) contradiction("run", "no input given", kOneOf);
  if (sources > 1)
    contradiction(given, fmt::format("given beside {}", files && run.text ? "--text" : "--random"),
                  kOneOf);
  if (files) {
    for (const auto& [flag, path] : {std::pair{"--q", &run.q}, {"--k", &run.k}, {"--v", &run.v}})
      if (!path->has_value())
        contradiction(flag, fmt::format("missing beside {}", given), "--q, --k and --v together");
    for (const auto& [flag, size] : {std::pair{"--batch", &run.batch},
                                     {"--heads", &run.heads},
                                     {"--heads-kv", &run.heads_kv},
                                     {"--seqlen", &run.seqlen},
                                     {"--head-dim", &run.head_dim}})
      if (size->has_value())
        contradiction(flag, fmt::format("{} given beside --q", **size),
                      "--text or --random; .npy files bring their own sizes");
  }
  if (seed_given && !run.random)
    contradiction("--seed", "given without --random", "--random --seed N");
}

void check_view(const viz::ViewOptions& view, bool size_given) {
  if (view.traces.empty()) contradiction("view", "no trace given", "view TRACE...");
  if (size_given && !view.screenshot)
    contradiction("--size", "given without --screenshot", "it together with --screenshot OUT.png");
}

void check_cuda(const RunOptions& run) {
  const CudaChoice& cuda = run.cuda;
  if (run.backend == Backend::cuda) {
    if (cuda.backward_kernel != 0 && !run.backward)
      contradiction("--backward-kernel", "given without --backward", "it together with --backward");
    return;
  }
  for (const auto& [flag, given] : {std::pair{"--kernel", cuda.forward_kernel != 0},
                                    {"--backward-kernel", cuda.backward_kernel != 0},
                                    {"--cupti", cuda.cupti}})
    if (given)
      contradiction(flag, fmt::format("given with --backend {}", name_of(run.backend)),
                    "it together with --backend cuda");
}

void check_backward(const RunOptions& run) {
  if (run.backward) return;
  for (const auto& [flag, path] :
       {std::pair{"--dout", &run.dout}, {"--dq", &run.dq}, {"--dk", &run.dk}, {"--dv", &run.dv}})
    if (path->has_value())
      contradiction(flag, fmt::format("'{}' given without --backward", **path),
                    "it together with --backward");
}

[[noreturn]] void no_command() {
  throw InputError(fmt::format("no command given; accepted: {}; see ringscope --help",
                               fmt::join(kCommands, ", ")));
}

void require_known_command(const std::string& name) {
  if (std::find(std::begin(kCommands), std::end(kCommands), name) != std::end(kCommands)) return;
  throw InputError(
      fmt::format("command '{}' given; accepted: {}", name, fmt::join(kCommands, ", ")));
}

// What `command` (the name in "ringscope run", or "" for the program) made nothing of.
void require_no_extras(const CLI::App& app, const std::string& command) {
  const std::vector<std::string> extras = app.remaining();
  const auto found = std::find_if(extras.begin(), extras.end(),
                                  [](const std::string& extra) { return extra != "--"; });
  if (found == extras.end()) return;
  const std::string& first = *found;
  throw InputError(fmt::format("{} '{}' given; accepted: see ringscope {}--help",
                               first.starts_with('-') ? "unknown flag" : "argument", first,
                               command.empty() ? "" : command + " "));
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments) {
  RunOptions run;
  DemoOptions demo;
  viz::ViewOptions view;
  PlanRequest plan;
  CLI::App program("Ring attention, run, recorded and verified.", "ringscope");
  program.require_subcommand(0, 1);
  CLI::App* const run_command = program.add_subcommand("run", "run attention on a ring of ranks");
  CLI::App* const info_command = program.add_subcommand(
      "info", "what this build and this machine can do, and why not the rest");
  CLI::App* const demo_command =
      program.add_subcommand("demo", "one text, causal, in all four partitions, verified");
  CLI::App* const view_command = program.add_subcommand("view", "replay recordings");
  CLI::App* const plan_command =
      program.add_subcommand("plan", "what a run will cost on a machine, by formula");
  CommandFlags run_flags(run_command), demo_flags(demo_command), view_flags(view_command),
      plan_flags(plan_command);
  add_run(run_flags, run);
  add_demo(demo_flags, demo);
  add_view(view_flags, view_command, view);
  add_plan(plan_flags, plan);
  std::vector<CLI::App*> absent;
  for (const auto& [name, what] : {std::pair{"lesson", "ring attention step by step"},
                                   {"simulate", "a run on a machine that is not here"}})
    absent.push_back(program.add_subcommand(name, std::string(what) + " (not in this build)"));
  // CLI11's own complaint about them does not say what would be accepted.
  program.allow_extras();
  for (CLI::App* command : program.get_subcommands({})) command->allow_extras();

  if (arguments.empty()) no_command();
  const std::string& first = arguments.front();
  if (!first.starts_with('-')) require_known_command(first);
  if (first == "run") run_flags.require_well_formed(arguments);
  if (first == "demo") demo_flags.require_well_formed(arguments);
  if (first == "view") view_flags.require_well_formed(arguments);
  if (first == "plan") plan_flags.require_well_formed(arguments);
  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = program.get_subcommands();
    return Help{chosen.empty() ? program.help() : chosen.front()->help()};
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("{}; accepted: see ringscope {}--help", error.what(),
                                 first.starts_with('-') ? "" : first + " "));
  }
  for (const CLI::App* command : absent)
    if (command->parsed())
      throw InputError("command '" + command->get_name() +
                       "': not in this build; accepted: run, info, demo, view, plan");
  for (const CLI::App* command :
       {run_command, info_command, demo_command, view_command, plan_command})
    require_no_extras(*command, command->get_name());
  require_no_extras(program, "");
  if (info_command->parsed()) return InfoOptions{};
  if (demo_command->parsed()) return demo;
  if (plan_command->parsed()) return checked_plan(plan);
  if (view_command->parsed()) {
    check_view(view, view_command->count("--size") > 0);
    return view;
  }
  if (!run_command->parsed()) no_command();
  check_source(run, run_command->count("--seed") > 0);
  check_backward(run);
  check_cuda(run);
  return run;
}

}  // namespace ringscope
