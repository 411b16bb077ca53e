#include "app/run_command.h"

#include "app/inputs.h"
#include "app/memory.h"
#include "app/process_command.h"
#include "app/progress.h"
#include "app/run_frame.h"
#include "app/terminal.h"
#include "core/ring/run.h"

namespace ringscope {
int run_command(const RunOptions& options) {
  const InputPlan plan = plan_inputs(options);
  const RingConfig config =
      config_of(options, plan.shape, options.world_size.value_or(kDefaultWorldSize));
  check_problem(options, config, plan);
  require_memory(config, {.dout_given = options.dout.has_value(),
                          .verify = options.verify,
                          .ranks_elsewhere = is_on_gpus(options.backend)});

  const LoadedInputs loaded = load_inputs(options, plan);
  for (const std::string& remark : loaded.remarks) print_error(remark);
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);

  const Runner runner = runner_of(options.backend, options.cuda);
  const RingRun run = [&] {
    ProgressBar bar("attention");
    try {
      return runner(config, loaded.tensors, bar.callback());
    } catch (const RunFailure& failure) {
      throw with_trace_written(options, failure, failure.recording());
    }
  }();
  return conclude({options, config, plan, run, loaded.remarks.empty()}, loaded.tensors,
                  one_rank_runner_of(options.backend, options.cuda));
}

}  // namespace ringscope
