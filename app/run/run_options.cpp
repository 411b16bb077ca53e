#include "app/run/run_options.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/option_groups.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

// Return the ring that makes the mistake of a text such as "scale@2", or none for other names.
std::optional<MistakenRing> parse_mistake(const std::string& text) {
  const std::size_t at = std::min(text.find('@'), text.size());
  for (const Mistake mistake : kAllMistakes) {
    if (text.substr(0, at) != name_of(mistake)) continue;
    MistakenRing ring{.mistake = mistake};
    if (at < text.size())
      ring.rank = integer_of_flag<int>("--inject", text.substr(at + 1), 0, 4095);
    return ring;
  }
  return std::nullopt;
}

using GivenPath = std::pair<const char*, const std::optional<std::string>&>;

void add_inputs(CommandFlags& flags, RunOptions& run) {
  add_tensors(flags, run);
  flags.path("--text", run.text, "embed the bytes of a file instead");
  flags.flag("--random", run.random, "draw from N(0, 1) instead");
  flags.integer("--seed", run.seed, "of --random, --verify-rows and --inject jitter (0)", 0);
  flags.integer("--batch", run.batch,
                "batch entries (1), for --text and --random as the next four");
  flags.integer("--heads", run.heads, "query heads (4)");
  flags.integer("--heads-kv", run.heads_kv,
                "key and value heads, a divisor of the heads (as many)");
  flags.integer("--seqlen", run.seqlen,
                "positions (1024; of a text: all of it, divided by --batch)");
  flags.integer("--head-dim", run.head_dim, "values a head (64)");
}

void add_ring(CommandFlags& flags, RunOptions& run) {
  flags.name("--backend", run.backend, "cpu|mpi|cuda|nccl",
             "what computes and communicates (cpu); this build has: " + built_backends(),
             parse_backend);
  constexpr const char* kKernel =
      " kernel of --backend cuda and nccl, by its number in info (the best)";
  flags.integer("--kernel", run.cuda.forward_kernel, std::string("forward") + kKernel, 1, 99);
  flags.integer("--backward-kernel", run.cuda.backward_kernel, std::string("backward") + kKernel, 1,
                99);
  flags.flag(
      "--cupti", run.cuda.cupti,
      "of --backend cuda and nccl: kernels' times from CUPTI's activity records, not from events");
  flags.integer("--gpus", run.cuda.gpus,
                "of --backend cuda: deal the ranks over N GPUs, blocks moved by copy engines (1)",
                1, 64);
  add_world_size(flags, run.world_size, kDefaultWorldSize);
  flags.value(
      "--scheme", kSchemeNames,
      "what travels between the ranks, and how (ring): SLICES shares of the kv heads one after "
      "the other, groups of U ranks that exchange heads, M nodes, a grid of ranks",
      [&run](const std::string& text) {
        for_flag("--scheme", [&] { set_scheme(run.job, text); });
      });
  add_partition(
      flags, run.job.partition,
      "which rank holds which positions (contiguous); documents:P deals each document out by "
      "P, contiguous or zigzag");
  add_speeds(flags, run.job.speeds, "for a searched partition");
  flags.path("--write-partition", run.write_partition,
             "write the rank of each position, .npy, as file: reads it");
  add_kv_buffers(flags, run.job.kv_buffers,
                 "of a ring: buffers that a rank's key-value blocks take turns in; more than 2 let "
                 "ranks run ahead of late ones (2)");
  add_mask(flags, run.job.mask, "full");
  add_dtype(flags, run.job.dtype, "storage type (f32)");
  constexpr double kMost = std::numeric_limits<float>::max();
  flags.number("--scale", run.job.softmax_scale,
               {-kMost, kMost, true, true, "a finite number that f32 can hold"},
               "softmax scale (1/sqrt(head_dim))");
}

