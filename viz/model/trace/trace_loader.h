// Trace files into Trace. Reads Chrome Trace Event JSON: our own recordings with every field
// checked, and any other (an object with "traceEvents" or a bare array; X and B/E slices, metadata,
// s/t/f flows; PyTorch's profiler with its NCCL kernels) as a plain timeline. A file is treated as
// hostile: InputError names it, and the byte offset or field of what is wrong. One pass of a SAX
// parser over chunks of the file: memory is in proportion to the slices, not to the text.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// How far loading is; may be read, and cancelled, from another thread.
struct LoadProgress {
  std::atomic<std::int64_t> bytes_done{0};
  std::atomic<std::int64_t> bytes_total{0};
  std::atomic<std::int64_t> slices{0};
  std::atomic<bool> cancel{false};  // the loader then throws InputError soon
};

// Reads one file. Throws InputError, std::bad_alloc.
Trace load_trace(const std::string& path, LoadProgress* progress = nullptr);

// The same of a text in memory; `path` names it in messages.
Trace parse_trace(std::string_view text, const std::string& path = "trace");

// Reads several files. Profiler traces of different ranks of one job (distributedInfo with one
// world_size and distinct ranks) become one trace with all ranks on one axis; every other file is a
// trace of its own, in the order given. Throws InputError, also for recordings with different
// world_size, which can't be compared.
std::vector<Trace> load_traces(const std::vector<std::string>& paths,
                               LoadProgress* progress = nullptr);

}  // namespace ringscope::viz
