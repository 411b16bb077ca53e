#include "cuda/nccl/run_on_nccl.h"

#include <cstdlib>

#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/nccl_engine.h"
#include "cuda/nccl/nccl_setup.h"
#include "cuda/nccl/process_seat.h"

namespace ringscope::cuda {
namespace {

RingRun run_here(MpiSession& session, const Problem& config, const ProcessInputs& inputs,
                 bool gather_outputs, const Progress& progress, const NcclOptions& options) {
  Lifeline& line = session.lifeline();
  const std::vector<NcclSeat> seats = {take_process_seat(line).seat};
  NcclSetup setup(config, seats, options);
  NcclWorld world(share_nccl_id(line), session.world_size(), seats,
                  {options.max_ctas, config.timeout_s}, failure_of(line));
  NcclEngine engine(world, setup.kernels(), setup.tuner(), setup.activities(),
                    options.register_buffers, RankLives::in_a_process);
  RingRun run = run_one_rank(session, config, inputs, gather_outputs, engine, progress);
  split_waiting_from_transfer(run.recording);
  return run;
}

}  // namespace

RingRun run_on_nccl_processes(MpiSession& session, const Problem& config,
                              const ProcessInputs& inputs, bool gather_outputs,
                              const Progress& progress, const NcclOptions& options) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // as in run_on_gpu.cpp
  try {
    return run_here(session, config, inputs, gather_outputs, progress, options);
  } catch (const RunFailure& failure) {
    Recording recording = failure.recording();
    split_waiting_from_transfer(recording);
    throw RunFailure(failure, std::move(recording));
  } catch (const RunError& error) {
    // The others may still be waiting for this rank.
    session.lifeline().fail(error.rank() >= 0 ? error : RunError(error.what(), session.rank()));
    throw;
  }
}

}  // namespace ringscope::cuda
