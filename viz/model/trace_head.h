// What stands in a trace file beside its events: who recorded it, how many ranks, from which time
// on. Our recordings have a "ring" object, of which every field is needed and checked; of other
// traces whatever is there is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/chrome_trace_fields.h"
#include "core/trace/event.h"
#include "core/trace/story_reader.h"
#include "viz/model/trace_json.h"

namespace ringscope::viz {

class TraceHead {
 public:
  // Takes the value of one key of the outermost object; its first token has been read.
  void read(TraceKey key, JsonReader& reader, JsonToken token);

  bool is_ring() const { return has_ring_; }
  // Everything that a recording of ours must have has been read.
  bool is_complete() const;
  // Checked. `file_bytes` bounds the ranks that are believed; `end` is where a missing field is
  // missed.
  RunInfo run_info(std::uint64_t file_bytes, std::uint64_t end) const;
  std::int64_t dropped_events() const;
  // Checked, once; it may stand anywhere in the file, so all of that must have been read.
  std::vector<StoryStep> take_story(int ranks) { return story_.take(ranks); }

  // Of any trace.
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

}  // namespace ringscope::viz
