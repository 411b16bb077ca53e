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
#include "cuda/kernels/row_kernels.h"

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

// How long a call took, and at how many clocks a second; 0 where that is unknown.
struct Timing {
  double seconds, hertz;
};

class GpuTimer {
 public:
  explicit GpuTimer(const DeviceInfo& device)
      : flush_(&meter_, 2 * static_cast<Index>(std::max<std::size_t>(device.l2_bytes, 1 << 20))),
        readings_(2 * static_cast<std::size_t>(device.multiprocessors)) {}

  // Time one call of `enqueue`. The memory is overwritten several times, which takes longer than the
  // host takes to enqueue the call, so that no launch is waited for. Multiprocessors read their clocks
  // before and after.
  Timing once(const std::function<void(cudaStream_t)>& enqueue) {
    const auto count = static_cast<int>(readings_.size() / 2);
    for (ClockReading& reading : readings_.span()) reading = {};
    for (int i = 0; i < 4; ++i)
      RINGSCOPE_CUDA(cudaMemsetAsync(flush_.data(), 0xff, static_cast<std::size_t>(flush_.bytes()),
                                     stream_.get()));
    launch_read_clocks(readings_.data(), count, stream_.get());
    begin_.record(stream_.get());
    enqueue(stream_.get());
    end_.record(stream_.get());
    launch_read_clocks(readings_.data() + count, count, stream_.get());
    stream_.synchronize();
    double clocks = 0, ns = 0;
    for (int m = 0; m < count; ++m) {
      const ClockReading &before = readings_[m], &after = readings_[m + count];
      if (before.ns == 0 || after.ns <= before.ns) continue;
      clocks += static_cast<double>(after.clocks - before.clocks);
      ns += static_cast<double>(after.ns - before.ns);
    }
    return {static_cast<double>(end_.ms_since(begin_)) * 1e-3, ns > 0 ? clocks / ns * 1e9 : 0};
  }

  // Return the medians of calls that alternate, so that a drift of clocks affects all alike. They go on
  // for about so many seconds.
  std::vector<Timing> medians(const std::vector<std::function<void(cudaStream_t)>>& all,
                              [[maybe_unused]] double seconds = 0.25) {
    int repeats = 1;
#ifndef RINGSCOPE_MODEL  // whose times mean nothing
    double total = 0;
    for (const auto& enqueue : all) {
      once(enqueue);  // warms up
      total += once(enqueue).seconds;
    }
    repeats = std::clamp(static_cast<int>(seconds / std::max(total, 1e-6)), 3, 25);
#endif
    std::vector<std::vector<Timing>> timings(all.size());
    for (int i = 0; i < repeats; ++i)
      for (std::size_t k = 0; k < all.size(); ++k) {
        const std::size_t at =
            i % 2 == 0 ? k : all.size() - 1 - k;  // nobody always follows the same
        timings[at].push_back(once(all[at]));
      }
    std::vector<Timing> result;
    for (std::vector<Timing>& t : timings) {
      std::ranges::nth_element(t, t.begin() + repeats / 2, {}, &Timing::seconds);
      result.push_back(t[repeats / 2]);
    }
    return result;
  }

  Timing median(const std::function<void(cudaStream_t)>& enqueue) { return medians({enqueue})[0]; }

 private:
  MemoryMeter meter_{device_memory()};
  Buffer<std::byte> flush_;
  PinnedBuffer<ClockReading> readings_;  // before, and after
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
