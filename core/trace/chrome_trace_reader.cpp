// Reads chrome traces in one pass of a SAX parser, which keeps only the current event's fields and
// the recording. Numbers are taken as text, so times stay exact and nothing overflows unnoticed.
// The parser does not recurse, and no claim of the file alone makes it allocate: memory is
// proportional to the text.
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <new>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/chrome_trace_fields.h"
#include "core/trace/story_reader.h"

namespace ringscope {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxBytes = UINT32_MAX;  // because RapidJSON counts in 32 bits
constexpr std::int64_t kMaxRanks = 1'000'000;
constexpr std::int64_t kMinBytesPerRank = 64;  // the size of its names alone

class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  Handler(std::string_view text, const rapidjson::MemoryStream& stream)
      : stream_(stream),
        ranks_(std::min(kMaxRanks, static_cast<std::int64_t>(text.size()) / kMinBytesPerRank + 1)) {
  }

  bool Null() { return Default(); }
  bool Bool(bool) { return Default(); }
  bool Default() {
    set(TraceValue::other, {}, stream_.Tell());
    return true;
  }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    set(TraceValue::number, {text, length}, stream_.Tell() - length);
    return true;
  }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    set(TraceValue::string, {text, length}, stream_.Tell() - length - 2);
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    key_ = key_of(place(), {text, length});
    return true;
  }

  bool StartObject() {
    if (depth_ == 0) {
      enter(TracePlace::top);
    } else if (place() == TracePlace::events) {
      fields_.clear_event();
      enter(TracePlace::event);
    } else if (place() == TracePlace::story) {
      story_.begin_step();
      enter(TracePlace::story_step);
    } else {
      switch (key_) {
        case TraceKey::distributed_info:
          enter(TracePlace::distributed);
          break;
        case TraceKey::ring:
          enter(TracePlace::ring);
          break;
        case TraceKey::shape:
          enter(TracePlace::shape);
          break;
        case TraceKey::failure:
          set(TraceValue::object, {}, stream_.Tell());
          enter(TracePlace::failure);
          break;
        case TraceKey::args:
          enter(TracePlace::args);
          break;
        default:
          enter_other();
      }
    }
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    if (place() == TracePlace::event) finish_event();
    if (place() == TracePlace::story_step) story_.end_step(stream_.Tell());
    --depth_;
    return true;
  }
  bool StartArray() {
    switch (depth_ > 0 && place() != TracePlace::events ? key_ : TraceKey::none) {
      case TraceKey::trace_events:
        enter(TracePlace::events);
        has_events_ = true;
        break;
      case TraceKey::story:
        story_.begin(stream_.Tell());
        enter(TracePlace::story);
        break;
      case TraceKey::clock_offset_ns:
        enter_list(recording_.info.clock_offset_ns, INT64_MIN);
        break;
      case TraceKey::clock_error_ns:
        enter_list(recording_.info.clock_error_ns, 0);
        break;
      case TraceKey::dropped_events:
        enter_list(recording_.dropped, 0);
        break;
      default:
        enter_other();
    }
    return true;
  }
  bool EndArray(rapidjson::SizeType) {
    --depth_;
    return true;
  }

  // Return the recording, once all of it was read.
  Recording finish() {
    const std::size_t end = stream_.Tell();
    if (!has_events_) fail_at(end, "no traceEvents array found; one accepted");
    fields_.integer(TraceKey::schema_version, 1, 1, end);
    RunInfo& info = recording_.info;
    info.backend = fields_.string(TraceKey::backend, end);
    info.partition = fields_.string(TraceKey::partition, end);
    info.mask = fields_.string(TraceKey::mask, end);
    info.scheme = fields_.string(TraceKey::scheme, end);
    info.dtype = fields_.string(TraceKey::dtype, end);
    info.kv_buffers = kv_buffers_of(fields_, end);
    info.world_size = static_cast<int>(fields_.integer(TraceKey::world_size, 1, ranks_, end));
    info.base_time_ns = fields_.integer(TraceKey::base_time, INT64_MIN, INT64_MAX, end);
    const auto size = [&](TraceKey key) { return fields_.integer(key, 1, INT64_MAX, end); };
    info.shape = {size(TraceKey::batch), size(TraceKey::heads), size(TraceKey::heads_kv),
                  size(TraceKey::seqlen), size(TraceKey::head_dim)};
    try {
      validate(info.shape);
    } catch (const InputError& error) {
      fail_at(fields_.at(TraceKey::head_dim), error.what());
    }
    for (const auto* list : {&info.clock_offset_ns, &info.clock_error_ns, &recording_.dropped})
      if (!list->empty() && list->size() != static_cast<std::size_t>(info.world_size))
        fail_at(end, fmt::format("a list for {} ranks in \"ring\"; one for {} accepted",
                                 list->size(), info.world_size));
    if (highest_ >= info.world_size)
      fail_at(highest_at_,
              fmt::format("{} given where ranks or steps below world_size {} are accepted",
                          highest_, info.world_size));
    info.failure = failure_of(fields_, info.world_size, end);
    info.training = training_of(fields_, end);
    recording_.events.resize(static_cast<std::size_t>(info.world_size));
    recording_.story = story_.take(info.world_size);
    return std::move(recording_);
  }

 private:
  TracePlace place() const { return places_[depth_ - 1]; }

  void enter(TracePlace place) {
    if (depth_ == kMaxDepth)
      fail_at(stream_.Tell(), fmt::format("nested deeper than {} levels", kMaxDepth));
    places_[depth_++] = place;
    key_ = TraceKey::none;
  }
  void enter_other() {
    if (depth_ == 0) fail_at(stream_.Tell(), "no object found; one accepted");
    set(TraceValue::other, {}, stream_.Tell());
    enter(TracePlace::other);
  }
  void enter_list(std::vector<std::int64_t>& list, std::int64_t low) {
    list.clear();
    list_ = &list;
    list_low_ = low;
    enter(TracePlace::list);
  }

  // Set a value that is no object or array of interest.
  void set(TraceValue::Kind kind, std::string_view text, std::size_t at) {
    if (depth_ == 0) fail_at(at, "no object found; one accepted");
    if (place() == TracePlace::list) {
      const TraceValue value{kind, std::string(text), at};
      list_->push_back(integer_of(value, "a list in \"ring\"", list_low_, INT64_MAX));
    } else if (place() == TracePlace::story || key_ == TraceKey::story) {
      story_.refuse(at);
    } else if (place() == TracePlace::story_step) {
      if (key_ != TraceKey::none) story_.set(key_, kind, text, at);
    } else if (key_ != TraceKey::none && place() != TracePlace::events) {
      fields_.set(key_, kind, text, at);
    }
  }

  // Read a rank or step, which must be below world_size. That may come later in the file.
  std::int32_t below_world_size(TraceKey key, std::size_t end) {
    const std::int64_t value = fields_.integer(key, 0, ranks_ - 1, end);
    if (value > highest_) {
      highest_ = value;
      highest_at_ = fields_.at(key);
    }
    return static_cast<std::int32_t>(value);
  }

  void finish_event() {
    const std::string_view phase = fields_.text_or_empty(TraceKey::ph);
    const std::string_view category = fields_.text_or_empty(TraceKey::cat);
    if (phase == "X") {
      for (const Lane lane : kAllLanes)
        if (category == name_of(lane)) finish_slice(lane, stream_.Tell());
    } else if (phase == "i" && category == "softmax") {
      finish_sample(stream_.Tell());
    }
  }

  void finish_slice(Lane lane, std::size_t end) {
    TraceEvent e{.lane = lane};
    const std::int32_t rank = below_world_size(TraceKey::pid, end);
    const int tid = static_cast<int>(lane);
    fields_.integer(TraceKey::tid, tid, tid, end);
    e.begin_ns = fields_.nanoseconds(TraceKey::ts, -kMaxTraceNs, end);
    e.end_ns = e.begin_ns + fields_.nanoseconds(TraceKey::dur, 0, end);
    if (e.end_ns > kMaxTraceNs)
      fail_at(fields_.at(TraceKey::dur),
              fmt::format("dur ends later than {} microseconds after the base time",
                          kMaxTraceNs / 1000));
    e.pass = fields_.choice(TraceKey::pass, Pass::forward, Pass::backward, end);
    e.step = below_world_size(TraceKey::step, end);
    e.kv_owner = below_world_size(TraceKey::kv_owner, end);
    const auto count = [&](TraceKey key) { return fields_.integer(key, 0, INT64_MAX, end); };
    if (lane == Lane::compute) {
      e.pairs = count(TraceKey::pairs);
      e.flops = count(TraceKey::flops);
      e.tiles_full = count(TraceKey::tiles_full);
      e.tiles_partial = count(TraceKey::tiles_partial);
      e.tiles_skipped = count(TraceKey::tiles_skipped);
      e.cpu_ns = fields_.nanoseconds(TraceKey::cpu_us, 0, end);
    } else {
      e.payload = fields_.choice(TraceKey::payload, Payload::kv, Payload::dkv, end);
      if (lane == Lane::wait) {
        e.waiting_for = below_world_size(TraceKey::waiting_for, end);
      } else {
        e.bytes = count(TraceKey::bytes);
        e.src = below_world_size(TraceKey::src, end);
        e.dst = below_world_size(TraceKey::dst, end);
        e.flow = count(TraceKey::flow);
      }
    }
    auto& events = recording_.events;
    if (events.size() <= static_cast<std::size_t>(rank)) events.resize(rank + std::size_t{1});
    events[rank].push_back(e);
  }

  void finish_sample(std::size_t end) {
    recording_.samples.push_back({.rank = below_world_size(TraceKey::pid, end),
                                  .step = below_world_size(TraceKey::step, end),
                                  .query = fields_.integer(TraceKey::query, 0, kMaxSeqlen - 1, end),
                                  .at_ns = fields_.nanoseconds(TraceKey::ts, -kMaxTraceNs, end),
                                  .row_max = fields_.real(TraceKey::row_max, end),
                                  .row_sum = fields_.real(TraceKey::row_sum, end),
                                  .lse = fields_.real(TraceKey::lse, end),
                                  .lse_error = fields_.real(TraceKey::lse_error, end)});
  }

  const rapidjson::MemoryStream& stream_;
  const std::int64_t ranks_;  // upper bound on a believable world_size
  TracePlace places_[kMaxDepth] = {};
  std::size_t depth_ = 0;
  TraceKey key_ = TraceKey::none;  // in an object: the key of the next value
  TraceFields fields_;
  std::vector<std::int64_t>* list_ = nullptr;
  std::int64_t list_low_ = 0;
  std::int64_t highest_ = -1;  // the highest rank or step
  std::size_t highest_at_ = 0;
  bool has_events_ = false;
  StoryReader story_;
  Recording recording_;
};

}  // namespace

Recording parse_chrome_trace(std::string_view text) {
  if (text.size() > kMaxBytes)
    throw InputError(fmt::format("{} bytes given; at most {} accepted", text.size(), kMaxBytes));
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseValidateEncodingFlag |
                              rapidjson::kParseNumbersAsStringsFlag;
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  Handler handler(text, stream);
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (result.IsError()) fail_at(result.Offset(), rapidjson::GetParseError_En(result.Code()));
  // The parser takes a zero byte for the end of the text.
  if (stream.Tell() != text.size())
    fail_at(stream.Tell(), "a zero byte after the end; nothing accepted");
  return handler.finish();
}

Recording read_chrome_trace(const std::string& path) try {
  const InputFile file(path, "recorded trace");
  if (file.size() > static_cast<Index>(kMaxBytes))
    throw InputError(fmt::format("{} bytes given; at most {} accepted", file.size(), kMaxBytes));
  try {
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(text.data(), file.size(), 0);
    return parse_chrome_trace(text);
  } catch (const std::bad_alloc&) {
    throw RunError(fmt::format("{}: out of memory: a file of {} bytes", path, file.size()));
  }
} catch (const InputError& error) {
  throw InputError(about_file(path, error.what()));
}

}  // namespace ringscope
