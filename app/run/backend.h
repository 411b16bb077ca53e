// The backends by name: which of them this build and this machine have, and how to run on one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/mpi/run_on_mpi.h"
#include "core/run/run.h"

namespace ringscope {

enum class Backend { cpu, mpi, cuda, nccl };

inline constexpr Backend kAllBackends[] = {Backend::cpu, Backend::mpi, Backend::cuda,
                                           Backend::nccl};

constexpr std::string_view name_of(Backend backend) {
  constexpr std::string_view names[] = {"cpu", "mpi", "cuda", "nccl"};
  return names[static_cast<int>(backend)];
}

// Replaces this process by the program that has kernels for GPUs, `ringscope-gpu` beside this one,
// with the same `arguments`, where they ask for a GPU. Returns when they don't, when there is no
// such program, or when this is it.
void become_gpu_program(const std::vector<std::string>& arguments);

// "cpu, cuda": those that this build has.
std::string built_backends();
// Throws InputError that lists them.
Backend parse_backend(std::string_view text);

// The number of ranks where they are not processes and --world-size was not given.
inline constexpr int kDefaultWorldSize = 4;

// What --backend cuda and nccl can be told.
struct CudaChoice {
  int forward_kernel = 0;  // of the ladder, by number; 0: the best that takes the problem
  int backward_kernel = 0;
  int gpus = 0;        // of --backend cuda: ranks are dealt over so many; 0: one
  bool cupti = false;  // kernels' times from CUPTI's activity records instead of events
};

using Runner = std::function<RingRun(const RingConfig&, const AttentionInputs&, const Progress&)>;

// Whether its ranks' memory is a GPU's.
constexpr bool is_on_gpus(Backend backend) {
  return backend == Backend::cuda || backend == Backend::nccl;
}

// How to run on `backend`, which this build has, with all ranks in this process. The runner throws
// as run_ranks does, and RunError when this machine cannot.
Runner runner_of(Backend backend, const CudaChoice& choice);
// How to run on a single rank with the arithmetic of `backend`.
Runner one_rank_runner_of(Backend backend, const CudaChoice& choice);

using ProcessRunner =
    std::function<RingRun(MpiSession& session, const RingConfig& config,
                          const ProcessInputs& inputs, bool gather_outputs, const Progress&)>;

// How to run one rank a process, as run_one_rank (core/mpi/run_on_mpi.h). In builds with MPI.
ProcessRunner process_runner_of(Backend backend, const CudaChoice& choice);

// A line for `info`: "yes: …" or "no: …".
std::string availability(Backend backend);
// Tables and lines for `info` about the CUDA kernels; empty in a build without them.
std::string cuda_details();
// Lines for `info` about links between GPUs; empty in a build without NCCL.
std::string link_details();

}  // namespace ringscope
