#include "viz/model/trace_head.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace ringscope::viz {
namespace {

constexpr std::int64_t kMaxRanks = 1'000'000;
constexpr std::uint64_t kMinBytesPerRank = 64;  // what its names alone take

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
  // A short file must not claim memory for many ranks.
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

}  // namespace ringscope::viz
