// One trace file from its text: finds out whether it is one of our recordings, and hands its events
// to RingEvents or ForeignEvents.
#pragma once

#include <cstdint>
#include <string_view>

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

// One in memory, which must outlive it.
class MemoryText : public TraceText {
 public:
  explicit MemoryText(std::string_view text) : text_(text) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = text_.copy(to, size, done_);
    done_ += count;
    return count;
  }
  void rewind() override { done_ = 0; }
  std::uint64_t size() const override { return text_.size(); }

 private:
  std::string_view text_;
  std::size_t done_ = 0;
};

inline constexpr std::size_t kTraceChunk = std::size_t{1} << 18;

// Throws InputError without the file's name.
LoadedTrace read_trace(TraceText& text, std::size_t chunk = kTraceChunk);

}  // namespace ringscope::viz
