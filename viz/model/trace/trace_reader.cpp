#include "viz/model/trace/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "viz/model/trace/trace_fields.h"
#include "viz/model/trace/trace_foreign.h"
#include "viz/model/trace/trace_ring.h"

namespace ringscope::viz {

namespace {

constexpr std::int64_t kMaxRanks = 1'000'000;
constexpr std::uint64_t kMinBytesPerRank = 64;  // least size of the events that name it

TraceValue::Kind kind_of(JsonToken token) {
  return token == JsonToken::number   ? TraceValue::number
         : token == JsonToken::string ? TraceValue::string
                                      : TraceValue::other;
}

std::optional<std::int64_t> integer_in(JsonToken token, std::string_view text) {
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto read = std::from_chars(text.data(), last, value);
  const bool spelled = token == JsonToken::number || token == JsonToken::string;
  if (!spelled || read.ec != std::errc() || read.ptr != last) return std::nullopt;
  return value;
}

}  // namespace

void TraceHead::read(TraceKey key, JsonReader& reader, JsonToken token) {
  if (key == TraceKey::base_time) {
    fields_.set(key, kind_of(token), reader.text(), reader.at());
    base_time_ns = integer_in(token, reader.text());
  } else if (token == JsonToken::begin_object && key == TraceKey::ring) {
    if (has_ring_) fail_at(reader.at(), "a second \"ring\" object; one accepted");
    has_ring_ = true;
    return read_object(TracePlace::ring, reader);
  } else if (token == JsonToken::begin_object && key == TraceKey::distributed_info) {
    has_distributed_info = true;
    return read_object(TracePlace::distributed, reader);
  } else if (key == TraceKey::story) {
    return read_story(reader, token);
  }
  reader.skip(token);
}

void TraceHead::read_story(JsonReader& reader, JsonToken token) {
  if (token != JsonToken::begin_array) {
    story_.refuse(reader.at());
    return reader.skip(token);
  }
  story_.begin(reader.at());
  while ((token = reader.next()) != JsonToken::end_array) {
    if (token != JsonToken::begin_object) {
      story_.refuse(reader.at());
      reader.skip(token);
      continue;
    }
    story_.begin_step();
    while (reader.next() == JsonToken::key) {
      const TraceKey key = key_of(TracePlace::story_step, reader.text());
      token = reader.next();
      if (key != TraceKey::none) story_.set(key, kind_of(token), reader.text(), reader.at());
      reader.skip(token);
    }
    story_.end_step(reader.at());
  }
}

void TraceHead::read_object(TracePlace place, JsonReader& reader) {
  while (reader.next() == JsonToken::key) {
    const bool is_rank = place == TracePlace::distributed && reader.text() == "rank";
    const TraceKey key = key_of(place, reader.text());
    const JsonToken token = reader.next();
    if (is_rank) rank = integer_in(token, reader.text());
    if (key == TraceKey::world_size) world_size = integer_in(token, reader.text());
    if (key == TraceKey::clock_offset_ns) {
      read_list(clock_offset_ns_, INT64_MIN, reader, token);
    } else if (key == TraceKey::clock_error_ns) {
      read_list(clock_error_ns_, 0, reader, token);
    } else if (key == TraceKey::dropped_events) {
      read_list(dropped_, 0, reader, token);
    } else if (key == TraceKey::shape && token == JsonToken::begin_object) {
      read_object(TracePlace::shape, reader);
    } else if (key == TraceKey::failure && token == JsonToken::begin_object) {
      fields_.set(key, TraceValue::object, {}, reader.at());
      read_object(TracePlace::failure, reader);
    } else {
      if (key != TraceKey::none) fields_.set(key, kind_of(token), reader.text(), reader.at());
      reader.skip(token);
    }
  }
}

void TraceHead::read_list(std::vector<std::int64_t>& list, std::int64_t low, JsonReader& reader,
                          JsonToken token) {
  if (token != JsonToken::begin_array)
    fail_at(reader.at(),
            "no list given for one of \"ring\"; a list with an integer a rank accepted");
  list.clear();
  while ((token = reader.next()) != JsonToken::end_array) {
    const TraceValue value{kind_of(token), std::string(reader.text()), reader.at()};
    list.push_back(integer_of(value, "a list in \"ring\"", low, INT64_MAX));
  }
}

bool TraceHead::is_complete() const {
  return has_ring_ && has_distributed_info && base_time_ns.has_value();
}

RunInfo TraceHead::run_info(std::uint64_t file_bytes, std::uint64_t end) const {
  fields_.integer(TraceKey::schema_version, 1, 1, end);
  RunInfo info;
  info.backend = fields_.string(TraceKey::backend, end);
  info.partition = fields_.string(TraceKey::partition, end);
  info.mask = fields_.string(TraceKey::mask, end);
  info.scheme = fields_.string(TraceKey::scheme, end);
  info.dtype = fields_.string(TraceKey::dtype, end);
  info.kv_buffers = kv_buffers_of(fields_, end);
  // Limit the ranks by the file's size, so that a short file can't claim memory for many.
  const auto believed = static_cast<std::int64_t>(
      std::min<std::uint64_t>(kMaxRanks, file_bytes / kMinBytesPerRank + 1));
  info.world_size = static_cast<int>(fields_.integer(TraceKey::world_size, 1, believed, end));
  info.base_time_ns = fields_.integer(TraceKey::base_time, INT64_MIN, INT64_MAX, end);
  const auto size = [&](TraceKey key) { return fields_.integer(key, 1, INT64_MAX, end); };
  info.shape = {size(TraceKey::batch), size(TraceKey::heads), size(TraceKey::heads_kv),
                size(TraceKey::seqlen), size(TraceKey::head_dim)};
  try {
    validate(info.shape);
  } catch (const InputError& error) {
    fail_at(fields_.at(TraceKey::head_dim), error.what());
  }
  info.failure = failure_of(fields_, info.world_size, end);
  info.training = training_of(fields_, end);
  info.clock_offset_ns = clock_offset_ns_;
  info.clock_error_ns = clock_error_ns_;
  for (const auto* list : {&clock_offset_ns_, &clock_error_ns_, &dropped_})
    if (!list->empty() && list->size() != static_cast<std::size_t>(info.world_size))
      fail_at(end, fmt::format("a list for {} ranks in \"ring\"; one for {} accepted", list->size(),
                               info.world_size));
  return info;
}

std::int64_t TraceHead::dropped_events() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : dropped_)
    if (__builtin_add_overflow(sum, count, &sum)) return INT64_MAX;
  return sum;
}

namespace {

// Read one event, whose first token has been read.
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

  // Read the text. `known` is null or the head that an earlier reading of our recording found.
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
    // The head that gives the events their meaning stands behind them, so read them again.
    const TraceHead head = reader->head();
    text.rewind();
    reader.emplace(text, chunk);
    reader->read(&head);
  }
  return reader->finish();
}

}  // namespace ringscope::viz
