// Reads a trace file as a stream: the text is read in chunks, and each event is taken as soon as it is
// complete. A file with a "ring" object is a recording of ours, whose fields are all required and
// checked; of any other trace the events are handed on as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/trace/chrome_trace.h"
#include "core/trace/trace_fields.h"

namespace ringscope {

// What a file holds; it fills while the file is read.
struct TraceFile {
  std::optional<Recording> recording;                          // set only for one of ours
  std::optional<std::int64_t> rank, world_size, base_time_ns;  // what any trace may give
  std::size_t slices = 0;                                      // of a recording of ours
  std::vector<RecordedMessage> messages;                       // of it, by flow
  std::uint64_t end = 0;                                       // byte offset of the text's end
  HowWhole how = HowWhole::whole;
};

inline constexpr std::size_t kTraceChunk = std::size_t{1} << 18;

// Read a trace in chunks of `chunk` bytes. Events of a trace that is not ours go to `other`. In a recording
// of ours no time may be below `earliest_ns`, and both ends of each flow must fit each other. The text may
// be hostile: InputError names the byte offset of whatever is wrong, or that the text ends before anything
// whole. Memory does not grow with what the text claims, only with what it holds.
void read_trace(TextSource& text, TraceFile& file,
                const std::function<void(const TraceFields&)>& other, std::int64_t earliest_ns,
                std::size_t chunk = kTraceChunk);

// Give each wait the step and the block of what its rank attends next in the pass, or none where nothing
// follows. Recordings of earlier versions, which don't say what travels, have those of the hop that was
// waited for, and are read so.
void settle_waits(Recording& recording);

}  // namespace ringscope
