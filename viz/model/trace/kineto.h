// Reads the dialect of PyTorch's profiler (Kineto): what its categories and the args of its NCCL
// kernels mean, and how the files of one job's ranks become one trace. It doesn't parse JSON.
//
// The kernel of an NCCL collective carries in its args "Collective name", "dtype", "In msg nelems",
// "Out msg nelems" and, for point-to-point, "Src Rank" or "Dst Rank", which is the peer's rank in
// the job. Where the profiler can't tell, because grouped sends and receives are one kernel, only
// the kernel's name says that it communicates.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/trace/trace_fields.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Return whether events of this category run on a device's stream, so that their lane is a stream.
bool is_device_category(std::string_view category);
// Return whether only this profiler uses the category.
bool is_profiler_category(std::string_view category);

// Set kind, peer and bytes of a device slice.
void describe_device_slice(std::string_view category, std::string_view name,
                           const TraceFields& fields, Slice& slice);

// A LoadedTrace holds one file's trace and what the file says about the job.
struct LoadedTrace {
  Trace trace;
  bool profiler = false;  // PyTorch's profiler wrote it; if `rank` is set, it has one RankTrack
  std::optional<std::int64_t> rank, world_size;
  std::optional<std::int64_t> base_time_ns;
};

// Return whether two files seem to come from different ranks of one job.
bool of_one_job(const LoadedTrace& a, const LoadedTrace& b);

// Merge the files (at least one) of a job onto one axis: ranks in order, times moved to the
// earliest base time. The k-th send of r to s is joined to the k-th receive of s from r if there
// are equally many of both. Throws InputError if base times are too far apart.
Trace merge_ranks(std::vector<LoadedTrace> files);

}  // namespace ringscope::viz
