// Loads traces of a million slices into the viewer. Reports slices per second and the peak memory
// of the process. The files are written anew in the folder for temporary files.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/tools/foreign/trace_files.h"
#include "core/trace/chrome_trace.h"

namespace ringscope::viz {
namespace {

constexpr std::int64_t kSlices = 1'000'000;

// Write a recording of 8 ranks that compute, send, receive and wait in every step.
void write_recording(const std::string& path) {
  constexpr int kRanks = 8;
  Recording recording;
  recording.info.partition = "zigzag";
  recording.info.mask = "causal";
  recording.info.shape = {1, 8, 8, 65536, 128};
  recording.info.world_size = kRanks;
  recording.info.base_time_ns = 1'700'000'000'123'456'789;
  recording.events.resize(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<TraceEvent>& events = recording.events[rank];
    events.reserve(kSlices / kRanks);
    const int next = (rank + 1) % kRanks, previous = (rank + kRanks - 1) % kRanks;
    for (std::int64_t i = 0; i < kSlices / kRanks / 4; ++i) {
      TraceEvent event{.step = static_cast<std::int32_t>(i % kRanks)};
      event.kv_owner = (rank + kRanks - event.step) % kRanks;
      event.begin_ns = 4'507'199 * i + 131 * rank;
      event.end_ns = event.begin_ns + 4'123'456;
      event.pairs = 33'554'432;
      event.flops = 34'359'738'368;
      event.tiles_full = 10'880;
      event.tiles_partial = 128;
      event.tiles_skipped = 10'752;
      event.cpu_ns = 3'998'877;
      events.push_back(event);
      TraceEvent message{.lane = Lane::send, .step = event.step, .kv_owner = event.kv_owner};
      message.begin_ns = event.begin_ns + 1234;
      message.end_ns = event.begin_ns + 900'123;
      message.bytes = 16'777'216;
      message.src = rank;
      message.dst = next;
      message.flow = 1 + kRanks * i + rank;
      events.push_back(message);
      message.lane = Lane::recv;
      message.kv_owner = (event.kv_owner + kRanks - 1) % kRanks;
      message.src = previous;
      message.dst = rank;
      message.flow = 1 + kRanks * i + previous;
      events.push_back(message);
      TraceEvent wait{.lane = Lane::wait, .step = event.step, .kv_owner = event.kv_owner};
      wait.begin_ns = event.end_ns;
      wait.end_ns = event.end_ns + 300'000;
      wait.waiting_for = previous;
      events.push_back(wait);
    }
  }
  write_chrome_trace(path, recording);
}

// Write a trace like that of PyTorch's profiler, with kernels and the operations that launch them.
void write_profile(const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << R"({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
"baseTimeNanoseconds": 1700000000123456789, "traceEvents": [)";
  for (std::int64_t i = 0; i < kSlices; i += 2) {
    const double ts = 12.5 * static_cast<double>(i);
    out << fmt::format(
        R"({}{{"ph": "X", "cat": "kernel", "name": "kernel_{}<float>", "pid": 0, "tid": 7, "ts": {:.3f},
"dur": 20.250, "args": {{"External id": {}, "queued": 0, "device": 0, "context": 1, "stream": 7,
"correlation": {}, "grid": [132, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 12}}}},
{{"ph": "X", "cat": "cpu_op", "name": "aten::op_{}", "pid": 4242, "tid": 4242, "ts": {:.3f},
"dur": 9.000, "args": {{"External id": {}, "Record function id": 0, "Ev Idx": {}}}}})",
        i == 0 ? "\n" : ",\n", i % 997, ts + 5, i, i, i % 499, ts, i, i);
  }
  out << "\n]}\n";
}

// Return the value of `key` in /proc/self/status, in MB.
double status_mb(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

void load(benchmark::State& state, void (*write)(const std::string&)) {
  const std::string path = std::filesystem::temp_directory_path() / "ringscope_load_bench.json";
  write(path);
  malloc_trim(0);
  // Reset the highest resident size.
  std::ofstream("/proc/self/clear_refs") << 5;
  std::int64_t slices = 0;
  for (auto _ : state) {
    Trace trace = load_trace(path);
    slices += static_cast<std::int64_t>(trace.slice_count);
    benchmark::DoNotOptimize(trace.end_ns);
  }
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  state.counters["file_MB"] = bytes / 1e6;
  state.counters["slices_per_s"] =
      benchmark::Counter(static_cast<double>(slices), benchmark::Counter::kIsRate);
  state.counters["peak_resident_MB"] = status_mb("VmHWM");
  std::filesystem::remove(path);
}

BENCHMARK_CAPTURE(load, recording, write_recording)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(load, profile, write_profile)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ringscope::viz

BENCHMARK_MAIN();
