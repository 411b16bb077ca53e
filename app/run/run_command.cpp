// Carries out `ringscope run`, from the flags to the report. The ranks are threads of this
// process, or this process is one rank of a job.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/command_line/option_groups.h"
#include "app/process/process_command.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "app/run/report.h"
#include "app/run/run.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/run/run.h"

#ifdef RINGSCOPE_HAS_MPI
#include "core/ranks/mpi/run_on_mpi.h"
#endif

namespace ringscope {

namespace {

// Return the ring that makes the mistake of a text such as "scale@2", or none for other names.
std::optional<MistakenRing> parse_mistake(const std::string& text) {
  const std::size_t at = std::min(text.find('@'), text.size());
  for (const Mistake mistake : kAllMistakes) {
    if (text.substr(0, at) != name_of(mistake)) continue;
    MistakenRing ring{.mistake = mistake};
    if (at < text.size())
      ring.rank =
          for_flag("--inject:", [&] { return integer_in<int>(text.substr(at + 1), 0, 4095); });
    return ring;
  }
  return std::nullopt;
}

void add_inputs(CommandFlags& flags, RunOptions& run) {
  const std::string made = "--text FILE or --random";  // files bring their own sizes
  add_tensors(flags, run);
  flags.path("--text", run.text, "embed the bytes of a file instead");
  flags.flag("--random", run.random, "draw from N(0, 1) instead");
  flags.integer("--seed", run.seed, "of --random, --verify-rows and --inject jitter (0)", 0)
      .needs("--random or --verify-rows N");
  AttentionShape& shape = run.job.shape;
  flags.row(shape, "batch", "batch entries ({}), for --text and --random as the next four")
      .needs(made);
  for (const char* row : {"heads", "heads-kv"}) flags.row(shape, row).needs(made);
  flags.row(shape, "seqlen", "positions (1024; of a text: all of it, divided by --batch)")
      .needs(made);
  flags.row(shape, "head-dim").needs(made);
}

void add_ring(CommandFlags& flags, RunOptions& run) {
  flags.name("--backend", run.backend, "cpu|mpi|cuda|nccl",
             "what computes and communicates (cpu); this build has: " + built_backends(),
             parse_backend);
  constexpr const char* kKernel =
      " kernel of --backend cuda and nccl, by its number in info (the best)";
  const std::string on_gpus = "--backend cuda|nccl", in_one_process = "--backend cuda";
  flags.integer("--kernel", run.cuda.forward_kernel, std::string("forward") + kKernel, 1, 99)
      .needs(on_gpus);
  flags
      .integer("--backward-kernel", run.cuda.backward_kernel, std::string("backward") + kKernel, 1,
               99)
      .needs(on_gpus)
      .needs("--backward");
  flags
      .integer("--kernel-trace", run.cuda.stamped,
               "of --backend cuda and nccl, with --trace: record what the warps of kernels 06, 07 "
               "and, backward, 11 do on N multiprocessors",
               1, kMostMultiprocessors)
      .needs(on_gpus)
      .needs("--trace FILE");
  flags
      .integer("--gpus", run.cuda.gpus,
               "of --backend cuda: deal the ranks over N GPUs, blocks moved by copy engines (1)", 1,
               64)
      .needs(in_one_process);
  add_world_size(flags, run.world_size, kDefaultWorldSize);
  flags.value(
      "--scheme", kSchemeNames,
      "what travels between the ranks, and how (ring): SLICES shares of the kv heads one after "
      "the other, groups of U ranks that exchange heads, M nodes, a grid of ranks",
      [&run](const std::string& text) {
        for_flag("--scheme", [&] { set_scheme(run.job, text); });
      });
  flags.row(run.job, "partition");
  flags.row(run.job, "speeds").needs("--partition searched");
  flags.path("--write-partition", run.write_partition,
             "write the rank of each position, .npy, as file: reads it");
  add_kv_buffers(flags, run.job.kv_buffers,
                 "of a ring: buffers that a rank's key-value blocks take turns in; more than 2 let "
                 "ranks run ahead of late ones (2)");
  flags.row(run.job, "mask").row(run.job, "dtype");
}

void add_outputs(CommandFlags& flags, RunOptions& run) {
  flags.path("--out", run.out, "write the output, .npy");
  flags.path("--lse", run.lse, "write the log-sum-exp, .npy [batch, heads, seqlen]");
  flags.row(run.job, "backward", "compute the gradients too");
  const std::string backward = "--backward";
  flags.path("--dout", run.dout, "gradient of the output, .npy shaped like the queries (ones)")
      .needs(backward);
  flags.path("--dq", run.dq, "write the gradient of the queries, .npy").needs(backward);
  flags.path("--dk", run.dk, "write the gradient of the keys, .npy").needs(backward);
  flags.path("--dv", run.dv, "write the gradient of the values, .npy").needs(backward);
  flags.path(
      "--trace", run.trace,
      "write the recording, Chrome Trace Event JSON; with a / at its end, a folder with a file "
      "a rank");
  flags.flag("--live", run.live,
             "write the recording a few times a second while the run goes on, for view, which "
             "follows it");
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

void check_source(const RunOptions& run) {
  constexpr const char* kOneOf = "one of --q with --k and --v, --text, --random";
  const int sources = run.q.has_value() + run.text.has_value() + run.random;
  if (sources == 0) contradiction("run", "no input given", kOneOf);
  if (sources > 1)
    contradiction(run.q ? "--q" : "--text",
                  fmt::format("given beside {}", run.q && run.text ? "--text" : "--random"),
                  kOneOf);
}

void check_backend(const RunOptions& run) {
  const std::string backend = fmt::format("given with --backend {}", name_of(run.backend));
  if (is_on_gpus(run.backend) && run.job.mask.is_in_pieces())
    contradiction("--mask", fmt::format("'{}' {}", run.job.mask.name(), backend),
                  "masks without sink and ranges there");
  if (run.mistaken && run.backend != Backend::cpu)
    contradiction("--inject", fmt::format("'{}' {}", name_of(*run.mistaken->mistake), backend),
                  "it with --backend cpu");
  if (run.mistaken && is_of_gradients(*run.mistaken->mistake) && !run.job.backward)
    contradiction("--inject",
                  fmt::format("'{}' given without --backward", name_of(*run.mistaken->mistake)),
                  "it together with --backward");
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

void check(RunOptions& run, const CommandFlags& flags) {
  check_source(run);
  if (run.job.injection) run.job.injection->seed = run.seed;
  check_backend(run);
  const Scheme scheme = run.job.scheme;
  if (flags.given("--kv-buffers") && scheme != Scheme::ring && scheme != Scheme::two_level)
    contradiction("--kv-buffers",
                  fmt::format("{} given with --scheme {}", run.job.kv_buffers, name_of(scheme)),
                  "it with --scheme ring or two-level; the others have as many as they need");
  if (run.live) check_live(run.trace, run.backend);
  if (run.verify_rows) run.verify = true;
}

}  // namespace

Layout parse_layout(std::string_view text) {
  if (text == "bhsd") return Layout::bhsd;
  if (text == "bshd") return Layout::bshd;
  if (text == "sbhd") return Layout::sbhd;
  if (text == "thd") return Layout::thd;
  throw InputError(fmt::format("'{}' given; accepted: bhsd, bshd, sbhd, thd", text));
}

void add_tensors(CommandFlags& flags, RunOptions& run) {
  const std::string q = "--q FILE", k = "--k FILE", v = "--v FILE";
  flags
      .path("--q", run.q,
            "queries, .npy or .safetensors[:TENSOR], [batch, heads, seqlen, head_dim]")
      .needs(k)
      .needs(v);
  flags.path("--k", run.k, "keys, .npy [batch, heads-kv, seqlen, head_dim]").needs(q);
  flags.path("--v", run.v, "values, .npy, shaped like the keys").needs(q);
  flags
      .name("--layout", run.layout, "bhsd|bshd|sbhd|thd",
            "order of the axes in the files: b batch, h heads, s seqlen, d head_dim; thd: no "
            "batch (bhsd)",
            parse_layout)
      .needs(q);
  constexpr double kMost = std::numeric_limits<float>::max();
  flags.number("--scale", run.job.softmax_scale,
               {-kMost, kMost, true, "a finite number that f32 can hold"},
               "softmax scale (1/sqrt(head_dim))");
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

namespace {

// Print a warning for NaN and infinities from finite inputs, which would otherwise go unseen.
void warn_of_overflow(const RingRun& run, DType dtype, const MaskSpec& mask) {
  const AttentionOutputs& outputs = run.outputs;
  // A query attends at least to itself, so only a score can make lse infinite or NaN. Under a
  // ranges mask it may attend nothing, and its lse is then -inf.
  const auto non_finite = [&](const std::vector<float>& values) {
    const bool may_be_empty = &values == &outputs.lse && mask.has_ranges();
    return std::count_if(values.begin(), values.end(), [&](float x) {
      return !std::isfinite(x) && !(may_be_empty && x == -std::numeric_limits<float>::infinity());
    });
  };
  const std::string why = non_finite(outputs.lse) > 0
                              ? "scores beyond what f32 can hold"
                              : fmt::format("beyond what {} can hold", name_of(dtype));
  for (const Tensor tensor : output_tensors(true)) {
    const std::vector<float>& values = values_of(outputs, tensor);
    if (const auto count = non_finite(values); count > 0)
      print_error(fmt::format("{}: {} of {} values are NaN or infinite: {}", name_of(tensor), count,
                              values.size(), why));
  }
}

// ---
// The work before and after the ranks' own, wherever the ranks are: the problem that the options
// describe, the checks before the run, and what is done with the result.

// Throw InputError for a mask and a partition that don't fit.
Problem config_of(const RunOptions& options, const AttentionShape& shape, int world_size) {
  Problem config = options.job;
  config.shape = shape;
  config.world_size = world_size;
  deal_out_as_given(config);
  return config;
}

// Throw InputError for what can be refused without the values: fault, places of outputs.
void check_problem(const RunOptions& options, const Problem& config, const InputPlan& plan) {
  with_dashes([&] { check_scheme(config); });
  if (options.mistaken && options.mistaken->rank >= config.world_size)
    throw InputError(fmt::format("--inject: rank {} given; accepted: below the world-size, {}",
                                 options.mistaken->rank, config.world_size));
  if (config.injection) with_dashes([&] { check_injection(*config.injection, config.world_size); });
  std::vector<std::string> inputs = plan.files;
  add_files_in({options.job.mask.name(), options.job.partition.name()}, inputs);
  check_output_places(output_places(options), inputs, options.json);
}

// A finished run and its problem.
struct FinishedRun {
  const RunOptions& options;
  const Problem& config;
  const InputPlan& plan;
  const RingRun& run;
  bool finite_inputs;  // no loaded file has NaN, infinities or overflow
};

// Verify, write the files, print the report. Return the exit status, 0 or kWrongNumbers. --verify
// needs the `inputs` of the whole sequence and runs them on a single rank. Throw InputError,
// RunError.
int conclude(const FinishedRun& finished, const AttentionInputs& inputs) {
  const auto& [options, config, plan, run, finite_inputs] = finished;
  if (finite_inputs) warn_of_overflow(run, config.dtype, config.mask);
  std::optional<Verdict> verdict;
  if (options.verify) {
    ProgressBar bar("reference");
    const std::vector<Index> queries = sampled_queries(
        config.shape.seqlen, options.verify_rows.value_or(config.shape.seqlen), options.seed);
    verdict = Reference(config, inputs, one_rank_runner_of(options.backend, options.cuda),
                        bar.callback(), queries)
                  .judge(run.outputs);
  }
  write_outputs(options, config, run, plan.all_f64);

  const Report report = make_report(config, run, std::move(verdict));
  print_out(options.json ? report_json(report) : report_text(report));
  if (!report.verdict || report.verdict->pass()) return 0;
  print_error(report.verdict->complaint());
  return kWrongNumbers;
}

// Replace a run's outputs by those of a ring that makes a mistake, computed in f64, with the run's
// own rounding where results are stored.
void make_mistaken(const RunOptions& options, const Problem& config, const AttentionInputs& inputs,
                   AttentionOutputs& outputs) {
  const NaiveResult<double> wrong =
      make_mistake(checked_problem(config), stored_inputs(config, inputs), *options.mistaken);
  for (const Tensor tensor : output_tensors(config.backward)) {
    const std::vector<double>& from = values_of(wrong, tensor);
    std::vector<float>& to = values_of(outputs, tensor);
    const DType dtype = tensor == Tensor::lse ? DType::f32 : config.dtype;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = round_to(dtype, static_cast<float>(from[i]));
  }
}

// Write the recording of a failed run if --trace asks for it. Return the failure; its message also
// says if the trace could not be written.
RunError with_trace_written(const RunOptions& options, const RunError& failure,
                            const Recording& recording) {
  try {
    write_trace(options, recording);
    return failure;
  } catch (const std::exception& error) {
    return RunError(fmt::format("{}; and no trace of it: {}", failure.what(), error.what()),
                    failure.rank(), failure.step());
  }
}

}  // namespace

int carry_out(const RunOptions& options) {
  const InputPlan plan = plan_inputs(options);
  const Problem config =
      config_of(options, plan.shape, options.world_size.value_or(kDefaultWorldSize));
  check_problem(options, config, plan);
  require_memory(config, {.dout_given = options.dout.has_value(),
                          .verify = options.verify,
                          .ranks_elsewhere = is_on_gpus(options.backend)});

  if (options.live) {  // whoever looks finds a run that has not begun
    Recording nothing_yet = empty_recording(config, name_of(options.backend));
    nothing_yet.info.live_ns = 0;
    write_trace(options, nothing_yet);
  }
  const LoadedInputs loaded = load_inputs(options, plan);
  if (!plan.doubt.empty()) print_error(plan.doubt);
  for (const std::string& remark : loaded.remarks) print_error(remark);
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);

  const Runner runner = runner_of(options.backend, options.cuda);
  RingRun run = [&] {
    ProgressBar bar("attention");
    Progress progress{bar.callback()};
    if (options.live)
      progress.recording = [&](const Recording& so_far) { write_trace(options, so_far); };
    try {
      return runner(config, loaded.tensors, progress);
    } catch (const RunFailure& failure) {
      throw with_trace_written(options, failure, failure.recording());
    }
  }();
  run.recording.info.command = options.command;
  if (options.live) write_trace(options, run.recording);  // because --verify may take long
  if (options.mistaken) make_mistaken(options, config, loaded.tensors, run.outputs);
  return conclude({options, config, plan, run, loaded.remarks.empty()}, loaded.tensors);
}

// ---
// `run` as one rank of a job, where each rank is a process.

#ifdef RINGSCOPE_HAS_MPI

namespace {

class RunPart : public JobPart {
 public:
  RunPart(MpiSession& session, const RunOptions& options) : JobPart(session), options_(options) {}

  void prepare() override {
    require_world_size(session_, options_.world_size);
    if (!is_first()) return;
    plan_ = plan_inputs(options_);
    config_ = config_of(options_, plan_.shape, session_.world_size());
    check_problem(options_, config_, plan_);
    require_memory(config_, memory_use());
    if (is_scattered()) {
      loaded_ = load_inputs(options_, plan_);
    } else {
      text_ = text_of(options_, plan_);
    }
  }

  void run() override {
    if (!plan_.doubt.empty()) print_error(plan_.doubt);
    for (const std::string& remark : loaded_.remarks) print_error(remark);
    learn_of_inputs();
    if (!is_first()) {
      config_ = config_of(options_, plan_.shape, session_.world_size());
      require_memory(config_, memory_use());
    }
    run_ = run_rank();
    run_.recording.info.command = options_.command;
  }

  int conclude() override {
    AttentionInputs generated;
    if (options_.verify && !is_scattered())
      generated = whole_inputs(*generated_rows(options_, plan_.shape, text_), plan_.shape);
    return ringscope::conclude({options_, config_, plan_, run_, loaded_.remarks.empty()},
                               is_scattered() ? loaded_.tensors : generated);
  }

 private:
  // Tell the others what only rank 0 knows, which opens the files: the shape and the bytes of a text.
  void learn_of_inputs() {
    AttentionShape& shape = plan_.shape;
    const std::string_view sizes(reinterpret_cast<const char*>(&shape), sizeof shape);
    const std::string told = session_.broadcast(is_first() ? std::string(sizes) + text_ : "");
    std::memcpy(&shape, told.data(), sizeof shape);
    text_ = told.substr(sizeof shape);
  }

  // Return whether rank 0 sends each rank its rows, rather than each making its own.
  bool is_scattered() const { return !can_be_generated(options_); }
  bool gathers_outputs() const {
    return options_.verify || options_.out || options_.lse || options_.dq || options_.dk ||
           options_.dv;
  }
  MemoryUse memory_use() const {
    return {.rank = session_.rank(),
            .reads_inputs = is_first() && is_scattered(),
            .makes_text = options_.text.has_value() && !is_scattered(),
            .gathers_outputs = is_first() && gathers_outputs(),
            .dout_given = options_.dout.has_value(),
            .verify = is_first() && options_.verify,
            .ranks_elsewhere = is_on_gpus(options_.backend)};
  }

  RingRun run_rank() {
    ProcessInputs inputs{.is_scattered = is_scattered()};
    std::unique_ptr<RowSource> rows;
    if (!is_scattered()) {
      rows = generated_rows(options_, plan_.shape, text_);
      inputs.generated = rows.get();
    } else if (is_first()) {
      rows = std::make_unique<WholeInputs>(plan_.shape, loaded_.tensors);
      inputs.at_rank_0 = rows.get();
    }
    std::optional<ProgressBar> bar;
    if (is_first()) bar.emplace("attention");
    return process_runner_of(options_.backend, options_.cuda)(
        session_, config_, inputs, gathers_outputs(), Progress{bar ? bar->callback() : nullptr});
  }

  const RunOptions& options_;
  Problem config_;
  RingRun run_;
  InputPlan plan_;       // of other ranks than 0: the shape alone
  LoadedInputs loaded_;  // of rank 0
  std::string text_;
};

}  // namespace

std::unique_ptr<JobPart> make_run_part(MpiSession& session, const RunOptions& options) {
  return std::make_unique<RunPart>(session, options);
}

#endif  // RINGSCOPE_HAS_MPI

}  // namespace ringscope
