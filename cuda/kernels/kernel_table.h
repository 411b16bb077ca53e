// The ladder as a table: what each kernel is, which problems it takes, how to launch it, and where
// it has passed its tests. Tests, benchmarks, `ringscope info` and cuda/README.md read it. The
// kernels' files also find here what their launch functions share.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/dtype.h"
#include "cuda/base/device_info.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// How wide rows of Q and K are, and those of V and out.
struct HeadDims {
  std::int64_t keys, values;

  constexpr HeadDims(std::int64_t both) : keys(both), values(both) {}
  constexpr HeadDims(std::int64_t of_keys, std::int64_t of_values)
      : keys(of_keys), values(of_values) {}
  constexpr HeadDims(const StepShape& shape) : keys(shape.head_dim), values(shape.value_dim()) {}

  constexpr bool operator==(const HeadDims&) const = default;
  constexpr int wider() const { return static_cast<int>(keys > values ? keys : values); }
};

// Return "128", or "192 (V 128)".
std::string to_string(HeadDims dims);

// What kernels on tensor cores take: square heads, and the latent heads of DeepSeek and Kimi.
inline constexpr HeadDims kHalfHeadDims[] = {64, 128, {192, 128}};

// Rows x keys that one block computes at a time; one compiled instance. Where an instance does not
// exist for all head_dims, those of keys that it exists for.
struct TileShape {
  int rows = 0;
  int keys = 0;
  int least_head_dim = 1, most_head_dim = 256;

  constexpr bool operator==(const TileShape&) const = default;
};

struct StampBuffer;

// The problems and devices that a kernel takes.
struct KernelLimits {
  bool half = false;    // bf16 and f16 with kHalfHeadDims; otherwise f32 with 1 to 256
  bool hopper = false;  // compute capability 9.0 alone; otherwise 8.0 or later
  bool rung = false;    // of 16 bits, bf16 with head_dim 128 alone
};
inline constexpr KernelLimits kRungLimits{.half = true, .hopper = true, .rung = true};

enum class KernelPass { forward, backward };

// Exactly one of the two launch functions is set.
struct Kernel {
  int number;             // as in the file's name
  char rung = 0;          // 'a', 'b', ... of a rung of single ideas
  std::string_view name;  // "online_softmax"
  std::string_view idea;  // one line
  KernelLimits limits = {};
  bool carries_state = true;         // false for 01
  bool repeats_bits = true;          // whether two launches give the same
  std::span<const TileShape> tiles;  // by preference: a device's tile is the first that fits it
  // Return the bytes of shared memory of a block of tiles[tile]. Null: every device that `limits`
  // name has enough.
  std::size_t (*shared_bytes)(HeadDims dims, int tile) = nullptr;
  void (*launch_forward)(const ForwardStep&, DType, int tile, cudaStream_t) = nullptr;
  // Launch the instance that stamps what it does (stamps.h); null: there is none.
  void (*launch_stamped)(const ForwardStep&, DType, const StampBuffer&, cudaStream_t) = nullptr;
  void (*launch_backward)(const BackwardStep&, DType, int tile, cudaStream_t) = nullptr;
  void (*launch_stamped_backward)(const BackwardStep&, DType, const StampBuffer&,
                                  cudaStream_t) = nullptr;

  KernelPass pass() const {
    return launch_forward != nullptr ? KernelPass::forward : KernelPass::backward;
  }
  bool has_tile(HeadDims dims, int tile) const {
    return tiles[tile].least_head_dim <= dims.keys && dims.keys <= tiles[tile].most_head_dim;
  }
  // Return the tile whose blocks fit a device that gives a block `device_bytes`, or -1.
  int tile_for(HeadDims dims, std::size_t device_bytes) const;
  // Enqueue one step with tiles[tile]. Throw InputError when the kernel does not take dtype, tile
  // or shape, or the tile does not fit the current device's shared memory (the driver checks the
  // architecture), and CudaError. With `stamps` the instance that stamps is launched.
  void launch(const ForwardStep& step, DType dtype, int tile, cudaStream_t stream,
              const StampBuffer* stamps = nullptr) const;
  void launch(const BackwardStep& step, DType dtype, int tile, cudaStream_t stream,
              const StampBuffer* stamps = nullptr) const;
};

// The entries, one per file of this folder.
extern const Kernel naive_kernel;                  // 01
extern const Kernel online_softmax_kernel;         // 02
extern const Kernel shared_tiles_kernel;           // 03
extern const Kernel register_tiles_kernel;         // 04
extern const Kernel tensor_cores_kernel;           // 05
extern const Kernel hopper_kernel;                 // 06
extern const Kernel hopper_overlap_kernel;         // 07
extern const Kernel backward_tiled_kernel;         // 08
extern const Kernel backward_tensor_cores_kernel;  // 09
extern const Kernel backward_one_pass_kernel;      // 11

