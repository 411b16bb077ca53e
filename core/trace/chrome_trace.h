// Recordings as Chrome Trace Event JSON, in the dialect that PyTorch's profiler writes, so that one
// file opens in Ringscope's viewer, in Perfetto and in Holistic Trace Analysis.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "core/trace/event.h"

namespace ringscope {

class AtomicFile;

// Writes `recording` to `out`; the caller checks the stream's state.
void write_chrome_trace(std::ostream& out, const Recording& recording);

// Writes `recording` to `path`, whole or not at all (beside it, then renamed). Throws InputError
// when the place cannot be written to, RunError when writing fails (disk full).
void write_chrome_trace(const std::string& path, const Recording& recording);

// The same into an open file, which the caller commits (so that several outputs can appear
// together).
void write_chrome_trace(AtomicFile& file, const Recording& recording);

// Reads back what write_chrome_trace wrote, but for Recording::model; events of other kinds are
// passed over. `text` is
// treated as hostile: InputError names the byte offset of whatever is wrong (syntax, types, ranges,
// nesting depth).
Recording parse_chrome_trace(std::string_view text);

// Reads a file. Throws InputError that names `path`.
Recording read_chrome_trace(const std::string& path);

}  // namespace ringscope
