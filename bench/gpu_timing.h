// Times kernels on a GPU with CUDA events around single launches. The L2 cache is emptied before
// each launch, and the result is the median of as many launches as fit a fixed time.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/base/buffer.h"
#include "cuda/base/check.h"
#include "cuda/base/device_info.h"
#include "cuda/base/device_memory.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

// Return the rows, or heads, of a problem that is timed. The model of a GPU, which rehearses the
// benchmarks, gets a few.
constexpr int timed_rows(int rows) {
#ifdef RINGSCOPE_MODEL
  return rows / 128;
#else
  return rows;
#endif
}
constexpr int timed_heads(int heads) {
#ifdef RINGSCOPE_MODEL
  return (heads + 63) / 64;
#else
  return heads;
#endif
}

class GpuTimer {
 public:
  explicit GpuTimer(const DeviceInfo& device)
      : flush_(&meter_, 2 * static_cast<Index>(std::max<std::size_t>(device.l2_bytes, 1 << 20))) {}

  // Return the seconds of one call of `enqueue`. The memory is overwritten several times, which
  // takes longer than the host takes to enqueue the call, so that no launch is waited for.
  double once(const std::function<void(cudaStream_t)>& enqueue) {
    for (int i = 0; i < 4; ++i)
      RINGSCOPE_CUDA(cudaMemsetAsync(flush_.data(), 0xff, static_cast<std::size_t>(flush_.bytes()),
                                     stream_.get()));
    begin_.record(stream_.get());
    enqueue(stream_.get());
    end_.record(stream_.get());
    end_.wait();
    return static_cast<double>(end_.ms_since(begin_)) * 1e-3;
  }

  // Return the medians of calls that alternate, so that a drift of clocks affects all alike.
  std::vector<double> medians(const std::vector<std::function<void(cudaStream_t)>>& all) {
    int repeats = 1;
#ifndef RINGSCOPE_MODEL  // whose times mean nothing
    constexpr double kSeconds = 0.25;
    double total = 0;
    for (const auto& enqueue : all) {
      once(enqueue);  // warms up
      total += once(enqueue);
    }
    repeats = std::clamp(static_cast<int>(kSeconds / std::max(total, 1e-6)), 3, 25);
#endif
    std::vector<std::vector<double>> seconds(all.size());
    for (int i = 0; i < repeats; ++i)
      for (std::size_t k = 0; k < all.size(); ++k) seconds[k].push_back(once(all[k]));
    std::vector<double> result;
    for (std::vector<double>& s : seconds) {
      std::nth_element(s.begin(), s.begin() + repeats / 2, s.end());
      result.push_back(s[repeats / 2]);
    }
    return result;
  }

  double median(const std::function<void(cudaStream_t)>& enqueue) { return medians({enqueue})[0]; }

 private:
  MemoryMeter meter_{device_memory()};
  Buffer<std::byte> flush_;
  Stream stream_;
  Event begin_, end_;
};

// Run a benchmark's body. Report an exception as the benchmark's error.
inline void guarded(benchmark::State& state, const std::function<void()>& body) try {
  body();
} catch (const std::exception& error) {
  static_cast<void>(cudaGetLastError());
  state.SkipWithError(error.what());
}

// Run what `add_benchmarks` registers on device 0. Without a device, print so and return 0, because
// there is nothing to measure.
inline int run_gpu_benchmarks(const std::function<void(const DeviceInfo&)>& add_benchmarks) {
  const DeviceQuery query = query_device();
  if (!query.device) {
    std::printf("skipped: %s\n", query.why_not.c_str());
    return 0;
  }
  benchmark::AddCustomContext("gpu", to_string(*query.device));
  add_benchmarks(*query.device);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

// The same, of a program without flags of its own.
inline int gpu_benchmark_main(int argc, char** argv,
                              const std::function<void(const DeviceInfo&)>& add_benchmarks) {
  benchmark::Initialize(&argc, argv);
  return benchmark::ReportUnrecognizedArguments(argc, argv) ? 2
                                                            : run_gpu_benchmarks(add_benchmarks);
}

// Return the tiles that a kernel has at head_dim.
inline std::vector<int> tiles_at(const Kernel& kernel, int head_dim) {
  std::vector<int> tiles;
  for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile)
    if (kernel.has_tile(head_dim, tile)) tiles.push_back(tile);
  return tiles;
}

// Register one benchmark of a kernel with one iteration, whose manual time is a median. It is
// skipped where the kernel does not take dtype, head_dim or the device.
template <class Body>
void add_benchmark(const std::string& name, const DeviceInfo& device, const Kernel& kernel,
                   DType dtype, int head_dim, Body body) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=, &kernel](benchmark::State& state) {
                                 const std::string why = refusal(kernel, device, dtype, head_dim);
                                 for (auto _ : state) {
                                   if (!why.empty()) {
                                     state.SkipWithError(("skipped: " + why).c_str());
                                     continue;
                                   }
                                   state.counters["kernel"] = kernel.number;
                                   guarded(state, [&] { body(state); });
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

// Return "05_tensor_cores", or "07b_ping_pong" of a rung.
inline std::string file_name(const Kernel& kernel) {
  return number_text(kernel.number, kernel.rung) + "_" + std::string(kernel.name);
}

inline std::string to_string(TileShape tile) {
  return std::to_string(tile.rows) + "x" + std::to_string(tile.keys);
}

// Return the keys of each row of a square problem: all, or those up to the row's own position.
inline std::vector<RowInterval> square_keys(int rows, bool causal) {
  std::vector<RowInterval> keys;
  for (int i = 0; i < rows; ++i) keys.push_back({0, causal ? i + 1 : rows});
  return keys;
}

}  // namespace ringscope::cuda
