// Recordings as Chrome Trace Event JSON, in the dialect of PyTorch's profiler. One file therefore
// opens in Ringscope's viewer, in Perfetto and in Holistic Trace Analysis.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace/event.h"

namespace ringscope {

class AtomicFile;

// Write `recording` to `out`. The caller checks the stream's state.
void write_chrome_trace(std::ostream& out, const Recording& recording);

// Write `recording` to `path`, whole or not at all (beside it, then renamed). Throw InputError when
// the place cannot be written to, RunError when writing fails (disk full).
void write_chrome_trace(const std::string& path, const Recording& recording);

// Write it into an open file. The caller commits it, so several outputs can appear together.
void write_chrome_trace(AtomicFile& file, const Recording& recording);

// Write the events of `rank` alone, in the form that Holistic Trace Analysis reads (one file per
// rank). Transfers occur once more as kernels (category "kernel", name "ncclKernel_SendRecv",
// streams 1 and 2), because that tool knows communication by such names and computation by its
// stream, 0. Readers of ours pass over them.
void write_chrome_trace_of_rank(AtomicFile& file, const Recording& recording, int rank);

// Let all recordings that this process writes from now on say where they come from: `origin` returns
// what RunInfo::origin holds. Recordings that say it themselves keep theirs.
void set_trace_origin(std::vector<std::pair<std::string, std::string>> (*origin)());

// Return the name that the event has in the file: "attend kv 3", "recv dkv 0 (backward)", "MLP 2",
// "softmax 3" for that part of key tile 3.
std::string title_of(const TraceEvent& event);
std::string title_of(const ModelSpan& span);
std::string title_of(const KernelSpan& span);
// Return the name of a kernel's lane by its thread.
std::string lane_of_kernel(int tid);

// Read back what write_chrome_trace wrote. Events of other kinds are passed over. `text` may be
// hostile: see chrome_trace_reader.h, which reads without holding the text in memory. Of a text that
// is cut off, read what is whole and say so in `how`; without it, refuse such a text.
enum class HowWhole { whole, all_slices, part };
Recording parse_chrome_trace(std::string_view text, HowWhole* how = nullptr);

// Read a file likewise. Throw an InputError that names `path`.
Recording read_chrome_trace(const std::string& path, HowWhole* how = nullptr);

}  // namespace ringscope
