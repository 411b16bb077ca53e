#include "app/run_command.h"

#include <string>
#include <utility>

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
  require_memory(config, {.dout_given = options.dout.has_value(), .verify = options.verify});
}

}  // namespace

int run_command(const RunOptions& options) {
  const InputPlan plan = plan_inputs(options);
  const RingConfig config = config_of(options, plan.shape);
  check_before_reading(options, config, plan);

  const LoadedInputs loaded = load_inputs(options, plan);
  for (const std::string& remark : loaded.remarks) print_error(remark);
  const AttentionInputs& inputs = loaded.tensors;

  const RingRun run = [&] {
    ProgressBar bar("attention");
    return run_on_threads(config, inputs, bar.callback());
  }();
  std::optional<Verdict> verdict;
  if (options.verify) {
    ProgressBar bar("reference");
    verdict = Reference(config, inputs, bar.callback()).judge(run.outputs);
  }
  write_outputs(options, config.shape, run, plan.all_f64);

  const Report report = make_report(config, run, std::move(verdict));
  print_out(options.json ? report_json(report) : report_text(report));
  if (!report.verdict || report.verdict->pass()) return 0;
  print_error(report.verdict->complaint());
  return 1;
}

}  // namespace ringscope
