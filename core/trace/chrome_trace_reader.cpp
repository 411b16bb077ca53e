#include "core/trace/chrome_trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {
namespace {

constexpr std::int64_t kMaxRanks = 1'000'000;
constexpr std::uint64_t kMinBytesPerRank = 64;  // least size of the events that name it
constexpr int kMaxInt = INT32_MAX;
constexpr std::size_t kMaxListText = 1000;

using Lists = std::map<EventField, std::vector<std::int64_t>>;

// Takes the members that for_fields() describes from what was read.
struct FieldReader {
  const TraceFields& fields;
  const Lists& lists;

  template <class T>
  void operator()(EventField field, T& value, FieldRange range = {}) const {
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      if (const auto list = lists.find(field); list != lists.end()) value = list->second;
    } else if (range.may_lack && !fields.has(field)) {
      return;
    } else if constexpr (requires { value.emplace(); }) {
      (*this)(field, value.emplace(), range);
    } else if constexpr (std::is_enum_v<T>) {
      value = fields.choice(field, all_like(T{}));
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(fields.integer(field, range.least, range.most));
    } else {
      value = fields.string(field);
    }
  }
  template <class F>
  void object(EventField field, F&& members) const {
    fields.require_object(field);
    members();
  }
  template <class T, class F>
  void part(EventField field, std::optional<T>& part, F&& members) const {
    if (fields.has(field)) members(part.emplace());
  }
};

class TraceReader {
 public:
  TraceReader(TextSource& text, TraceSink& sink, std::int64_t earliest_ns, std::size_t chunk)
      : json_(text, chunk),
        text_bytes_(text.most_bytes()),
        sink_(sink),
        earliest_ns_(earliest_ns) {}

  // Read all of the text, or of one that is cut off, what is whole.
  void read() try {
    const JsonToken first = json_.next();
    if (first == JsonToken::begin_array) {
      read_events();
    } else if (first == JsonToken::begin_object) {
      read_top();
    } else {
      fail_at(json_.at(), "no object or array found; a trace's accepted");
    }
    json_.next();  // the end, or an error
    head_.end_at(json_.at());
    if (!has_events_) fail_at(head_.end(), "no traceEvents array found; one accepted");
    is_cut_off_ = json_.cut_short();
  } catch (const InputError&) {
    if (!json_.has_ended() || !is_readable_) throw;
    is_cut_off_ = true;
    head_.end_at(json_.at());
  }

  TraceHead finish() {
    TraceHead head;
    head.run = std::move(run_);
    head.story = std::move(story_);
    head.rank = head_.any_integer(EventField::own_rank);
    head.world_size = head_.any_integer(EventField::world_size);
    head.base_time_ns = head_.any_integer(EventField::base_time);
    head.end = head_.end();
    head.cut_short = is_cut_off_;
    return head;
  }

 private:
  void read_top() {
    while (json_.next() == JsonToken::key) {
      const EventField field = field_of(TracePlace::top, json_.text());
      const JsonToken token = json_.next();
      if (field == EventField::trace_events && token == JsonToken::begin_array) {
        head_.end_at(json_.at());
        if (has_ring_) begin_recording();
        read_events();
      } else if (field == EventField::story && has_ring_) {
        read_story(token);
      } else {
        read_value(field, token, head_);
      }
    }
  }

  // Read the members of an object into `fields`, also those of the objects in it that are known.
  void read_object(TracePlace place, TraceFields& fields) {
    while (json_.next() == JsonToken::key) {
      const EventField field = field_of(place, json_.text());
      const JsonToken token = json_.next();
      // Most members are numbers and strings of an event; for them, skip the rest.
      if (token >= JsonToken::string && place >= TracePlace::event) {
        if (field != EventField::none) fields.set(field, token, json_.text(), json_.at());
      } else {
        read_value(field, token, fields);
      }
    }
    fields.end_at(json_.at());
  }

