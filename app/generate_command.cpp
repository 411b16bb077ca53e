#include "app/generate_command.h"

#include "app/generate_output.h"
#include "app/process_command.h"
#include "app/terminal.h"

namespace ringscope {
namespace {}  // namespace

int generate_command(const GenerateRequest& request) {
  const int world_size = request.world_size.value_or(kDefaultWorldSize);
  const GenerateInputs inputs = read_inputs(request, world_size, {});
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);
  GenerateOutput output(request, inputs);
  output.end(generate_on_threads(inputs.checkpoint, {request.partition, world_size}, inputs.options,
                                 output.on_byte(), output.on_prefill()));
  return 0;
}

}  // namespace ringscope
