// One trace file from its text: finds out whether it is one of our recordings, and hands its events
// to RingEvents or ForeignEvents.
#pragma once

#include <cstdint>
#include <string>

#include "viz/model/kineto.h"
#include "viz/model/trace_json.h"

namespace ringscope::viz {

// A text that can be read again from its start.
class TraceText : public JsonSource {
 public:
  virtual void rewind() = 0;
  virtual std::uint64_t size() const = 0;
  // Told now and then how many slices there are.
  virtual void on_slices(std::uint64_t) {}
};

inline constexpr std::size_t kTraceChunk = std::size_t{1} << 18;

// Throws InputError without the file's name.
LoadedTrace read_trace(TraceText& text, std::size_t chunk = kTraceChunk);

}  // namespace ringscope::viz
