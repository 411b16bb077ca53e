#include "app/run/backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>

#include "app/command_line/flags.h"

#include "core/base/error.h"
#include "core/base/text.h"

#ifdef RINGSCOPE_HAS_CUDA
#include "cuda/base/device_info.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/ring/run_on_gpu.h"
#endif
#ifdef RINGSCOPE_HAS_MPI
#include "core/processes/mpi/mpi_session.h"
#endif
#ifdef RINGSCOPE_HAS_NCCL
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"
#endif

namespace ringscope {
namespace {

bool is_built(Backend backend) {
#ifdef RINGSCOPE_HAS_MPI
  if (backend == Backend::mpi) return true;
#endif
#ifdef RINGSCOPE_HAS_CUDA
  if (backend == Backend::cuda) return true;
#endif
#ifdef RINGSCOPE_HAS_NCCL
  if (backend == Backend::nccl) return true;
#endif
  return backend == Backend::cpu;
}

std::string mpi_availability() {
#ifdef RINGSCOPE_HAS_MPI
  return "yes: a process per rank, " + mpi_version() +
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

cuda::KernelWish wish_of(const CudaChoice& choice) {
  return {choice.forward_kernel.number, choice.backward_kernel.number, choice.stamped,
          choice.forward_kernel.rung, choice.backward_kernel.rung};
}

#else

namespace fs = std::filesystem;

// Find nvcc where CMake looks for it too.
std::optional<fs::path> cuda_compiler() {
  std::vector<fs::path> folders;
  for (const char* const home : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const folder = std::getenv(home)) folders.push_back(fs::path(folder) / "bin");
  const char* const path = std::getenv("PATH");
  const std::string_view all = path == nullptr ? "" : path;
  for_each_part(all, ':', [&](std::string_view folder) { folders.emplace_back(folder); });
  folders.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders)
    if (::access((folder / "nvcc").c_str(), X_OK) == 0) return folder / "nvcc";
  return std::nullopt;
}

std::string cuda_availability() {
  const std::string begin = "no: this build has no CUDA kernels; ";
  if (const std::optional<fs::path> nvcc = cuda_compiler())
    return begin + "'./ringscope run --backend cuda' in the source folder builds them, with " +
           nvcc->string();
  return begin +
         "they take a CUDA toolkit (12.3 or later), and no nvcc is on PATH, under CUDA_HOME "
         "or in /usr/local/cuda";
}

#endif

std::vector<std::string> call_of_my_ring;

#ifdef RINGSCOPE_HAS_NCCL

std::string nccl_availability() { return cuda::nccl_availability(); }

cuda::NcclOptions nccl_options(const CudaChoice& choice) {
  cuda::NcclOptions options{.kernels = wish_of(choice)};
  if (choice.ctas > 0) options.max_ctas = choice.ctas;
  return options;
}

#else

std::string nccl_availability() {
  return "no: this build has no NCCL; it takes CUDA kernels (see above) and nccl.h (2.17 or later)";
}

#endif

}  // namespace

void become_other_program(std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  const std::string backend = value_before_reading("--backend", arguments);
#ifdef RINGSCOPE_HAS_MY_RING
  if (backend != "my_ring") return;
  const bool trains = arguments.front() == "train";
  const std::string mask = value_before_reading("--mask", arguments);
  if (mask != "causal" && !(trains && mask.empty()))
    contradiction("--mask",
                  mask.empty() ? "not given with --backend my_ring"
                               : fmt::format("'{}' given with --backend my_ring", mask),
                  "causal");
  for (const char* flag : {"--scheme", "--hops", "--scale"})
    if (const std::string value = value_before_reading(flag, arguments); !value.empty())
      contradiction(flag, fmt::format("'{}' given with --backend my_ring", value),
                    "a ring that sends all, and the usual scale");
  call_of_my_ring = arguments;
  std::string real(name_of(Backend::cpu));
#ifdef RINGSCOPE_HAS_MPI
  if (launched_by_mpi()) real = name_of(Backend::mpi);
#endif
  for (std::size_t i = 1; i < arguments.size(); ++i)
    if (arguments[i] == "--backend=" + backend)
      arguments[i] = "--backend=" + real;
    else if (arguments[i] == backend && arguments[i - 1] == "--backend")
      arguments[i] = real;
  arguments.insert(arguments.end(), {"--hops", "all"});
#else
  std::vector<std::string> candidates;
#ifndef RINGSCOPE_HAS_CUDA
  if (backend == name_of(Backend::cuda) || backend == name_of(Backend::nccl) ||
      arguments.front() == "info")
    candidates.push_back("ringscope-gpu");
#endif
  if (backend == "my_ring") candidates.push_back("ringscope-my-ring");
#ifdef RINGSCOPE_HAS_LEVELS
  if (__builtin_cpu_supports("x86-64-v4")) candidates.push_back("ringscope-x86-64-v4");
  if (__builtin_cpu_supports("x86-64-v3")) candidates.push_back("ringscope-x86-64-v3");
#endif
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  for (const std::string& candidate : candidates) {
    const std::string program = self.parent_path() / candidate;
    std::vector<char*> words = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments)
      words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    ::execv(program.c_str(), words.data());  // returns when there is none
  }
#endif
}

