#include "app/backend.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/names.h"

#ifdef RINGSCOPE_HAS_CUDA
#include "cuda/base/device_info.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/ring/run_on_gpu.h"
#endif

namespace ringscope {
namespace {

#ifdef RINGSCOPE_HAS_CUDA

bool is_built(Backend backend) { return backend == Backend::cpu || backend == Backend::cuda; }

std::string cuda_availability() {
  const cuda::DeviceQuery query = cuda::query_device();
  if (!query.device) return "no: " + query.why_not;
  return "yes: virtual ranks on one GPU, " + cuda::to_string(*query.device);
}

Runner cuda_runner(const CudaChoice& choice) {
  return
      [choice](const RingConfig& config, const AttentionInputs& inputs, const Progress& progress) {
        return cuda::run_on_gpu(config, inputs, progress,
                                {.kernels = {choice.forward_kernel, choice.backward_kernel},
                                 .activity_records = choice.cupti});
      };
}

#else

bool is_built(Backend backend) { return backend == Backend::cpu; }

std::string cuda_availability() {
  return "no: this build has no CUDA kernels; a CUDA toolkit (12.3 or later) and a build with "
         "RINGSCOPE_CUDA=ON bring them";
}

Runner cuda_runner(const CudaChoice&) { return run_on_threads; }  // parse_backend refused it

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
        fmt::format("'{}' is not in this build; accepted: {}", text, built_backends()));
  }
  throw InputError(fmt::format("'{}' given; accepted: {}", text, built_backends()));
}

Runner runner_of(Backend backend, const CudaChoice& choice) {
  return backend == Backend::cuda ? cuda_runner(choice) : Runner(run_on_threads);
}

std::string availability(Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return "yes: a thread a rank";
    case Backend::cuda:
      return cuda_availability();
    case Backend::mpi:
      return "no: this version has no MPI communicator";
    case Backend::nccl:
      return "no: this version has no NCCL communicator";
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

}  // namespace ringscope
