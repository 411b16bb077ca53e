// Carries out `ringscope run`, from the options to the report. The ranks are threads of this
// process, or this process is one rank of a job.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/command_line/commands.h"
#include "app/command_line/flags.h"
#include "app/command_line/option_groups.h"
#include "app/process/process_command.h"
#include "app/report/terminal.h"
#include "app/run/backend.h"
#include "app/run/dump.h"
#include "app/run/inputs.h"
#include "app/run/memory.h"
#include "app/run/outputs.h"
#include "app/run/report.h"
#include "app/run/verify.h"
#include "core/base/files.h"
#include "core/run/run.h"

#ifdef RINGSCOPE_HAS_MPI
#include "app/process/job_terms.h"
#include "core/mpi/run_on_mpi.h"
#endif

namespace ringscope {

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
  deal_out(config);
  return config;
}

// Throw InputError for what can be refused without the values: fault, places of outputs.
void check_problem(const RunOptions& options, const Problem& config, const InputPlan& plan) {
  with_dashes([&] { check_scheme(config); });
  if (options.mistaken && options.mistaken->rank >= config.world_size)
    throw InputError(fmt::format("--inject: rank {} given; accepted: below the world-size, {}",
                                 options.mistaken->rank, config.world_size));
  if (config.injection) with_dashes([&] { check_injection(*config.injection, config.world_size); });
  check_output_places(output_places(options), plan.files, options.json);
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

  const LoadedInputs loaded = load_inputs(options, plan);
  if (!plan.doubt.empty()) print_error(plan.doubt);
  for (const std::string& remark : loaded.remarks) print_error(remark);
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);

  const Runner runner = runner_of(options.backend, options.cuda);
  std::unique_ptr<AtomicFolder> dump;
  if (options.dump)
    dump = for_flag("--dump", [&] { return std::make_unique<AtomicFolder>(*options.dump); });
  RingRun run = [&] {
    ProgressBar bar("attention");
    Progress progress{bar.callback()};
    if (options.live)
      progress.recording = [&](const Recording& so_far) { write_trace(options, so_far); };
    try {
      if (dump) return run_dumped(config, loaded.tensors, progress, *dump);
      return runner(config, loaded.tensors, progress);
    } catch (const RunFailure& failure) {
      throw with_trace_written(options, failure, failure.recording());
    }
  }();
  run.recording.info.command = options.command;
  if (options.mistaken) make_mistaken(options, config, loaded.tensors, run.outputs);
  const int status = conclude({options, config, plan, run, loaded.remarks.empty()}, loaded.tensors);
  if (dump) for_flag("--dump", [&] { dump->commit(); });
  return status;
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
    if (is_first()) prepare_inputs();
  }

  void run() override {
    if (!plan_.doubt.empty()) print_error(plan_.doubt);
    for (const std::string& remark : loaded_.remarks) print_error(remark);
    facts_ = job_facts_from(line_.broadcast(is_first() ? to_bytes(facts_) : ""));
    config_ = config_of(options_, facts_.shape, session_.world_size());
    if (!is_first()) require_process_memory(config_, memory_use());
    agree(line_, {});  // now every rank knows that all have the memory for it
    run_ = run_rank();
    run_.recording.info.command = options_.command;
  }

  int conclude() override {
    AttentionInputs generated;
    if (options_.verify && !facts_.is_scattered)
      generated = whole_inputs(*generated_rows(options_, facts_.shape, facts_.text), facts_.shape);
    return ringscope::conclude({options_, config_, plan_, run_, loaded_.remarks.empty()},
                               facts_.is_scattered ? loaded_.tensors : generated);
  }

  RunError leave_behind(const RunError& failure, const std::exception& thrown) override {
    const auto* recorded = dynamic_cast<const RunFailure*>(&thrown);
    if (recorded == nullptr) return failure;
    return with_trace_written(options_, failure, recorded->recording());
  }

 private:
  void prepare_inputs() {
    plan_ = plan_inputs(options_);
    facts_ = {.shape = plan_.shape,
              .is_scattered = !can_be_generated(options_),
              .gathers_outputs = options_.verify || options_.out || options_.lse || options_.dq ||
                                 options_.dk || options_.dv,
              .text = ""};
    config_ = config_of(options_, plan_.shape, session_.world_size());
    check_problem(options_, config_, plan_);
    require_process_memory(config_, memory_use());
    if (facts_.is_scattered) {
      loaded_ = load_inputs(options_, plan_);
    } else {
      facts_.text = text_of(options_, plan_);
    }
  }

  ProcessMemoryUse memory_use() const {
    return {.rank = session_.rank(),
            .reads_inputs = is_first() && facts_.is_scattered,
            .makes_text = options_.text.has_value() && !facts_.is_scattered,
            .gathers_outputs = is_first() && facts_.gathers_outputs,
            .verify = is_first() && options_.verify,
            .dout_given = options_.dout.has_value(),
            .ranks_elsewhere = is_on_gpus(options_.backend)};
  }

  RingRun run_rank() {
    ProcessInputs inputs{.is_scattered = facts_.is_scattered};
    std::unique_ptr<RowSource> rows;
    if (!facts_.is_scattered) {
      rows = generated_rows(options_, facts_.shape, facts_.text);
      inputs.generated = rows.get();
    } else if (is_first()) {
      rows = std::make_unique<WholeInputs>(facts_.shape, loaded_.tensors);
      inputs.at_rank_0 = rows.get();
    }
    std::optional<ProgressBar> bar;
    if (is_first()) bar.emplace("attention");
    return process_runner_of(options_.backend, options_.cuda)(
        session_, config_, inputs, facts_.gathers_outputs,
        Progress{bar ? bar->callback() : nullptr});
  }

  const RunOptions& options_;
  JobFacts facts_;
  Problem config_;
  RingRun run_;
  // Only on rank 0.
  InputPlan plan_;
  LoadedInputs loaded_;
};

}  // namespace

std::unique_ptr<JobPart> make_run_part(MpiSession& session, const RunOptions& options) {
  return std::make_unique<RunPart>(session, options);
}

#endif  // RINGSCOPE_HAS_MPI

}  // namespace ringscope
