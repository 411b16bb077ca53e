// Reads one trace file from its text. TraceHead reads what stands beside the events: who recorded
// the trace, how many ranks it has, and its base time. Our recordings have a "ring" object, whose
// fields are all required and checked; of other traces it takes what it finds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/trace/chrome_trace_fields.h"
#include "core/trace/event.h"
#include "core/trace/story_reader.h"
#include "viz/model/trace/kineto.h"
#include "viz/model/trace/trace_json.h"

namespace ringscope::viz {

class TraceHead {
 public:
  // Read the value of one key of the outermost object. Its first token has been read.
  void read(TraceKey key, JsonReader& reader, JsonToken token);

  bool is_ring() const { return has_ring_; }
  // Return whether all that a recording of ours must have has been read.
  bool is_complete() const;
  // Return the checked run. `file_bytes` bounds the number of ranks, and `end` is the offset for a
  // missing field. Throws InputError.
  RunInfo run_info(std::uint64_t file_bytes, std::uint64_t end) const;
  std::int64_t dropped_events() const;
  // Return the checked story, once. It may stand anywhere, so the whole file must have been read.
  std::vector<StoryStep> take_story(int ranks) { return story_.take(ranks); }

  // These are read from any trace.
  std::optional<std::int64_t> rank, world_size, base_time_ns;
  bool has_distributed_info = false;

 private:
  void read_object(TracePlace place, JsonReader& reader);
  void read_story(JsonReader& reader, JsonToken token);
  void read_list(std::vector<std::int64_t>& list, std::int64_t low, JsonReader& reader,
                 JsonToken token);

  TraceFields fields_;
  StoryReader story_;
  bool has_ring_ = false;
  std::vector<std::int64_t> clock_offset_ns_, clock_error_ns_, dropped_;
};

// ---
// Reads a text as one of our recordings (RingEvents) or as any other trace (ForeignEvents).

// A TraceText can be read again from its start.
class TraceText : public JsonSource {
 public:
  virtual void rewind() = 0;
  virtual std::uint64_t size() const = 0;
  // Receive the number of slices now and then.
  virtual void on_slices(std::uint64_t) {}
};

// A MemoryText reads a text in memory, which must outlive it.
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

// Read one trace. Throws InputError without the file's name.
LoadedTrace read_trace(TraceText& text, std::size_t chunk = kTraceChunk);

}  // namespace ringscope::viz
