// The ladder as a table: what each kernel is, which problems it takes, how to launch it, and where
// it has passed its tests. Tests, benchmarks, `ringscope info` and cuda/README.md read it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// Rows x keys that one block computes at a time; one compiled instance.
struct TileShape {
  int rows = 0;
  int keys = 0;

  constexpr bool operator==(const TileShape&) const = default;
};

// The problems and devices that a kernel takes.
struct KernelLimits {
  int min_architecture = 0;      // compute capability x 10: 80, 90; 0: any
  int exact_architecture = 0;    // 90: only that one (sm_90a); 0: any from min on
  bool f32 = false;              // storage types
  bool half = false;             // bf16 and f16
  int max_head_dim = 256;        // every head_dim up to it, unless only_64_and_128
  bool only_64_and_128 = false;  // head_dim
};

struct ForwardKernel {
  int number;             // 1..7, as in the file's name
  std::string_view name;  // "online_softmax"
  std::string_view idea;  // one line
  KernelLimits limits;
  bool carries_state;  // false for 01
  std::span<const TileShape> tiles;
  // Enqueues one step with tiles[tile]. Throws CudaError.
  void (*launch)(const ForwardStep&, DType, int tile, cudaStream_t);
};

struct BackwardKernel {
  int number;  // 8..10
  std::string_view name;
  std::string_view idea;
  KernelLimits limits;
  std::span<const TileShape> tiles;
  void (*launch)(const BackwardStep&, DType, int tile, cudaStream_t);
};

// Return the kernels in order of the ladder.
std::span<const ForwardKernel> forward_kernels();
std::span<const BackwardKernel> backward_kernels();

// Return why a kernel with `limits` does not take the problem on a device of this architecture (80,
// 90, ...), or an empty text when it does.
std::string refusal(const KernelLimits& limits, int architecture, DType dtype, int head_dim);

enum class KernelPass { forward, backward };

// Return the kernels that take the problem, as in "05 tensor_cores, 06 hopper", or "none".
std::string kernels_that_take(KernelPass pass, int architecture, DType dtype, int head_dim);

// A run of `./ringscope gpu-check` in which every test of the kernel passed.
struct VerifiedRun {
  int number;
  std::string_view gpu, driver, commit, date;
};

// Return the newest run of each kernel. Made from bench/results when the build is configured.
std::span<const VerifiedRun> verified_runs();

// Return "NVIDIA H200, driver 580.65, commit 1234567, 2026-01-31", or "not run on a GPU".
std::string verified(int number);

// Return the table for a terminal, with two spaces before each line, and in the form of
// cuda/README.md. Both end with a newline.
std::string kernel_table_text();
std::string kernel_table_markdown();

}  // namespace ringscope::cuda