  void read_value(EventField field, JsonToken token, TraceFields& fields) {
    if (field != EventField::none) fields.set(field, token, json_.text(), json_.at());
    const auto read_inside = [&](TracePlace place) {
      if (token != JsonToken::begin_object) return json_.skip(token);
      if (place == TracePlace::ring && (has_events_ || std::exchange(has_ring_, true)))
        fail_at(json_.at(),
                "a \"ring\" object behind another one or the events; one before them accepted");
      read_object(place, fields);
    };
    switch (field) {
      case EventField::distributed_info:
        return read_inside(TracePlace::distributed);
      case EventField::ring:
        return read_inside(TracePlace::ring);
      case EventField::shape:
        return read_inside(TracePlace::shape);
      case EventField::failure:
        return read_inside(TracePlace::failure);
      case EventField::provenance:
        return read_inside(TracePlace::provenance);
      case EventField::args:
        return read_inside(TracePlace::args);
      case EventField::mask_slices:
      case EventField::partition_runs:
      case EventField::clock_offset_ns:
      case EventField::clock_error_ns:
      case EventField::dropped_events:
      case EventField::dropped_stamps:
        return read_list(field, token);
      case EventField::input_dims:
      case EventField::input_types:
      case EventField::inputs:
        return read_as_text(field, token, fields);
      default:
        json_.skip(token);
    }
  }

  // ---
  // The head of a recording.

  void begin_recording() {
    head_.integer(EventField::schema_version, 1, 1);
    RunInfo& info = run_.emplace();
    info.backend = head_.string(EventField::backend);
    info.world_size = world_size();
    info.base_time_ns = head_.integer(EventField::base_time, INT64_MIN, INT64_MAX);
    std::vector<std::int64_t> dropped;
    for_fields(info, dropped, FieldReader{head_, lists_});
    try {
      validate(info.shape);
    } catch (const InputError& error) {
      fail_at(head_.at(EventField::head_dim), error.what());
    }
    for (const EventField field : kOriginFields)
      if (head_.has(field)) info.origin.emplace_back(name_of(field), head_.string(field));
    for (const auto* list :
         {&info.clock_offset_ns, &info.clock_error_ns, &dropped, &info.dropped_stamps})
      if (!list->empty() && list->size() != static_cast<std::size_t>(info.world_size))
        fail_at(head_.end(), fmt::format("a list for {} ranks in \"ring\"; one for {} accepted",
                                         list->size(), info.world_size));
    sink_.begin(info, dropped);
  }

  // Return the number of ranks. It is limited by the file's size, so that a short file can't claim
  // memory for many.
  int world_size() const {
    const auto believed =
        std::min(kMaxRanks, static_cast<std::int64_t>(text_bytes_ / kMinBytesPerRank + 1));
    return static_cast<int>(head_.integer(EventField::world_size, 1, believed));
  }

  // Read a list of integers, of which only a clock's offsets may be negative.
  void read_list(EventField field, JsonToken token) {
    const std::int64_t low = field == EventField::clock_offset_ns ? INT64_MIN : 0;
    std::vector<std::int64_t>& list = lists_[field];
    if (token != JsonToken::begin_array)
      fail_at(json_.at(),
              "no list given for one of \"ring\"; a list with an integer a rank accepted");
    list.clear();
    while ((token = json_.next()) != JsonToken::end_array) {
      head_.set(field, token, json_.text(), json_.at());
      list.push_back(head_.integer(field, low, INT64_MAX));
    }
  }

  // Read lists in lists as one text without quotes, such as "[[1,2,],[3,],]".
  void read_as_text(EventField field, JsonToken token, TraceFields& fields) {
    const std::uint64_t at = json_.at();
    std::string text;
    int depth = 0;
    const auto add = [&](std::string_view part) {
      if (text.size() < kMaxListText) text += part;
    };
    do {
      const bool begins = token == JsonToken::begin_array || token == JsonToken::begin_object;
      const bool ends = token == JsonToken::end_array || token == JsonToken::end_object;
      depth += begins ? 1 : ends ? -1 : 0;
      add(begins ? "[" : ends ? "]" : json_.text().substr(0, kMaxListText));
      if (!begins && depth > 0) add(",");
    } while (depth > 0 && (token = json_.next(), true));
    fields.set(field, JsonToken::string, text, at);
  }

  // ---
  // The story, which stands behind the head.

