#include "app/run_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "app/for_flag.h"
#include "app/inputs.h"
#include "app/memory.h"
#include "app/outputs.h"
#include "app/progress.h"
#include "app/report.h"
#include "app/terminal.h"
#include "app/verify.h"
#include "core/ring/run.h"

namespace ringscope {
namespace {

RingConfig config_of(const RunOptions& options, const AttentionShape& shape) {
  RingConfig config;
  config.shape = shape;
  config.dtype = options.dtype;
  config.softmax_scale = options.softmax_scale;
  config.mask = options.mask;
  config.partition = options.partition;
  config.world_size = options.world_size;
  config.scheme = options.scheme;
  config.backward = options.backward;
  return config;
}

// Everything that can be refused without having read the values.
void check_before_reading(const RunOptions& options, const RingConfig& config,
                          const InputPlan& plan) {
  for_flag("--mask '" + config.mask.name() + "':",
           [&] { config.mask.for_seqlen(config.shape.seqlen); });
  check_output_places(options, plan.files);
  require_memory(config, {.dout_given = options.dout.has_value(),
                          .verify = options.verify,
                          .ranks_elsewhere = options.backend == Backend::cuda});
}

// NaN and infinities that came of finite inputs would otherwise go unseen.
void warn_of_overflow(const RingRun& run, DType dtype) {
  const auto non_finite = [](const std::vector<float>& values) {
    return std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  };
  const AttentionOutputs& outputs = run.outputs;
  // Every query attends at least itself, so that only a score can keep lse from being finite.
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

int run_command(const RunOptions& options) {
  const InputPlan plan = plan_inputs(options);
  const RingConfig config = config_of(options, plan.shape);
  check_before_reading(options, config, plan);

  const LoadedInputs loaded = load_inputs(options, plan);
  for (const std::string& remark : loaded.remarks) print_error(remark);
  const AttentionInputs& inputs = loaded.tensors;

  const Runner runner = runner_of(options.backend, options.cuda);
  const RingRun run = [&] {
    ProgressBar bar("attention");
    return runner(config, inputs, bar.callback());
  }();
  if (loaded.remarks.empty()) warn_of_overflow(run, config.dtype);
  std::optional<Verdict> verdict;
  if (options.verify) {
    ProgressBar bar("reference");
    verdict = Reference(config, inputs, runner, bar.callback()).judge(run.outputs);
  }
  write_outputs(options, config.shape, run, plan.all_f64);

  const Report report = make_report(config, run, std::move(verdict));
  print_out(options.json ? report_json(report) : report_text(report));
  if (!report.verdict || report.verdict->pass()) return 0;
  print_error(report.verdict->complaint());
  return 1;
}

}  // namespace ringscope
