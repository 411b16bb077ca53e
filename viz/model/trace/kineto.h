// The dialect of PyTorch's profiler (Kineto): what its categories and its NCCL kernels' args mean,
// and how the files of one job's ranks become one trace.
//
// A kernel that NCCL launched for a collective carries in its args "Collective name", "dtype", "In
// msg nelems", "Out msg nelems" and, for point-to-point, "Src Rank" or "Dst Rank", the peer's rank
// in the job. Where the profiler could not tell (grouped sends and receives are one kernel), only
// the kernel's name says that it communicates.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "viz/model/trace/trace.h"
#include "viz/model/trace/trace_fields.h"

namespace ringscope::viz {

// Whether events of this category run on a device's stream, and so does their lane.
bool is_device_category(std::string_view category);
// Whether it is one that only this profiler uses.
bool is_profiler_category(std::string_view category);

// Sets kind, peer and bytes of a device slice.
void describe_device_slice(std::string_view category, std::string_view name,
                           const EventFields& fields, Slice& slice);

// One file's trace, and what it says of the job.
struct LoadedTrace {
  Trace trace;
  bool profiler = false;  // PyTorch's; with `rank` it is one RankTrack
  std::optional<std::int64_t> rank, world_size;
  std::optional<std::int64_t> base_time_ns;
};

// Whether two files are of different ranks of one job, as far as one can tell.
bool of_one_job(const LoadedTrace& a, const LoadedTrace& b);

// All ranks of a job on one axis: ranks in order, times moved to the earliest base time, the k-th
// send of r to s joined to the k-th receive of s from r where they are equally many. At least one
// file. Throws InputError for base times too far apart.
Trace merge_ranks(std::vector<LoadedTrace> files);

}  // namespace ringscope::viz