// Rungs between those of the table: each adds one idea to the one before, so that a GPU shows what
// it is worth. 06 adds roles to 06a, 07 L2 to 07c. And variants, whose ideas 07 and 11 may get if a GPU
// shows that they pay. Nobody gets one unasked.
extern const Kernel hopper_without_roles;                     // 06a
extern const Kernel hopper_overlap_alone;                     // 07a
extern const Kernel hopper_ping_pong;                         // 07b
extern const Kernel hopper_persistent;                        // 07c
extern const Kernel backward_any_order;                       // 11a
extern const Kernel hopper_wide_tiles;                        // 07d
extern const Kernel backward_by_head, backward_warps_arrive;  // 11b, 11c
std::span<const Kernel> rungs();
// Return "07", or "07b" of a rung.
std::string number_text(int number, char rung);

// Return the kernels in order of the ladder: all, or those of one pass.
std::span<const Kernel> all_kernels();
std::span<const Kernel> kernels_of(KernelPass pass);

// Leave `count` multiprocessors (>= 0) to other kernels, such as those that move K and V between
// GPUs: from the next launch of this process on, 07 and 11 have at most one block at a time for
// each of the others, and at least one.
void leave_multiprocessors(int count);

// Return why a kernel with `limits` does not take the problem on a device of this architecture (80,
// 90, ...), or an empty text when it does. For a kernel, none of whose tiles may fit `device`, too.
std::string refusal(const KernelLimits& limits, int architecture, DType dtype, HeadDims dims);
std::string refusal(const Kernel& kernel, const DeviceInfo& device, DType dtype, HeadDims dims);

// Return the kernels that take the problem, as in "05 tensor_cores, 06 hopper", or "none".
std::string kernels_that_take(KernelPass pass, const DeviceInfo& device, DType dtype,
                              HeadDims dims);

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

// ---
// Launch functions choose one of their kernel's compiled instances with these.

// Call f(std::integral_constant<int, tile>), tile in [0, kTiles).
template <std::size_t kTiles, class F>
void visit_tile(int tile, F&& f) {
  [&]<int... index>(std::integer_sequence<int, index...>) {
    ((tile == index ? f(std::integral_constant<int, index>{}) : void()), ...);
  }
  (std::make_integer_sequence<int, kTiles>());
}

// Call f(std::integral_constant<int, N>) with the smallest N of 64, 128, 256 that holds head_dim,
// which is at most 256.
template <class F>
void visit_head_dim(int head_dim, F&& f) {
  if (head_dim <= 64)
    f(std::integral_constant<int, 64>{});
  else if (head_dim <= 128)
    f(std::integral_constant<int, 128>{});
  else
    f(std::integral_constant<int, 256>{});
}

// Call f(element, head_dim, value_dim) for a kernel of bf16 and f16: with an element of dtype, and
// with those of kHalfHeadDims as integral constants.
template <class F>
void visit_half_instance(DType dtype, HeadDims dims, F&& f) {
  const auto with_element = [&](auto element) {
    [&]<std::size_t... index>(std::index_sequence<index...>) {
      ((dims == kHalfHeadDims[index]
            ? f(element, std::integral_constant<int, kHalfHeadDims[index].keys>{},
                std::integral_constant<int, kHalfHeadDims[index].values>{})
            : void()),
       ...);
    }
    (std::make_index_sequence<std::size(kHalfHeadDims)>());
  };
  dtype == DType::bf16 ? with_element(bf16{}) : with_element(f16{});
}

// Return a rung of kernel `number`, which `launch` launches, forward or backward.
template <class Launch>
constexpr Kernel rung_of(int number, char letter, std::string_view name, std::string_view idea,
                         Launch launch, std::span<const TileShape> tiles,
                         bool repeats_bits = true) {
  Kernel rung{.number = number,
              .rung = letter,
              .name = name,
              .idea = idea,
              .limits = kRungLimits,
              .repeats_bits = repeats_bits,
              .tiles = tiles};
  if constexpr (std::is_same_v<Launch, decltype(rung.launch_forward)>)
    rung.launch_forward = launch;
  else
    rung.launch_backward = launch;
  return rung;
}

int device_attribute(cudaDeviceAttr which);  // of the current device

// Return how many multiprocessors of the current device leave_multiprocessors leaves to kernels.
int multiprocessors();

}  // namespace ringscope::cuda
