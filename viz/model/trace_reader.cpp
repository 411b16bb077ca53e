#include "viz/model/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "viz/model/trace_fields.h"
#include "viz/model/trace_foreign.h"
#include "viz/model/trace_head.h"
#include "viz/model/trace_ring.h"

namespace ringscope::viz {
namespace {

// Reads one event, whose first token has been read.
void read_event(JsonReader& reader, EventFields& fields) {
  fields.clear();
  while (reader.next() == JsonToken::key) {
    const bool is_args = reader.text() == "args";
    const Field field = is_args ? Field::none : event_field(reader.text());
    const JsonToken token = reader.next();
    if (is_args && token == JsonToken::begin_object) {
      while (reader.next() == JsonToken::key) {
        const Field arg = args_field(reader.text());
        const JsonToken first = reader.next();
        if (arg != Field::none) fields.set(arg, first, reader.text(), reader.at());
        reader.skip(first);
      }
      continue;
    }
    if (field != Field::none) fields.set(field, token, reader.text(), reader.at());
    reader.skip(token);
  }
}

class TraceReader {
 public:
  TraceReader(TraceText& text, std::size_t chunk) : text_(text), reader_(text, chunk) {}

  // With `known`, the head of a recording of ours that an earlier reading found.
  void read(const TraceHead* known) {
    if (known != nullptr) begin_ring(*known);
    const JsonToken first = reader_.next();
    if (first == JsonToken::begin_array) {
      has_events_ = true;
      read_events();
    } else if (first == JsonToken::begin_object) {
      read_object();
    } else {
      fail_at(reader_.at(), "no object or array found; a trace's accepted");
    }
    if (reader_.next() == JsonToken::end) end_ = reader_.at();
    if (!has_events_) fail_at(end_, "no traceEvents array found; one accepted");
  }

  const TraceHead& head() const { return head_; }
  bool is_ring() const { return ring_.has_value(); }

  LoadedTrace finish() {
    LoadedTrace loaded;
    if (ring_) {
      loaded.trace = ring_->finish();
      take_story(loaded.trace);
    } else {
      loaded.profiler = foreign_.from_profiler();
      loaded.rank = loaded.profiler ? head_.rank : std::nullopt;
      loaded.world_size = head_.world_size;
      loaded.base_time_ns = head_.base_time_ns;
      loaded.trace = foreign_.finish(loaded.rank, end_);
    }
    if (reader_.cut_short())
      loaded.trace.notices.push_back("the array of events has no end: the file may be cut short");
    return loaded;
  }

 private:
  void read_object() {
    while (reader_.next() == JsonToken::key) {
      const TraceKey key = key_of(TracePlace::top, reader_.text());
      const JsonToken token = reader_.next();
      if (key != TraceKey::trace_events || token != JsonToken::begin_array) {
        head_.read(key, reader_, token);
        continue;
      }
      if (has_events_) fail_at(reader_.at(), "a second \"traceEvents\" array; one accepted");
      has_events_ = true;
      if (!ring_ && head_.is_complete()) begin_ring(head_);
      read_events();
    }
  }

  void begin_ring(const TraceHead& head) {
    ring_.emplace(head.run_info(text_.size(), reader_.at()), head.dropped_events());
  }

  void take_story(Trace& trace) {
    trace.story = head_.take_story(trace.run->world_size);
    const int forward = forward_step_count(trace), backward = step_count(trace) - forward;
    std::size_t lost = 0, first = 0;
    for (std::size_t i = trace.story.size(); i-- > 0;) {
      const StoryStep& told = trace.story[i];
      const int steps = told.pass == Pass::forward    ? forward
                        : told.pass == Pass::backward ? backward
                                                      : std::max(forward, backward);
      if (told.step < steps && (!told.pass || steps > 0)) continue;
      ++lost;
      first = i + 1;
    }
    if (lost > 0)
      trace.notices.push_back(
          fmt::format("the story points {} at steps that were not recorded, first in paragraph {}",
                      lost == 1 ? "once" : fmt::format("{} times", lost), first));
  }

  void read_events() {
    std::uint32_t count = 0;
    for (JsonToken token = reader_.next(); token != JsonToken::end_array; token = reader_.next()) {
      if (token != JsonToken::begin_object) {
        reader_.skip(token);
        continue;
      }
      read_event(reader_, fields_);
      if (ring_) {
        ring_->add(fields_, reader_.at());
      } else {
        foreign_.add(fields_, reader_.at());
      }
      if (++count % 4096 == 0) text_.on_slices(ring_ ? ring_->slices() : foreign_.slices());
    }
  }

  TraceText& text_;
  JsonReader reader_;
  TraceHead head_;
  EventFields fields_;
  std::optional<RingEvents> ring_;
  ForeignEvents foreign_;
  bool has_events_ = false;
  std::uint64_t end_ = 0;
};

}  // namespace

LoadedTrace read_trace(TraceText& text, std::size_t chunk) {
  if (text.size() == 0) fail_at(0, "an empty file; a JSON trace accepted");
  std::optional<TraceReader> reader;
  reader.emplace(text, chunk);
  reader->read(nullptr);
  if (!reader->is_ring() && reader->head().is_ring()) {
    // What the events mean stands behind them: read them again.
    const TraceHead head = reader->head();
    text.rewind();
    reader.emplace(text, chunk);
    reader->read(&head);
  }
  return reader->finish();
}

}  // namespace ringscope::viz
