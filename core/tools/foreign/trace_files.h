// Loads trace files, Chrome Trace Event JSON: our own recordings with every field checked, and any other trace
// (X and B/E slices, metadata; PyTorch's profiler with its NCCL kernels) as a plain timeline. A file is
// treated as hostile: InputError names the file and the byte offset or field that is wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/chrome_trace_reader.h"
#include "core/trace/trace.h"

namespace ringscope {

// LoadProgress says how far loading is. Another thread may read it and cancel the loading.
struct LoadProgress {
  std::atomic<std::int64_t> bytes_done{0};
  std::atomic<std::int64_t> bytes_total{0};
  std::atomic<std::int64_t> slices{0};
  std::atomic<bool> cancel{false};  // if set, the loader throws InputError soon
};

// Load one file. Throws InputError, std::bad_alloc.
Trace load_trace(const std::string& path, LoadProgress* progress = nullptr);

// Load a text in memory, which error messages call `path`, in chunks of `chunk` bytes. Throws like
// load_trace.
Trace parse_trace(std::string_view text, const std::string& path = "trace",
                  std::size_t chunk = kTraceChunk);

// That are compared: Dear ImGui's tables have 64 columns, of which one has names.
inline constexpr std::size_t kMostRecordings = 63;

// Load several files. Profiler traces of different ranks of one job (distributedInfo with one
// world_size and distinct ranks) become one trace with all ranks on one axis, and so do recordings of
// one run's ranks (`run --trace DIR/`). Every other file is a trace of its own, in the order given. Throws InputError, also for more than
// kMostRecordings, and for those that differ in world_size, because they can't be compared.
std::vector<Trace> load_traces(const std::vector<std::string>& paths,
                               LoadProgress* progress = nullptr);

// Show another layer of each trace, by its name ("1:2": layer 2 of iteration 1). Throw InputError for a
// trace that does not have it.
void choose_layer(std::vector<Trace>& traces, std::string_view name);

}  // namespace ringscope
