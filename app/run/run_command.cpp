// Carries out `ringscope run`, from the flags to the report. The ranks are threads of this
// process, or this process is one rank of a job.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "app/run/report.h"
#include "app/run/run.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/threads/run.h"

namespace ringscope {

namespace {

// Return the ring that makes the mistake of a text such as "scale@2", or none for other names.
std::optional<MistakenRing> parse_mistake(const std::string& text) {
  const std::size_t at = std::min(text.find('@'), text.size());
  for (const Mistake mistake : kRingMistakes) {
    if (text.substr(0, at) != name_of(mistake)) continue;
    MistakenRing ring{.mistake = mistake};
    if (at < text.size())
      ring.rank =
          for_flag("--inject:", [&] { return integer_in<int>(text.substr(at + 1), 0, 4095); });
    return ring;
  }
  return std::nullopt;
}

// Return the place of a text such as "1:0", or none.
std::optional<TilePlace> parse_tile_place(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  const auto rank = parse_number<int>(text.substr(0, colon)),
             step = parse_number<int>(text.substr(colon + 1));
  return rank && step ? std::optional(TilePlace{*rank, *step}) : std::nullopt;
}

void add_inputs(CommandFlags& flags, RunOptions& run) {
  const std::string made = "--text FILE or --random";  // files bring their own sizes
  add_tensors(flags, run);
  flags.path("--text", run.text, "embed the bytes of a file instead");
  flags.flag("--random", run.random, "draw from N(0, 1) instead");
  flags.integer("--seed", run.seed, "of --random, --verify-rows, --sink-logits and --inject (0)", 0)
      .needs("--random or --verify-rows N or --sink-logits random or --inject KIND[@RANK[:STEP]]");
  AttentionShape& shape = run.job.shape;
  flags.row(shape, "batch", "batch entries ({}), for --text and --random as the next six")
      .needs(made);
  for (const char* row : {"heads", "heads-kv"}) flags.row(shape, row).needs(made);
  flags.row(shape, "seqlen", "positions (1024; of a text: all of it, divided by --batch)")
      .needs(made);
  for (const char* row : {"head-dim", "head-dim-v"}) flags.row(shape, row).needs(made);
  flags
      .row(shape, "seqlen-q",
           "queries, fewer than keys: the last of the positions, or as --q-offset says; files say "
           "it "
           "by their shapes (all)")
      .needs(made);
}

void add_ring(CommandFlags& flags, RunOptions& run) {
  flags.name("--backend", run.backend, "cpu|mpi|cuda|nccl",
             "what computes and communicates (cpu); this build has: " + built_backends(),
             parse_backend);
  constexpr const char* kKernel =
      " kernel of --backend cuda and nccl, by its number in info, or a rung, as 07b (the best)";
  const std::string on_gpus = "--backend cuda|nccl", in_one_process = "--backend cuda";
  flags
      .name("--kernel", run.cuda.forward_kernel, "N", std::string("forward") + kKernel,
            parse_kernel)
      .needs(on_gpus);
  flags
      .name("--backward-kernel", run.cuda.backward_kernel, "N", std::string("backward") + kKernel,
            parse_kernel)
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
  flags
      .integer("--nccl-ctas", run.cuda.ctas,
               "of --backend nccl: the multiprocessors that a transfer may take, and that kernels "
               "leave to it (4)",
               1, 32)
      .needs("--backend nccl");
  add_world_size(flags, run.world_size, kDefaultWorldSize);
  flags.value(
      "--scheme", scheme_names(),
      "what travels between the ranks, and how (ring): SLICES shares of the kv heads one after "
      "the other, groups of U ranks that exchange heads, M nodes, a grid of ranks",
      [&run](const std::string& text) {
        for_flag("--scheme", [&] { set_scheme(run.job, text); });
      });
  run.job.hops = Hops::needed;
  flags.row(run.job, "hops").row(run.job, "partition").row(run.job, "partition-q");
  flags.row(run.job, "speeds").needs("--partition searched");
  flags.path("--write-partition", run.write_partition,
             "write the rank of each position, .npy, as file: reads it");
  flags.integer(
      "--kv-buffers", run.job.kv_buffers,
      "of a ring: buffers that a rank's key-value blocks take turns in; more than 2 let ranks run "
      "ahead of late ones (2)",
      2, std::numeric_limits<int>::max(), "K");
  flags.row(run.job, "mask").row(run.job, "dtype");
}

void add_outputs(CommandFlags& flags, RunOptions& run) {
  flags.path("--out", run.out, "write the output, .npy");
  flags.path("--lse", run.lse, "write the log-sum-exp, .npy [batch, heads, seqlen]");
  flags.row(run.job, "backward", "compute the gradients too");
  const std::string backward = "--backward";
  flags.path("--dout", run.dout, "gradient of the output, .npy shaped like it (ones)")
      .needs(backward);
  flags.path("--dq", run.dq, "write the gradient of the queries, .npy").needs(backward);
  flags.path("--dk", run.dk, "write the gradient of the keys, .npy").needs(backward);
  flags.path("--dv", run.dv, "write the gradient of the values, .npy").needs(backward);
  flags.path("--dsink", run.dsink, "write the gradient of the sinks, .npy [heads]")
      .needs(backward)
      .needs("--sink-logits FILE");
  flags.path(
      "--trace", run.trace,
      "write the recording, Chrome Trace Event JSON; with a / at its end, a folder with a file "
      "per rank");
  flags
      .value(
          "--record-tile", "RANK:STEP",
          "with --trace: keep the numbers of that step's first tile, from Q to out, for the viewer",
          [&run](const std::string& text) {
            run.job.recorded_tile = parse_tile_place(text);
            if (!run.job.recorded_tile)
              throw InputError(
                  fmt::format("--record-tile: '{}' given; accepted: RANK:STEP, as in 1:0", text));
          })
      .needs("--trace FILE");
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
                  names_of_all(kRingMistakes),
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
  if (run.job.recorded_tile && run.backend != Backend::cpu)
    contradiction("--record-tile", backend, "it with --backend cpu");
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
  const Scheme* const scheme = run.job.scheme;
  if (flags.given("--kv-buffers") && !run.job.rotates_blocks())
    contradiction("--kv-buffers",
                  fmt::format("{} given with --scheme {}", run.job.kv_buffers, name_of(scheme)),
                  "it with --scheme ring or two-level; the others have as many as they need");
  if (flags.given("--hops") && scheme->parting != Parting::where_asked)
    contradiction("--hops", fmt::format("given with --scheme {}", name_of(scheme)),
                  "it with --scheme ring");
  // In a ring that sends what is needed, the hop that a fault strikes may not exist.
  if (run.job.injection && !delays_computing(run.job.injection->fault)) {
    if (flags.given("--hops") && run.job.hops == Hops::needed)
      contradiction("--inject",
                    fmt::format("'{}' given with --hops needed", to_string(*run.job.injection)),
                    "it with --hops all, or without --hops");
    run.job.hops = Hops::all;
  }
  if (run.verify_rows) run.verify = true;
}

}  // namespace

void add_tensors(CommandFlags& flags, RunOptions& run) {
  const std::string q = "--q FILE", k = "--k FILE", v = "--v FILE";
  flags
      .path("--q", run.q,
            "queries, .npy or .safetensors[:TENSOR], [batch, heads, seqlen, head_dim]")
      .needs(k)
      .needs(v);
  flags.path("--k", run.k, "keys, .npy [batch, heads-kv, seqlen, head_dim]").needs(q);
  flags.path("--v", run.v, "values, .npy, shaped like the keys, but their head_dim may differ")
      .needs(q);
  flags
      .name("--layout", run.layout, "bhsd|bshd|sbhd|thd",
            "order of the axes in the files: b batch, h heads, s seqlen, d head_dim; thd: no "
            "batch (bhsd)",
            [](const std::string& text) { return parse_name(text, kAllOf<Layout>); })
      .needs(q);
  flags.row(run.job.shape, "q-offset");
  constexpr double kMost = std::numeric_limits<float>::max();
  flags.number("--scale", run.job.softmax_scale,
               {-kMost, kMost, true, "a finite number that f32 can hold"},
               "softmax scale (1/sqrt(head_dim))");
  flags.number("--softcap", run.job.softcap, {1e-6, 1e9, true, "a number from 1e-6 to 1e9"},
               "cap of the scaled scores, c tanh(s / c), as in Gemma 2 (none)");
  flags.path("--sink-logits", run.sink_logits,
             "learned sinks, .npy [heads]: exp of one joins each row's sum and no value (not the "
             "first keys, which sink:K of --mask means)");
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
  for (const Tensor tensor : output_tensors(true, true)) {
    const std::vector<float>& values = values_of(outputs, tensor);
    if (const auto count = non_finite(values); count > 0)
      print_error(fmt::format("{}: {} of {} values are NaN or infinite: {}", name_of(tensor), count,
                              values.size(), why));
  }
}

// Throw InputError for a mask and a partition that don't fit.
Problem config_of(const RunOptions& options, const InputPlan& plan, int world_size) {
  Problem config = options.job;
  config.shape = plan.shape;
  config.sink_logits = plan.sink_logits;
  config.world_size = world_size;
  deal_out_as_given(config);
  return config;
}

// Throw InputError for what the shape asks and the backend lacks.
void check_backend_has(const RunOptions& options, const Problem& config) {
  const AttentionShape& shape = config.shape;
  const std::string name = reported(name_of(options.backend));
  const bool on_gpus = options.backend == Backend::cuda || options.backend == Backend::nccl;
  if (config.softcap > 0 && (on_gpus || !my_ring_call().empty() || options.mistaken))
    contradiction("--softcap",
                  options.mistaken ? "given with a numeric mistake of --inject"
                                   : "given with --backend " + name,
                  options.mistaken ? "either alone" : "it with --backend cpu or mpi alone");
  if (my_ring_call().empty() && !options.mistaken) return;
  if (config.has_sinks())
    contradiction("--sink-logits",
                  options.mistaken ? "given with a numeric mistake of --inject"
                                   : "given with --backend " + name,
                  options.mistaken ? "one of them" : "it with --backend cpu or mpi");
  if (config.deals_queries_apart())
    contradiction(
        options.mistaken ? "--inject" : "--backend",
        fmt::format("{} given for {} queries and {} keys, dealt out apart",
                    options.mistaken ? "a numeric mistake" : name, shape.queries(), shape.seqlen),
        "equally many in one partition there, or --backend cpu or mpi");
  if (shape.value_dim() != shape.head_dim)
    contradiction(options.mistaken ? "--inject" : "--backend",
                  fmt::format("{} given for keys of {} values and values of {}",
                              options.mistaken ? "a numeric mistake" : name, shape.head_dim,
                              shape.value_dim()),
                  "equally many there, or --backend cpu or mpi");
}

// Throw InputError for what can be refused without the values: fault, places of outputs.
void check_problem(const RunOptions& options, const Problem& config, const InputPlan& plan) {
  with_dashes([&] { check_scheme(config); });
  check_backend_has(options, config);
  if (options.mistaken && options.mistaken->rank >= config.world_size)
    throw InputError(fmt::format("--inject: rank {} given; accepted: below the world-size, {}",
                                 options.mistaken->rank, config.world_size));
  if (config.injection) with_dashes([&] { check_injection(*config.injection, config.world_size); });
  if (config.recorded_tile) with_dashes([&] { check_tile_place(config, *config.recorded_tile); });
  std::vector<std::string> inputs = plan.files;
  add_files_in({options.job.mask.name(), options.job.partition.name()}, inputs);
  check_output_places(output_places(options), inputs, options.json);
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

class RunJob : public Job {
 public:
  RunJob(MpiSession* session, const RunOptions& options) : Job(session), options_(options) {}

  void prepare() override {
    ranks_ = world_size(options_.world_size, kDefaultWorldSize);
    if (!is_first()) return;
    plan_ = plan_inputs(options_);
    config_ = config_of(options_, plan_, ranks_);
    check_problem(options_, config_, plan_);
    require_memory(config_, memory_use());
    if (is_scattered())
      loaded_ = load_inputs(options_, plan_);
    else
      text_ = text_of(options_, plan_);
  }

  void run() override {
    if (!plan_.doubt.empty()) print_error(plan_.doubt);
    for (const std::string& remark : loaded_.remarks) print_error(remark);
    learn_of_inputs();
    if (!is_first()) {
      config_ = config_of(options_, plan_, ranks_);
      require_memory(config_, memory_use());
    }
    if (!is_scattered())
      rows_ = generated_rows(options_, plan_.shape, text_);
    else if (is_first())
      rows_ = std::make_unique<WholeInputs>(plan_.shape, loaded_.tensors);
    try {
      run_ = run_ranks();
    } catch (const RunFailure& failure) {
      throw with_trace_written(options_, failure, failure.recording());
    }
    run_.recording.info.command = recorded_words();
  }

  // Verify, write the files, print the report.
  int conclude() override {
    // What is compared needs the inputs of the whole sequence, and runs them on a single rank.
    if ((options_.verify || options_.mistaken) && !is_scattered())
      loaded_.tensors = whole_inputs(*rows_, plan_.shape);
    if (options_.mistaken) make_mistaken(options_, config_, loaded_.tensors, run_.outputs);
    if (loaded_.remarks.empty() && !options_.mistaken)
      warn_of_overflow(run_, config_.dtype, config_.mask);
    std::optional<Verdict> verdict;
    if (options_.verify) verdict = verify();
    write_outputs(options_, config_, run_, plan_.all_f64);

    const Report report = make_report(config_, run_, std::move(verdict));
    print_out(options_.json ? report_json(report) : report_text(report));
    if (!report.verdict || report.verdict->pass()) return 0;
    print_error(report.verdict->complaint());
    return kWrongNumbers;
  }

 private:
  // Tell the others what only rank 0 knows, which opens the files: the shape, the learned sinks and the
  // bytes of a text.
  void learn_of_inputs() {
    AttentionShape& shape = plan_.shape;
    const auto bytes_of = [](const void* from, std::size_t bytes) {
      return std::string(static_cast<const char*>(from), bytes);
    };
    const std::string told =
        broadcast(is_first() ? bytes_of(&shape, sizeof shape) +
                                   bytes_of(plan_.sink_logits.data(),
                                            plan_.sink_logits.size() * sizeof(float)) +
                                   text_
                             : "");
    std::memcpy(&shape, told.data(), sizeof shape);
    if (options_.sink_logits) plan_.sink_logits.resize(static_cast<std::size_t>(shape.num_heads));
    const std::size_t sinks = plan_.sink_logits.size() * sizeof(float);
    if (sinks > 0) std::memcpy(plan_.sink_logits.data(), told.data() + sizeof shape, sinks);
    text_ = told.substr(sizeof shape + sinks);
  }

  // Return whether rank 0 gives each rank its rows, rather than each making its own.
  bool is_scattered() const { return !can_be_generated(options_); }
  bool gathers_outputs() const {
    return !rank() || options_.verify || options_.out || options_.lse || options_.dq ||
           options_.dk || options_.dv || options_.dsink;
  }
  MemoryUse memory_use() const {
    return {.rank = rank(),
            .reads_inputs = is_first() && is_scattered(),
            .makes_text = options_.text.has_value() && !is_scattered(),
            .gathers_outputs = is_first() && gathers_outputs(),
            .dout_given = options_.dout.has_value(),
            .verify = is_first() && options_.verify,
            .ranks_elsewhere = is_on_gpus(options_.backend)};
  }

  RingRun run_ranks() {
    std::optional<ProgressBar> bar;
    if (is_first()) bar.emplace("attention");
    Progress progress{bar ? bar->callback() : nullptr};
    if (!my_ring_call().empty())
      progress.stuck = [](const RunError& error) { std::_Exit(report_error(error)); };
#ifdef RINGSCOPE_HAS_MPI
    if (rank())
      return process_runner_of(options_.backend, options_.cuda)(
          *session_, config_, {rows_.get(), is_scattered()}, gathers_outputs(), progress);
#endif
    return runner_of(options_.backend, options_.cuda)(config_, *rows_, progress);
  }

  Verdict verify() const {
    ProgressBar bar("reference");
    const Index all = config_.shape.queries();
    const std::vector<Index> queries =
        sampled_queries(all, options_.verify_rows.value_or(all), options_.seed);
    return Reference(config_, loaded_.tensors, one_rank_runner_of(options_.backend, options_.cuda),
                     bar.callback(), queries)
        .judge(run_.outputs);
  }

  const RunOptions& options_;
  int ranks_ = 0;
  Problem config_;
  InputPlan plan_;       // of other ranks than 0: the shape alone
  std::string text_;     // that rows are made of
  LoadedInputs loaded_;  // files or, to be compared with, all rows
  std::unique_ptr<RowSource> rows_;
  RingRun run_;
};

}  // namespace

std::unique_ptr<Job> job_of(MpiSession* session, const RunOptions& options) {
  return std::make_unique<RunJob>(session, options);
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