void add_outputs(CommandFlags& flags, RunOptions& run) {
  flags.path("--out", run.out, "write the output, .npy");
  flags.path("--lse", run.lse, "write the log-sum-exp, .npy [batch, heads, seqlen]");
  flags.flag("--backward", run.job.backward, "compute the gradients too");
  flags.path("--dout", run.dout, "gradient of the output, .npy shaped like the queries (ones)");
  flags.path("--dq", run.dq, "write the gradient of the queries, .npy");
  flags.path("--dk", run.dk, "write the gradient of the keys, .npy");
  flags.path("--dv", run.dv, "write the gradient of the values, .npy");
  flags.path(
      "--trace", run.trace,
      "write the recording, Chrome Trace Event JSON; with a / at its end, a folder with a file "
      "a rank");
  flags.flag("--live", run.live,
             "write the recording a few times a second while the run goes on, for view, which "
             "follows it");
  flags.path("--dump", run.dump,
             "write a folder with each rank's row_max, row_sum and output after each step, and the "
             "dk and dv that travel, .npy, and manifest.json");
  flags.flag("--verify", run.verify,
             "compare with naive attention in f64; exit status 1 when it differs");
  flags.integer(
      "--verify-rows", run.verify_rows,
      "compare a sample of N query rows of each head (--seed draws it), and not dk and dv");
  flags.flag("--json", run.json, "print the summary as one JSON object");
  add_timeout(flags, run.job.timeout_s,
              "end the run when a rank gives no sign of life, or nothing moves, for so long (60)");
  flags.value("--inject", "KIND[@RANK[:STEP]]",
              "a mistake or lateness on purpose: " + names_of_all(kAllFaults) +
                  " (of the last rank, from step 0; jitter: of all); or, with --backend cpu, a "
                  "numeric one, NAME[@RANK] (of all ranks): " +
                  names_of_all(kAllMistakes),
              [&run](const std::string& text) {
                run.mistaken = parse_mistake(text);
                if (!run.mistaken)
                  run.job.injection = for_flag("--inject", [&] { return parse_injection(text); });
              });
}

void check_source(const RunOptions& run, bool seed_given) {
  const bool files = run.q || run.k || run.v;
  const char* const of_files = run.q ? "--q" : run.k ? "--k" : "--v";
  const char* const given = files ? of_files : run.text ? "--text" : "--random";
  const int sources = files + run.text.has_value() + run.random;
  constexpr const char* kOneOf = "one of --q with --k and --v, --text, --random";
  if (run.layout != Layout::bhsd && !files)
    contradiction("--layout", "given without --q", "it together with --q, --k and --v");
  if (sources == 0) contradiction("run", "no input given", kOneOf);
  if (sources > 1)
    contradiction(given, fmt::format("given beside {}", files && run.text ? "--text" : "--random"),
                  kOneOf);
  if (files) {
    for (const auto& [flag, path] : {GivenPath{"--q", run.q}, {"--k", run.k}, {"--v", run.v}})
      if (!path)
        contradiction(flag, fmt::format("missing beside {}", given), "--q, --k and --v together");
    for (const auto& [flag, size] : {std::pair{"--batch", run.batch},
                                     {"--heads", run.heads},
                                     {"--heads-kv", run.heads_kv},
                                     {"--seqlen", run.seqlen},
                                     {"--head-dim", run.head_dim}})
      if (size)
        contradiction(flag, fmt::format("{} given beside --q", *size),
                      "--text or --random; .npy files bring their own sizes");
  }
  if (seed_given && !run.random && !run.verify_rows)
    contradiction("--seed", "given without --random and without --verify-rows",
                  "--random --seed N, --verify-rows N --seed N");
}

void check_backend(const RunOptions& run) {
  const CudaChoice& cuda = run.cuda;
  if (is_on_gpus(run.backend)) {
    const std::string given = fmt::format("' given with --backend {}", name_of(run.backend));
    if (run.job.mask.is_in_pieces())
      contradiction("--mask", "'" + run.job.mask.name() + given,
                    "masks without sink and ranges there");
  }
  const std::string backend = fmt::format("given with --backend {}", name_of(run.backend));
  if (cuda.gpus != 0 && run.backend != Backend::cuda)
    contradiction("--gpus", backend, "it together with --backend cuda");
  if (is_on_gpus(run.backend)) {
    if (cuda.backward_kernel != 0 && !run.job.backward)
      contradiction("--backward-kernel", "given without --backward", "it together with --backward");
  } else {
    for (const auto& [flag, given] : {std::pair{"--kernel", cuda.forward_kernel != 0},
                                      {"--backward-kernel", cuda.backward_kernel != 0},
                                      {"--cupti", cuda.cupti}})
      if (given) contradiction(flag, backend, "it together with --backend cuda or nccl");
  }
  if (run.mistaken && run.backend != Backend::cpu)
    contradiction("--inject", fmt::format("'{}' {}", name_of(*run.mistaken->mistake), backend),
                  "it with --backend cpu");
  for (const Mistake mistake :
       {Mistake::gradient_one_hop_short, Mistake::unequal_shards, Mistake::mean_instead_of_sum})
    if (run.mistaken && run.mistaken->mistake == mistake && !run.job.backward)
      contradiction("--inject", fmt::format("'{}' given without --backward", name_of(mistake)),
                    "it together with --backward");
  if (run.dump && run.backend != Backend::cpu)
    contradiction("--dump", backend, "it with --backend cpu");
  if (run.dump && run.mistaken)
    contradiction("--dump",
                  fmt::format("given with --inject {}, which changes the outputs alone",
                              name_of(*run.mistaken->mistake)),
                  "one of them");
  if (const auto& injection = run.job.injection) {
    const std::string given = fmt::format("'{}' {}", to_string(*injection), backend);
    if (injection->fault == Fault::send_first &&
        (injection->rank > 0 || (injection->rank == 0 && injection->step == 0)))
      contradiction("--inject", fmt::format("'{}' given", to_string(*injection)),
                    "send-first or, for a later hop, send-first@0:STEP: it strikes all ranks");
    if (run.backend == Backend::cuda)
      contradiction("--inject", given, "it with --backend cpu, mpi or nccl");
    if (run.backend == Backend::nccl &&
        (delays_computing(injection->fault) || injection->fault == Fault::no_overlap))
      contradiction("--inject", given, "it with --backend cpu or mpi");
  }
}

