#include "core/trace/chrome_trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
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

  // Return whether the "ring" object that gives the events their meaning came too late for them.
  bool must_read_again() const { return has_ring_ && !run_; }

  // Begin a recording whose head is that of `known`, an earlier reading.
  void begin_recording(const TraceReader& known) {
    run_ = known.run_info();
    sink_.begin(*run_, known.dropped_);
  }

  TraceHead finish() {
    TraceHead head;
    if (run_) head.story = take_story();
    head.run = std::move(run_);
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
        const bool is_complete = has_ring_ && head_.is_object(EventField::distributed_info) &&
                                 head_.any_integer(EventField::base_time);
        if (is_complete && !run_) begin_recording(*this);
        read_events();
      } else if (field == EventField::story) {
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
      if (place == TracePlace::ring && std::exchange(has_ring_, true))
        fail_at(json_.at(), "a second \"ring\" object; one accepted");
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
        return read_list(field, token, mask_slices_, 0);
      case EventField::partition_runs:
        return read_list(field, token, partition_runs_, 0);
      case EventField::clock_offset_ns:
        return read_list(field, token, clock_offset_ns_, INT64_MIN);
      case EventField::clock_error_ns:
        return read_list(field, token, clock_error_ns_, 0);
      case EventField::dropped_events:
        return read_list(field, token, dropped_, 0);
      case EventField::input_dims:
      case EventField::input_types:
      case EventField::inputs:
        return read_as_text(field, token, fields);
      case EventField::dropped_stamps:
        return read_list(field, token, dropped_stamps_, 0);
      default:
        json_.skip(token);
    }
  }

  // ---
  // The head of a recording.

  RunInfo run_info() const {
    head_.integer(EventField::schema_version, 1, 1);
    RunInfo info;
    info.backend = head_.string(EventField::backend);
    info.partition = head_.string(EventField::partition);
    info.mask = head_.string(EventField::mask);
    info.scheme = head_.string(EventField::scheme);
    info.dtype = head_.string(EventField::dtype);
    if (head_.has(EventField::kv_buffers))
      info.kv_buffers = static_cast<int>(head_.integer(EventField::kv_buffers, 1, kMaxInt));
    // Limit the ranks by the file's size, so that a short file can't claim memory for many.
    const auto believed =
        std::min(kMaxRanks, static_cast<std::int64_t>(text_bytes_ / kMinBytesPerRank + 1));
    info.world_size = static_cast<int>(head_.integer(EventField::world_size, 1, believed));
    info.base_time_ns = head_.integer(EventField::base_time, INT64_MIN, INT64_MAX);
    const auto size = [&](EventField field) { return head_.integer(field, 1, INT64_MAX); };
    info.shape = {size(EventField::batch), size(EventField::num_heads),
                  size(EventField::num_heads_kv), size(EventField::seqlen),
                  size(EventField::head_dim)};
    try {
      validate(info.shape);
    } catch (const InputError& error) {
      fail_at(head_.at(EventField::head_dim), error.what());
    }
    if (head_.has(EventField::failure)) info.failure = failure(info.world_size);
    if (head_.has(EventField::live_ns))
      info.live_ns = head_.integer(EventField::live_ns, 0, kMaxTraceNs);
    if (head_.has(EventField::train_step)) info.training = training();
    info.mask_slices = mask_slices_;
    info.partition_runs = partition_runs_;
    if (head_.has(EventField::device)) info.machine = machine(info.world_size);
    if (head_.has(EventField::command)) info.command = head_.string(EventField::command);
    for (const EventField field : kOriginFields)
      if (head_.has(field)) info.origin.emplace_back(name_of(field), head_.string(field));
    info.clock_offset_ns = clock_offset_ns_;
    info.clock_error_ns = clock_error_ns_;
    info.dropped_stamps = dropped_stamps_;
    for (const auto* list : {&clock_offset_ns_, &clock_error_ns_, &dropped_, &dropped_stamps_})
      if (!list->empty() && list->size() != static_cast<std::size_t>(info.world_size))
        fail_at(head_.end(), fmt::format("a list for {} ranks in \"ring\"; one for {} accepted",
                                         list->size(), info.world_size));
    return info;
  }

  RunEnd failure(int world_size) const {
    if (!head_.is_object(EventField::failure)) head_.refuse(EventField::failure, "an object");
    const auto below_world_size = [&](EventField field) {
      return head_.has(field) ? static_cast<int>(head_.integer(field, 0, world_size - 1)) : -1;
    };
    return {std::string(head_.string(EventField::failure_message)),
            below_world_size(EventField::failure_rank), below_world_size(EventField::failure_step)};
  }

  RunMachine machine(int world_size) const {
    RunMachine machine;
    machine.device = head_.string(EventField::device);
    if (head_.has(EventField::link)) machine.link = head_.string(EventField::link);
    if (head_.has(EventField::between)) machine.between = head_.string(EventField::between);
    machine.nodes = static_cast<int>(head_.integer(EventField::nodes, 1, world_size));
    if (head_.has(EventField::cores))
      machine.cores = static_cast<int>(head_.integer(EventField::cores, 1, kMaxInt));
    if (!head_.has(EventField::forward_flops)) return machine;
    machine.forward_flops = head_.integer(EventField::forward_flops, 1, INT64_MAX);
    machine.backward_flops = head_.integer(EventField::backward_flops, 0, INT64_MAX);
    machine.tile_rows = head_.integer(EventField::tile_rows, 1, 1 << 20);
    machine.tile_keys = head_.integer(EventField::tile_keys, 1, 1 << 20);
    return machine;
  }

  RecordedLayer training() const {
    RecordedLayer training{.train_step = head_.integer(EventField::train_step, 1, INT64_MAX)};
    training.layers = static_cast<int>(head_.integer(EventField::train_layers, 1, kMaxInt));
    training.layer =
        static_cast<int>(head_.integer(EventField::train_layer, 0, training.layers - 1));
    return training;
  }

  // Read a list of one integer per rank, none below `low`.
  void read_list(EventField field, JsonToken token, std::vector<std::int64_t>& list,
                 std::int64_t low) {
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
  // The story. Whether the file is a recording of ours may be known only after it, so what is wrong
  // with a story is kept until then.

  void read_story(JsonToken token) {
    if (token != JsonToken::begin_array) {
      keep_complaint([&] { refuse_story(); });
      return json_.skip(token);
    }
    if (std::exchange(has_story_, true))
      keep_complaint([&] { fail_at(json_.at(), "a second \"story\"; one accepted"); });
    while ((token = json_.next()) != JsonToken::end_array) {
      if (token == JsonToken::begin_object) {
        fields_.clear();
        read_object(TracePlace::story_step, fields_);
        keep_complaint([&] { add_story_step(); });
      } else {
        keep_complaint([&] { refuse_story(); });
        json_.skip(token);
      }
    }
  }

  [[noreturn]] void refuse_story() const {
    fail_at(json_.at(), "no list of objects given for \"story\"; one accepted");
  }

  // Call f() unless there was a complaint before, and keep the one that it throws.
  template <class F>
  void keep_complaint(F&& f) try {
    if (!story_complaint_) f();
  } catch (const InputError& error) {
    story_complaint_ = error;
  }

  void add_story_step() {
    if (story_.size() == kMaxStorySteps)
      fail_at(json_.at(), fmt::format("a story of more than {} paragraphs", kMaxStorySteps));
    StoryStep step;
    step.text = fields_.string(EventField::story_text);
    if (step.text.empty() || step.text.size() > kMaxStoryText)
      fail_at(fields_.at(EventField::story_text),
              fmt::format("a text of {} bytes given; 1 to {} accepted",
                          step.text.empty() ? "0" : fmt::format("more than {}", kMaxStoryText),
                          kMaxStoryText));
    const auto number = [&](EventField field) {
      if (!fields_.has(field)) return -1;
      const auto value = static_cast<int>(fields_.integer(field, 0, kMaxInt));
      if (value > story_highest_) {
        story_highest_ = value;
        story_highest_at_ = fields_.at(field);
      }
      return value;
    };
    if (fields_.has(EventField::story_pass))
      step.pass = fields_.choice(EventField::story_pass, kAllPasses);
    step.step = number(EventField::story_step);
    step.rank = number(EventField::story_rank);
    if (fields_.has(EventField::story_lane))
      step.lane = fields_.choice(EventField::story_lane, kAllLanes);
    if (fields_.has(EventField::story_figure))
      step.figure = fields_.choice(EventField::story_figure, kAllFigures);
    story_.push_back(std::move(step));
  }

  std::vector<StoryStep> take_story() {
    if (story_complaint_) throw InputError(*story_complaint_);
    if (story_highest_ >= run_->world_size)
      fail_at(story_highest_at_,
              fmt::format("{} given in \"story\"; ranks and steps below world_size {} accepted",
                          story_highest_, run_->world_size));
    return std::move(story_);
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
    span.part = fields_.choice(EventField::part, kAllModelParts);
    span.pass = fields_.choice(EventField::pass, kAllPasses);
    if (fields_.has(EventField::layer))
      span.layer = static_cast<int>(fields_.integer(EventField::layer, 0, kMaxInt));
    if (fields_.has(EventField::bytes)) take(EventField::bytes, span.bytes);
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
  std::vector<std::int64_t> clock_offset_ns_, clock_error_ns_, dropped_, dropped_stamps_;
  std::vector<std::int64_t> mask_slices_, partition_runs_;
  std::optional<RunInfo> run_;  // set once the events are known to be those of a recording
  bool has_ring_ = false, has_events_ = false, has_story_ = false;
  bool is_cut_off_ = false, is_readable_ = false;  // even if it is: something was whole
  std::vector<StoryStep> story_;
  std::int64_t story_highest_ = -1;  // the highest rank or step given
  std::uint64_t story_highest_at_ = 0;
  std::optional<InputError> story_complaint_;  // the first one
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
  if (!reader.must_read_again()) return reader.finish();
  text.rewind();
  TraceReader again(text, sink, earliest_ns, chunk);
  again.begin_recording(reader);
  again.read();
  return again.finish();
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