  void read_story(JsonToken token) {
    const auto refuse = [&] {
      fail_at(json_.at(), "no list of objects given for \"story\"; one accepted");
    };
    if (token != JsonToken::begin_array) refuse();
    while ((token = json_.next()) != JsonToken::end_array) {
      if (token != JsonToken::begin_object) refuse();
      fields_.clear();
      read_object(TracePlace::story_step, fields_);
      if (story_.size() == kMaxStorySteps)
        fail_at(json_.at(), fmt::format("a story of more than {} paragraphs", kMaxStorySteps));
      StoryStep& step = story_.emplace_back();
      for_fields(step, world_size(), FieldReader{fields_, lists_});
      if (step.text.empty() || step.text.size() > kMaxStoryText)
        fail_at(fields_.at(EventField::story_text),
                fmt::format("a text of {} bytes given; 1 to {} accepted",
                            step.text.empty() ? "0" : fmt::format("more than {}", kMaxStoryText),
                            kMaxStoryText));
    }
  }

  // ---
  // The events.

  void read_events() {
    if (std::exchange(has_events_, true))
      fail_at(json_.at(), "a second \"traceEvents\" array; one accepted");
    for (JsonToken token; (token = json_.next()) != JsonToken::end_array;) {
      if (token != JsonToken::begin_object) {
        json_.skip(token);
        continue;
      }
      fields_.clear();
      read_object(TracePlace::event, fields_);
      if (run_) {
        add_event();
      } else {
        is_readable_ = true;
        sink_.other(fields_);
      }
    }
  }

  // Pass on an event of ours. Others may stand in the file as well.
  void add_event() {
    const std::string_view phase = fields_.text_or_empty(EventField::ph);
    const std::string_view category = fields_.text_or_empty(EventField::cat);
    if (same(phase, "X")) {
      for (const Lane lane : kAllLanes)
        if (same(category, name_of(lane))) return add_slice(lane);
      if (category == kModelLane) add_span();
      if (category == kKernelLane) add_kernel_span();
    } else if (same(category, "flow") && (same(phase, "s") || same(phase, "f"))) {
      add_flow(phase[0] == 'f');
    } else if (category == "softmax" && phase == "i") {
      SoftmaxSample sample{.rank = below_world_size(EventField::pid)};
      sample.at_ns = fields_.time(EventField::ts, earliest_ns_);
      for_args_of_sample(sample, [&](EventField field, auto& value) { take(field, value); });
      sink_.sample(sample);
    }
  }

  void add_slice(Lane lane) {
    TraceEvent event{.lane = lane};
    const int rank = take_place(static_cast<int>(lane), event.begin_ns, event.end_ns);
    for_args_of_slice(event, [&](EventField field, auto& value) { take(field, value); });
    if (fields_.has(EventField::moved_us)) take(EventField::moved_us, event.moved_ns);
    sink_.slice(rank, event, fields_);
    is_readable_ = true;
  }

  void add_span() {
    ModelSpan span;
    const int rank = take_place(kModelTid, span.begin_ns, span.end_ns);
    for_args_of_span(span, FieldReader{fields_, lists_});
    sink_.span(rank, span, fields_);
  }

  void add_kernel_span() {
    KernelSpan span{.part = fields_.choice(EventField::part, kAllKernelParts)};
    const auto number = [&](EventField field, std::int64_t low, std::int64_t high) {
      return static_cast<std::int32_t>(fields_.integer(field, low, high));
    };
    span.multiprocessor = number(EventField::multiprocessor, 0, kMostMultiprocessors - 1);
    span.role = number(EventField::role, 0, kKernelRoles - 1);
    const int rank = take_place(span.tid(), span.begin_ns, span.end_ns);
    span.step = below_world_size(EventField::step);
    span.matrix = number(EventField::matrix, 0, kMaxInt);
    if (fields_.has(EventField::pass)) span.pass = fields_.choice(EventField::pass, kAllPasses);
    span.row_tile = number(EventField::row_tile, span.pass == Pass::forward ? 0 : -1, kMaxInt);
    span.key_tile = number(EventField::key_tile, span.pass == Pass::forward ? -1 : 0, kMaxInt);
    take(EventField::ticks, span.ticks);
    sink_.span(rank, span, fields_);
  }

  void add_flow(bool finish) {
    FlowEvent event{.id = fields_.integer(EventField::id, 1, INT64_MAX),
                    .ts = fields_.time(EventField::ts, earliest_ns_),
                    .at = fields_.at(EventField::id),
                    .rank = below_world_size(EventField::pid),
                    .finish = finish};
    const int tid = static_cast<int>(finish ? Lane::recv : Lane::send);
    fields_.integer(EventField::tid, tid, tid);
    sink_.flow(event);
  }