void check_live(const RunOptions& run) {
  const auto accepted = "it together with --trace FILE and --backend cpu";
  if (!run.trace) contradiction("--live", "given without --trace", accepted);
  std::error_code error;
  const auto status = std::filesystem::status(*run.trace, error);
  if (run.trace->ends_with('/') || (exists(status) && !is_regular_file(status)))
    contradiction("--live", fmt::format("given with --trace '{}', which is no file", *run.trace),
                  accepted);
  // Elsewhere rank 0 learns what the others recorded when they have ended, and a GPU's times too.
  if (run.backend != Backend::cpu)
    contradiction("--live", fmt::format("given with --backend {}", name_of(run.backend)), accepted);
}

void check(RunOptions& run, const CommandFlags& flags) {
  check_source(run, flags.given("--seed"));
  if (run.job.injection) run.job.injection->seed = run.seed;
  if (!run.job.backward)
    for (const auto& [flag, path] :
         {GivenPath{"--dout", run.dout}, {"--dq", run.dq}, {"--dk", run.dk}, {"--dv", run.dv}})
      if (path)
        contradiction(flag, fmt::format("'{}' given without --backward", *path),
                      "it together with --backward");
  check_backend(run);
  if (flags.given("--speeds") && !run.job.partition.is_searched())
    contradiction("--speeds", fmt::format("given with --partition {}", run.job.partition.name()),
                  "it with --partition searched, which alone deals by speed");
  const Scheme scheme = run.job.scheme;
  if (flags.given("--kv-buffers") && scheme != Scheme::ring && scheme != Scheme::two_level)
    contradiction("--kv-buffers",
                  fmt::format("{} given with --scheme {}", run.job.kv_buffers, name_of(scheme)),
                  "it with --scheme ring or two-level; the others have as many as they need");
  if (run.live) check_live(run);
  if (run.verify_rows) run.verify = true;
}

}  // namespace

Layout parse_layout(std::string_view text) {
  if (text == "bhsd") return Layout::bhsd;
  if (text == "bshd") return Layout::bshd;
  if (text == "thd") return Layout::thd;
  throw InputError(fmt::format("'{}' given; accepted: bhsd, bshd, thd", text));
}

void add_tensors(CommandFlags& flags, RunOptions& run) {
  flags.path("--q", run.q, "queries, .npy [batch, heads, seqlen, head_dim]");
  flags.path("--k", run.k, "keys, .npy [batch, heads-kv, seqlen, head_dim]");
  flags.path("--v", run.v, "values, .npy, shaped like the keys");
  flags.name("--layout", run.layout, "bhsd|bshd|thd",
             "order of the axes in the files: b batch, h heads, s seqlen, d head_dim; thd: no "
             "batch (bhsd)",
             parse_layout);
}

Finish declare_run(CommandFlags& flags) {
  const auto run = std::make_shared<RunOptions>();
  add_inputs(flags, *run);
  add_ring(flags, *run);
  add_outputs(flags, *run);
  return [run, &flags] {
    check(*run, flags);
    return *run;
  };
}

}  // namespace ringscope
