// Reads a trace file as a stream: the text is read in chunks, and each event goes to a TraceSink as
// soon as it is complete. A file with a "ring" object is a recording of ours, whose fields are all
// required and checked; of any other trace the sink gets the events as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/trace_fields.h"

namespace ringscope {

// One end of a flow: an event that binds to the send or recv slice around it.
struct FlowEvent {
  std::int64_t id = 0;
  std::int64_t ts = 0;   // ns
  std::uint64_t at = 0;  // byte offset of the id
  std::int32_t rank = 0;
  bool finish = false;
};

// Receives the events of one file. Ranks and steps are below the run's world_size. `fields` are
// those of the event at hand.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // A recording of ours begins. This is called before its events.
  virtual void begin(const RunInfo& run, const std::vector<std::int64_t>& dropped) = 0;
  virtual void slice(int rank, const TraceEvent& event, const TraceFields& fields) = 0;
  virtual void span(int rank, const ModelSpan& span, const TraceFields& fields) = 0;
  virtual void span(int rank, const KernelSpan& span, const TraceFields& fields) = 0;
  virtual void sample(const SoftmaxSample& sample) = 0;
  virtual void flow(const FlowEvent&) {}
  // An event of a trace that is not ours.
  virtual void other(const TraceFields&) {}
};

// What stands beside the events.
struct TraceHead {
  std::optional<RunInfo> run;                                  // set only for a recording of ours
  std::vector<StoryStep> story;                                // of a recording of ours
  std::optional<std::int64_t> rank, world_size, base_time_ns;  // what any trace may give
  std::uint64_t end = 0;                                       // byte offset of the text's end
  bool cut_short = false;  // the text ends in the middle; what is whole of it was read
};

inline constexpr std::size_t kTraceChunk = std::size_t{1} << 18;

// Read a trace in chunks of `chunk` bytes. In a recording of ours no time may be below `earliest_ns`.
// The text may be hostile: InputError names the byte offset of whatever is wrong (syntax, types,
// ranges, nesting depth), or that the text ends before anything whole. Memory does not grow with what the text claims, only with what it holds.
TraceHead read_trace(TextSource& text, TraceSink& sink, std::int64_t earliest_ns,
                     std::size_t chunk = kTraceChunk);

}  // namespace ringscope
