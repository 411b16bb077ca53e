// The backends by name: which of them this build and this machine have, and how to run on one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/names.h"
#include "core/processes/mpi/run_on_mpi.h"
#include "core/threads/run.h"

namespace ringscope {

enum class Backend { cpu, mpi, cuda, nccl };
constexpr auto names_of(Backend) { return list_of({"cpu", "mpi", "cuda", "nccl"}); }

// Replace this process by the program beside this one that has what `arguments` ask for: GPU kernels
// (`ringscope-gpu`), the learner's ring (`ringscope-my-ring`), or, in a portable build, the vectors of
// this processor (`ringscope-x86-64-v4`). Pass on the same `arguments`. Return if there is no such
// program, or if this is it. The learner's ring runs as backend cpu or mpi, and there `arguments` say so
// afterwards. Throw InputError for what it can't do.
void become_other_program(std::vector<std::string>& arguments);

// Return the command line that asked for the learner's ring, where this program runs it; otherwise nothing.
const std::vector<std::string>& my_ring_call();
// Return how a report calls a backend: "cpu", or "my_ring on cpu".
std::string reported(std::string_view backend);

// Return the backends that this build has, as in "cpu, cuda".
std::string built_backends();
// Throw InputError that lists them.
Backend parse_backend(std::string_view text);

// The number of ranks in one process where --world-size was not given.
inline constexpr int kDefaultWorldSize = 4;

// A kernel of the ladder, by default the best that takes the problem.
struct KernelName {
  int number = 0;
  char rung = 0;  // such as the b of 07b
};
// Return what "7" or "07b" names. Throws InputError.
KernelName parse_kernel(std::string_view text);

// The settings of --backend cuda and nccl.
struct CudaChoice {
  KernelName forward_kernel, backward_kernel;
  int gpus = 0;     // that share the ranks of --backend cuda; 0: one
  int stamped = 0;  // multiprocessors on which the forward kernel stamps what it does
  int ctas = 0;     // of a transfer over NCCL; 0: the default
};

using Runner = std::function<RingRun(const Problem&, RowSource&, const Progress&)>;

// Return whether the ranks' memory is a GPU's.
constexpr bool is_on_gpus(Backend backend) {
  return backend == Backend::cuda || backend == Backend::nccl;
}

// Return a function that runs all ranks in this process on `backend`, which this build must have.
// The function throws as run_ranks does, and RunError when this machine can't run it.
Runner runner_of(Backend backend, const CudaChoice& choice);
// Return a function that runs a single rank with the arithmetic of `backend`.
Runner one_rank_runner_of(Backend backend, const CudaChoice& choice);

using ProcessRunner =
    std::function<RingRun(MpiSession& session, const Problem& config, const ProcessInputs& inputs,
                          bool gather_outputs, const Progress&)>;

// Return a function that runs one rank per process as run_one_rank does. Only in MPI builds.
ProcessRunner process_runner_of(Backend backend, const CudaChoice& choice);

// Return a line for `info`: "yes: …" or "no: …".
std::string availability(Backend backend);
// Return what `info` prints about the CUDA kernels, or "" in a build without them.
std::string cuda_details();

}  // namespace ringscope