const std::vector<std::string>& my_ring_call() { return call_of_my_ring; }

std::string reported(std::string_view backend) {
  return (my_ring_call().empty() ? "" : "my_ring on ") + std::string(backend);
}

std::string built_backends() {
  std::vector<Backend> built;
  std::ranges::copy_if(kAllOf<Backend>, std::back_inserter(built), is_built);
  return names_of_all(built);
}

Backend parse_backend(std::string_view text) {
  for (const Backend backend : kAllOf<Backend>) {
    if (text != name_of(backend)) continue;
    if (is_built(backend)) return backend;
    throw InputError(
        fmt::format("'{}' is not in this build; accepted: {}; ringscope info says what it needs",
                    text, built_backends()));
  }
  throw InputError(
      fmt::format("'{}' given; accepted: {}{}", text, built_backends(),
                  text == "my_ring" ? "; './ringscope' in the source folder builds my_ring" : ""));
}

KernelName parse_kernel(std::string_view text) {
  KernelName name;
  const char* const end = text.data() + text.size();
  const auto [letter, error] = std::from_chars(text.data(), end, name.number);
  if (letter + 1 == end && 'a' <= *letter && *letter <= 'z') name.rung = *letter;
  if (error != std::errc() || (letter != end && name.rung == 0) || name.number < 1 ||
      name.number > 99)
    throw InputError(
        fmt::format("'{}' given; accepted: 1 to 99, with a letter for a rung, as 07b", text));
  return name;
}

Runner runner_of(Backend backend, const CudaChoice& choice) {
#ifdef RINGSCOPE_HAS_NCCL
  if (backend == Backend::nccl)
    return [=](const Problem& config, RowSource& rows, const Progress& progress) {
      return cuda::run_on_nccl(config, rows, progress, nccl_options(choice));
    };
#endif
  return one_rank_runner_of(backend, choice);
}

Runner one_rank_runner_of(Backend backend, const CudaChoice& choice) {
#ifdef RINGSCOPE_HAS_CUDA
  if (is_on_gpus(backend))
    return [=](const Problem& config, RowSource& rows, const Progress& progress) {
      return cuda::run_on_gpu(config, rows, progress,
                              {.kernels = wish_of(choice), .gpus = std::max(choice.gpus, 1)});
    };
#endif
  (void)backend, (void)choice;  // parse_backend refused the others
  return [](const Problem& config, RowSource& rows, const Progress& progress) {
    return run_on_threads(config, rows, progress);
  };
}

#ifdef RINGSCOPE_HAS_MPI

ProcessRunner process_runner_of(Backend backend, const CudaChoice& choice) {
#ifdef RINGSCOPE_HAS_NCCL
  if (backend == Backend::nccl)
    return [choice](MpiSession& session, const Problem& config, const ProcessInputs& inputs,
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
  if (backend == Backend::cuda) return cuda_availability();
  if (backend == Backend::mpi) return mpi_availability();
  if (backend == Backend::nccl) return nccl_availability();
  return "yes: a thread per rank";
}

std::string cuda_details() {
#ifdef RINGSCOPE_HAS_CUDA
  return "cuda kernels\n" + cuda::kernel_table_text();
#else
  return "";
#endif
}

}  // namespace ringscope
