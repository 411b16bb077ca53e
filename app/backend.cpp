#include "app/backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/names.h"

#ifdef RINGSCOPE_HAS_CUDA
#include "cuda/base/device_info.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/ring/run_on_gpu.h"
#endif
#ifdef RINGSCOPE_HAS_MPI
#include "core/mpi/mpi_session.h"
#endif
#ifdef RINGSCOPE_HAS_NCCL
#include "cuda/nccl/details.h"
#include "cuda/nccl/run_on_nccl.h"
#ifdef RINGSCOPE_HAS_MPI
#include "cuda/nccl/run_on_nccl_processes.h"
#endif
#endif

namespace ringscope {
namespace {

bool is_built(Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return true;
    case Backend::mpi:
#ifdef RINGSCOPE_HAS_MPI
      return true;
#else
      return false;
#endif
    case Backend::cuda:
#ifdef RINGSCOPE_HAS_CUDA
      return true;
#else
      return false;
#endif
    case Backend::nccl:
#ifdef RINGSCOPE_HAS_NCCL
      return true;
#else
      return false;
#endif
  }
  return false;
}

std::string mpi_availability() {
#ifdef RINGSCOPE_HAS_MPI
  return "yes: a process a rank, " + mpi_version() +
         "; mpirun -np N ringscope run --backend mpi, or srun";
#else
  return "no: this build has no MPI; the Debian packages libopenmpi-dev and openmpi-bin and a "
         "build with RINGSCOPE_MPI=ON bring it";
#endif
}

#ifdef RINGSCOPE_HAS_CUDA

std::string cuda_availability() {
  const cuda::DeviceQuery query = cuda::query_device();
  if (!query.device) return "no: " + query.why_not;
  return "yes: virtual ranks on a GPU, or ranks on several (--gpus N), " +
         cuda::to_string(*query.device);
}

Runner cuda_runner(const CudaChoice& choice) {
  return
      [choice](const RingConfig& config, const AttentionInputs& inputs, const Progress& progress) {
        return cuda::run_on_gpu(config, inputs, progress,
                                {.kernels = {choice.forward_kernel, choice.backward_kernel},
                                 .gpus = std::max(choice.gpus, 1),
                                 .activity_records = choice.cupti});
      };
}

#else

std::string cuda_availability() {
  return "no: this build has no CUDA kernels; a CUDA toolkit (12.3 or later) and a build with "
         "RINGSCOPE_CUDA=ON bring them";
}

Runner cuda_runner(const CudaChoice&) { return run_on_threads; }  // parse_backend refused it

#endif

#ifdef RINGSCOPE_HAS_NCCL

std::string nccl_availability() { return cuda::nccl_availability(); }

cuda::NcclOptions nccl_options(const CudaChoice& choice) {
  return {.kernels = {choice.forward_kernel, choice.backward_kernel},
          .activity_records = choice.cupti};
}

Runner nccl_runner(const CudaChoice& choice) {
  return
      [choice](const RingConfig& config, const AttentionInputs& inputs, const Progress& progress) {
        return cuda::run_on_nccl(config, inputs, progress, nccl_options(choice));
      };
}

#else

std::string nccl_availability() {
  return "no: this build has no NCCL; nccl.h (2.19 or later), a CUDA toolkit and a build with "
         "RINGSCOPE_NCCL=ON bring it";
}

Runner nccl_runner(const CudaChoice&) { return run_on_threads; }  // parse_backend refused it

#endif

}  // namespace

std::string built_backends() {
  std::string names;
  for (const Backend backend : kAllBackends)
    if (is_built(backend)) names += (names.empty() ? "" : ", ") + std::string(name_of(backend));
  return names;
}

Backend parse_backend(std::string_view text) {
  for (const Backend backend : kAllBackends) {
    if (text != name_of(backend)) continue;
    if (is_built(backend)) return backend;
    throw InputError(
        fmt::format("'{}' is not in this build; accepted: {}; ringscope info says what it needs",
                    text, built_backends()));
  }
  throw InputError(fmt::format("'{}' given; accepted: {}", text, built_backends()));
}

Runner runner_of(Backend backend, const CudaChoice& choice) {
  if (backend == Backend::nccl) return nccl_runner(choice);
  return one_rank_runner_of(backend, choice);
}

Runner one_rank_runner_of(Backend backend, const CudaChoice& choice) {
  return is_on_gpus(backend) ? cuda_runner(choice) : Runner(run_on_threads);
}

#ifdef RINGSCOPE_HAS_MPI

ProcessRunner process_runner_of(Backend backend, const CudaChoice& choice) {
#ifdef RINGSCOPE_HAS_NCCL
  if (backend == Backend::nccl)
    return [choice](MpiSession& session, const RingConfig& config, const ProcessInputs& inputs,
                    bool gather_outputs, const Progress& progress) {
      return cuda::run_on_nccl_processes(session, config, inputs, gather_outputs, progress,
                                         nccl_options(choice));
    };
#endif
  (void)backend, (void)choice;  // parse_backend refused the others
  return run_on_mpi;
}

#endif

std::string availability(Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return "yes: a thread a rank";
    case Backend::cuda:
      return cuda_availability();
    case Backend::mpi:
      return mpi_availability();
    case Backend::nccl:
      return nccl_availability();
  }
  return "";
}

std::string cuda_details() {
#ifdef RINGSCOPE_HAS_CUDA
  return "cuda kernels\n" + cuda::kernel_table_text();
#else
  return "";
#endif
}

std::string link_details() {
#ifdef RINGSCOPE_HAS_NCCL
  return cuda::nccl_details();
#else
  return "";
#endif
}

}  // namespace ringscope