  // Take name, rank, lane and times of a slice, and return the rank.
  int take_place(int tid, std::int64_t& begin_ns, std::int64_t& end_ns) {
    fields_.string(EventField::name);
    const int rank = below_world_size(EventField::pid);
    fields_.integer(EventField::tid, tid, tid);
    begin_ns = fields_.time(EventField::ts, earliest_ns_);
    end_ns = begin_ns + fields_.time(EventField::dur, 0);
    fields_.require_end(end_ns);
    return rank;
  }

  std::int32_t below_world_size(EventField field) const {
    return static_cast<std::int32_t>(fields_.integer(field, 0, run_->world_size - 1));
  }

  template <class T>
  void take(EventField field, T& value) const {
    if constexpr (std::is_same_v<T, Pass>) {
      value = fields_.choice(field, kAllPasses);
    } else if constexpr (std::is_same_v<T, Payload>) {
      value = fields_.choice(field, kAllPayloads);
    } else if constexpr (std::is_same_v<T, float>) {
      value = fields_.real(field);
    } else if constexpr (std::is_same_v<T, std::int32_t>) {
      value = below_world_size(field);
    } else if (is_time(field)) {
      value = fields_.time(field, 0);
    } else {
      value = fields_.integer(field, 0,
                              field == EventField::query ? run_->shape.seqlen - 1 : INT64_MAX);
    }
  }

  JsonReader json_;
  const std::uint64_t text_bytes_;  // at most
  TraceSink& sink_;
  const std::int64_t earliest_ns_;
  TraceFields head_;
  TraceFields fields_;  // of the event or the story's step at hand
  Lists lists_;
  std::optional<RunInfo> run_;  // set once the events are known to be those of a recording
  bool has_ring_ = false, has_events_ = false;
  bool is_cut_off_ = false, is_readable_ = false;  // even if it is: something was whole
  std::vector<StoryStep> story_;
};

// Gathers a recording in memory.
class RecordingSink final : public TraceSink {
 public:
  void begin(const RunInfo& run, const std::vector<std::int64_t>& dropped) override {
    recording.events.resize(static_cast<std::size_t>(run.world_size));
    recording.dropped = dropped;
  }
  void slice(int rank, const TraceEvent& event, const TraceFields&) override {
    recording.events[rank].push_back(event);
  }
  void span(int rank, const ModelSpan& span, const TraceFields&) override {
    recording.model.resize(recording.events.size());
    recording.model[rank].push_back(span);
  }
  void span(int rank, const KernelSpan& span, const TraceFields&) override {
    recording.kernel.resize(recording.events.size());
    recording.kernel[rank].push_back(span);
  }
  void sample(const SoftmaxSample& sample) override { recording.samples.push_back(sample); }
  void flow(const FlowEvent&) override { has_flows = true; }

  Recording recording;
  bool has_flows = false;  // which stand behind all slices
};

Recording read_recording(TextSource& text, HowWhole* how) {
  RecordingSink sink;
  TraceHead head = read_trace(text, sink, -kMaxTraceNs);
  if (!head.run) fail_at(head.end, "no \"ring\" object found; one accepted");
  if (head.cut_short && how == nullptr)
    fail_at(head.end, "the text ends; a whole recording accepted");
  if (how != nullptr)
    *how = !head.cut_short  ? HowWhole::whole
           : sink.has_flows ? HowWhole::all_slices
                            : HowWhole::part;
  sink.recording.info = std::move(*head.run);
  sink.recording.story = std::move(head.story);
  return std::move(sink.recording);
}

}  // namespace

TraceHead read_trace(TextSource& text, TraceSink& sink, std::int64_t earliest_ns,
                     std::size_t chunk) {
  if (text.size() == 0) fail_at(0, "an empty file; a JSON trace accepted");
  TraceReader reader(text, sink, earliest_ns, chunk);
  reader.read();
  return reader.finish();
}

Recording parse_chrome_trace(std::string_view text, HowWhole* how) {
  MemorySource source(text);
  return read_recording(source, how);
}

Recording read_chrome_trace(const std::string& path, HowWhole* how) try {
  const InputFile file(path, "recorded trace");
  FileSource source(file);
  return read_recording(source, how);
} catch (const InputError& error) {
  throw InputError(about_file(path, error.what()));
}

}  // namespace ringscope
