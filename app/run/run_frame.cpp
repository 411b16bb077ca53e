#include "app/run/run_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "app/command_line/ending.h"
#include "app/command_line/flags.h"
#include "app/report/terminal.h"
#include "app/run/outputs.h"
#include "app/run/report.h"
#include "app/run/verify.h"

namespace ringscope {
namespace {

// Print a warning for NaN and infinities from finite inputs, which would otherwise go unseen.
void warn_of_overflow(const RingRun& run, DType dtype) {
  const auto non_finite = [](const std::vector<float>& values) {
    return std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  };
  const AttentionOutputs& outputs = run.outputs;
  // Every query attends at least to itself, so only a score can make lse infinite or NaN.
  const std::string why = non_finite(outputs.lse) > 0
                              ? "scores beyond what f32 can hold"
                              : fmt::format("beyond what {} can hold", name_of(dtype));
  for (const auto& [name, values] : {std::pair{"out", &outputs.out},
                                     {"lse", &outputs.lse},
                                     {"dq", &outputs.dq},
                                     {"dk", &outputs.dk},
                                     {"dv", &outputs.dv}})
    if (const auto count = non_finite(*values); count > 0)
      print_error(fmt::format("{}: {} of {} values are NaN or infinite: {}", name, count,
                              values->size(), why));
}

}  // namespace

Problem config_of(const RunOptions& options, const AttentionShape& shape, int world_size) {
  Problem config;
  config.shape = shape;
  config.dtype = options.dtype;
  config.softmax_scale = options.softmax_scale;
  config.mask = options.mask;
  config.partition = options.partition;
  config.world_size = world_size;
  config.scheme = options.scheme;
  config.kv_buffers = options.kv_buffers.value_or(config.kv_buffers);
  config.backward = options.backward;
  config.timeout_s = options.timeout_s;
  config.injection = options.injection;
  return config;
}

void check_problem(const RunOptions& options, const Problem& config, const InputPlan& plan) {
  for_flag("--mask '" + config.mask.name() + "':",
           [&] { config.mask.for_seqlen(config.shape.seqlen); });
  try {
    if (config.injection) check_injection(*config.injection, config.world_size);
  } catch (const InputError& error) {  // whose message begins with the flag's name
    throw InputError(std::string("--") + error.what());
  }
  check_output_places(options, plan.files);
}

bool wants_outputs(const RunOptions& options) {
  return options.verify || options.out || options.lse || options.dq || options.dk || options.dv;
}

int conclude(const FinishedRun& finished, const AttentionInputs& inputs, const Runner& one_rank) {
  const auto& [options, config, plan, run, finite_inputs] = finished;
  if (finite_inputs) warn_of_overflow(run, config.dtype);
  std::optional<Verdict> verdict;
  if (options.verify) {
    ProgressBar bar("reference");
    const std::vector<Index> queries = sampled_queries(
        config.shape.seqlen, options.verify_rows.value_or(config.shape.seqlen), options.seed);
    verdict = Reference(config, inputs, one_rank, bar.callback(), queries).judge(run.outputs);
  }
  write_outputs(options, config.shape, run, plan.all_f64);

  const Report report = make_report(config, run, std::move(verdict));
  print_out(options.json ? report_json(report) : report_text(report));
  if (!report.verdict || report.verdict->pass()) return 0;
  print_error(report.verdict->complaint());
  return kWrongNumbers;
}

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

}  // namespace ringscope
