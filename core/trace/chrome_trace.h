// Recordings as Chrome Trace Event JSON, in the dialect of PyTorch's profiler. One file therefore
// opens in Ringscope's viewer, in Perfetto and in Holistic Trace Analysis.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

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

// Read back what write_chrome_trace wrote, except Recording::model. Events of other kinds are
// passed over. `text` may be hostile: InputError names the byte offset of whatever is wrong
// (syntax, types, ranges, nesting depth).
Recording parse_chrome_trace(std::string_view text);

// Read a file. Throw an InputError that names `path`.
Recording read_chrome_trace(const std::string& path);

}  // namespace ringscope
