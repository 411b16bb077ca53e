#include "app/command_line/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "app/command_line/flags.h"
#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr std::string_view kCommands[] = {"run",      "info",   "demo",     "view",
                                          "lesson",   "plan",   "simulate", "train",
                                          "generate", "groups", "help"};

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

// Return "unposted-recv, send-first, ...".
std::string fault_names() {
  std::string names;
  for (const Fault fault : kAllFaults)
    names += (names.empty() ? "" : ", ") + std::string(name_of(fault));
  return names;
}

void add_run(CommandFlags& flags, RunOptions& run) {
  flags.path("--q", run.q, "queries, .npy [batch, heads, seqlen, head_dim]");
  flags.path("--k", run.k, "keys, .npy [batch, heads-kv, seqlen, head_dim]");
  flags.path("--v", run.v, "values, .npy, shaped like the keys");
  flags.path("--text", run.text, "embed the bytes of a file instead");
  flags.flag("--random", run.random, "draw from N(0, 1) instead");
  flags.value("--seed", "N", "of --random and --verify-rows (0)", [&run](const std::string& text) {
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
    flags.value(
        name, "N",
        fmt::format("{} kernel of --backend cuda and nccl, by its number in info (the best)", pass),
        [name = name, kernel = kernel](const std::string& text) {
          *kernel = integer_of_flag<int>(name, text, 1, 99);
        });
  flags.flag(
      "--cupti", run.cuda.cupti,
      "of --backend cuda and nccl: kernels' times from CUPTI's activity records, not from events");
  flags.value("--gpus", "N",
              "of --backend cuda: deal the ranks over N GPUs, blocks moved by copy engines (1)",
              [&run](const std::string& text) {
                run.cuda.gpus = integer_of_flag<int>("--gpus", text, 1, 64);
              });
  flags.value("--world-size", "N", "ranks (4; a process a rank: as many as were started)",
              [&run](const std::string& text) {
                run.world_size =
                    integer_of_flag<int>("--world-size", text, 1, std::numeric_limits<int>::max());
              });
  flags.name("--partition", run.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which positions (contiguous)", parse_partition);
  flags.name("--scheme", run.scheme, "ring|allgather", "how key-value blocks get around (ring)",
             parse_scheme);
  flags.value("--kv-buffers", "K",
              "of a ring: buffers that a rank's key-value blocks take turns in; more than 2 let "
              "ranks run ahead of late ones (2)",
              [&run](const std::string& text) {
                run.kv_buffers =
                    integer_of_flag<int>("--kv-buffers", text, 2, std::numeric_limits<int>::max());
              });
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
  flags.value("--verify-rows", "N",
              "compare a sample of N query rows of each head (--seed draws it), and not dk and dv",
              [&run](const std::string& text) {
                run.verify = true;
                run.verify_rows = integer_of_flag<Index>("--verify-rows", text, 1,
                                                         std::numeric_limits<Index>::max());
              });
  flags.flag("--json", run.json, "print the summary as one JSON object");
  flags.value(
      "--timeout", "SECONDS",
      "end the run when a rank gives no sign of life, or nothing moves, for so long (60)",
      [&run](const std::string& text) { run.timeout_s = seconds_of_flag("--timeout", text); });
  flags.name("--inject", run.injection, "KIND[@RANK[:STEP]]",
             "a mistake or lateness on purpose: " + fault_names() +
                 " (of the last rank, from step 0; jitter: of all)",
             [](const std::string& text) { return parse_injection(text); });
}

void add_demo(CommandFlags& flags, DemoOptions& demo) {
  flags.value("--text", "FILE", "the text, at least --seqlen bytes (this program's own sources)",
              [&demo](const std::string& text) { demo.text = text; });
  flags.value("--out", "DIR", "folder for the traces; made when it is missing (runs/demo)",
              [&demo](const std::string& text) { demo.out = text; });
  flags.flag("--no-view", demo.no_view, "don't open the viewer at the end");
  flags.value("--seqlen", "N", "tokens (8192)", [&demo](const std::string& text) {
    demo.seqlen = integer_of_flag<Index>("--seqlen", text, 1, std::numeric_limits<Index>::max());
  });
}

// Return "1600x900" as width and height.
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

Figure parse_panel(const std::string& text) {
  std::string accepted;
  for (const Figure panel : kAllFigures) {
    if (text == name_of(panel)) return panel;
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", name_of(panel));
  }
  throw InputError(fmt::format("--panel: '{}' given; accepted: {}", text, accepted));
}

void add_view(CommandFlags& flags, viz::ViewOptions& view) {
  flags.words("TRACE", view.traces, "recordings of run --trace, or other Chrome traces");
  flags.path("--screenshot", view.screenshot, "write a picture, PNG, and open no window");
  flags.value("--size", "WxH", "of the picture (1600x900)", [&view](const std::string& text) {
    std::tie(view.width, view.height) = parse_size(text);
  });
  flags.value("--step", "T", "begin at this ring step", [&view](const std::string& text) {
    view.step = integer_of_flag<int>("--step", text, 0, std::numeric_limits<int>::max());
  });
  flags.value("--story", "K", "begin at this paragraph of its story, from 1; 0: without it",
              [&view](const std::string& text) {
                view.story =
                    integer_of_flag<int>("--story", text, 0, std::numeric_limits<int>::max());
              });
  flags.value("--panel", "P", "one panel, large: timeline, ring, mask, balance or softmax",
              [&view](const std::string& text) { view.panel = parse_panel(text); });
  flags.optional_value("--what-if", "SETTING=VALUE,...",
                       "beside what would be recorded with these settings, such as bandwidth=2, "
                       "world-size=8, partition=zigzag",
                       [&view](const std::string& text) { view.what_if = text; });
  flags.value("--theme", "dark|light", "background (as last time; of a picture: dark)",
              [&view](const std::string& text) {
                if (text != "dark" && text != "light")
                  throw InputError(fmt::format("--theme: '{}' given; accepted: dark, light", text));
                view.theme = text;
              });
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
  if (seed_given && !run.random && !run.verify_rows)
    contradiction("--seed", "given without --random and without --verify-rows",
                  "--random --seed N, --verify-rows N --seed N");
}

void check_view(const viz::ViewOptions& view, bool size_given) {
  if (view.traces.empty()) contradiction("view", "no trace given", "view TRACE...");
  if (size_given && !view.screenshot)
    contradiction("--size", "given without --screenshot", "it together with --screenshot OUT.png");
}

void check_cuda(const RunOptions& run) {
  const CudaChoice& cuda = run.cuda;
  if (cuda.gpus != 0 && run.backend != Backend::cuda)
    contradiction("--gpus", fmt::format("given with --backend {}", name_of(run.backend)),
                  "it together with --backend cuda");
  if (is_on_gpus(run.backend)) {
    if (cuda.backward_kernel != 0 && !run.backward)
      contradiction("--backward-kernel", "given without --backward", "it together with --backward");
    return;
  }
  for (const auto& [flag, given] : {std::pair{"--kernel", cuda.forward_kernel != 0},
                                    {"--backward-kernel", cuda.backward_kernel != 0},
                                    {"--cupti", cuda.cupti}})
    if (given)
      contradiction(flag, fmt::format("given with --backend {}", name_of(run.backend)),
                    "it together with --backend cuda or nccl");
}

void check_kv_buffers(const RunOptions& run) {
  if (run.kv_buffers && run.scheme != Scheme::ring)
    contradiction("--kv-buffers",
                  fmt::format("{} given with --scheme {}", *run.kv_buffers, name_of(run.scheme)),
                  "it with --scheme ring; the other scheme holds all blocks");
}

void check_injection(const RunOptions& run) {
  if (run.injection && run.backend == Backend::cuda)
    contradiction("--inject",
                  fmt::format("'{}' given with --backend cuda", to_string(*run.injection)),
                  "it with --backend cpu, mpi or nccl");
  if (run.injection && run.backend == Backend::nccl && delays_computing(run.injection->fault))
    contradiction("--inject",
                  fmt::format("'{}' given with --backend nccl", to_string(*run.injection)),
                  "it with --backend cpu or mpi");
}

void check_backward(const RunOptions& run) {
  if (run.backward) return;
  for (const auto& [flag, path] :
       {std::pair{"--dout", &run.dout}, {"--dq", &run.dq}, {"--dk", &run.dk}, {"--dv", &run.dv}})
    if (path->has_value())
      contradiction(flag, fmt::format("'{}' given without --backward", **path),
                    "it together with --backward");
}

// Return "run, info, ...".
std::string known_commands() {
  std::string names;
  for (const std::string_view name : kCommands)
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

[[noreturn]] void no_command() {
  throw InputError("no command given; accepted: " + known_commands() + "; see ringscope --help");
}

void require_known_command(const std::string& name) {
  if (std::find(std::begin(kCommands), std::end(kCommands), name) != std::end(kCommands)) return;
  throw InputError(fmt::format("command '{}' given; accepted: {}", name, known_commands()));
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments) {
  RunOptions run;
  DemoOptions demo;
  viz::ViewOptions view;
  PlanRequest plan;
  LessonOptions lesson;
  CommandLine line("Ring attention, run, recorded and verified.", "ringscope");
  CommandFlags& run_flags =
      line.add_command("run", "run attention on a ring of ranks", "app/run/run.md");
  add_run(run_flags, run);
  line.add_command("info", "what this build and this machine can do, and why not the rest",
                   "README.md");
  add_demo(
      line.add_command("demo", "one text, causal, in all four partitions, verified", "README.md"),
      demo);
  CommandFlags& view_flags = line.add_command("view", "replay recordings", "app/view/view.md");
  add_view(view_flags, view);
  add_plan(
      line.add_command("plan", "what a run will cost on a machine, by formula", "app/plan/plan.md"),
      plan);
  add_lesson(line.add_command("lesson", "ring attention step by step, in lessons that run",
                              "lessons/README.md"),
             lesson);
  GroupsRequest groups;
  add_groups(line.add_command("groups", "ranks split by heads, rows, layers and batches at once",
                              "app/plan/plan.md"),
             groups);
  TrainOptions train;
  add_train(line.add_command("train", "a small language model on a text, with the ring inside",
                             "app/train/train.md"),
            train);
  GenerateRequest generate;
  add_generate(
      line.add_command("generate", "text from a checkpoint of train", "app/train/train.md"),
      generate);
  SimulateRequest simulate;
  CommandFlags& simulate_flags =
      line.add_command("simulate", "a run on a machine that is not here, event by event",
                       "app/simulate/simulate.md");
  add_simulate(simulate_flags, simulate);

  std::vector<std::string> pages;
  line.add_command("help", "this text; or what --help texts become: man, bash, zsh", "README.md")
      .words("PAGE", pages, "man, bash or zsh: a man page, completion for a shell");

  if (arguments.empty()) no_command();
  if (!arguments.front().starts_with('-')) require_known_command(arguments.front());
  if (const std::optional<std::string> help = line.read(arguments)) return Help{*help};
  const std::string command = line.command();
  line.require_no_extras();
  if (command == "help") return Help{help_page(pages.empty() ? "" : pages.front(), line)};
  if (command == "info") return InfoOptions{};
  if (command == "demo") return demo;
  if (command == "plan") return checked_plan(plan);
  if (command == "simulate") return checked_simulate(simulate, simulate_flags);
  if (command == "lesson") {
    check_lesson(lesson);
    return lesson;
  }
  if (command == "groups") return checked_groups(groups);
  if (command == "train") {
    check_train(train);
    return train;
  }
  if (command == "generate") {
    check_generate(generate);
    return generate;
  }
  if (command == "view") {
    check_view(view, view_flags.given("--size"));
    return view;
  }
  if (command != "run") no_command();
  check_source(run, run_flags.given("--seed"));
  check_backward(run);
  check_cuda(run);
  check_kv_buffers(run);
  check_injection(run);
  return run;
}

}  // namespace ringscope
