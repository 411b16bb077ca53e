// Writes chrome traces. Times are integer nanoseconds, printed as decimal microseconds and never
// through floating point, so they read back exactly. Slices come before the flows that bind to
// them, because readers attach a flow to the slice that is already open at its time.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/ranges.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/trace_fields.h"

namespace ringscope {
namespace {

// Return `text` as a quoted JSON string. Of bytes that are not UTF-8, which JSON requires, only the
// letters are kept: a file's name may be of any bytes, and an error that holds it must not be lost.
std::string json_string(const std::string& text) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteValidateEncodingFlag>
      writer(buffer);
  if (!writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size())))
    return json_string(printable(text));
  return {buffer.GetString(), buffer.GetSize()};
}

// Return a float that reads back to the same bits (a NaN to some NaN), as a string where JSON has
// no number.
std::string json_float(float value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {text, end};
}

using Sink = std::function<void(std::string_view)>;

std::vector<std::pair<std::string, std::string>> (*origin_of_all)() = nullptr;

class TraceWriter {
 public:
  // Write one rank alone, with its kernels, unless `only_rank` is -1.
  TraceWriter(const Sink& sink, const Recording& recording, int only_rank)
      : sink_(sink), recording_(recording), only_rank_(only_rank) {}

  void write() {
    write_head();
    const bool all = only_rank_ < 0;
    const std::size_t begin = all ? 0 : static_cast<std::size_t>(only_rank_);
    const std::size_t end = all ? recording_.events.size() : begin + 1;
    for (std::size_t rank = begin; rank < end; ++rank) write_names(rank);
    for (std::size_t rank = begin; rank < end; ++rank)
      for (const TraceEvent& event : recording_.events[rank]) write_slice(rank, event);
    const auto write_spans = [&](const auto& spans, std::string_view lane) {
      for (std::size_t rank = begin; rank < end && !spans.empty(); ++rank)
        for (const auto& span : spans[rank]) {
          write_slice_head(lane, title_of(span), rank, span.tid(), span.begin_ns, span.end_ns);
          write_args(span);
          end_event();
        }
    };
    write_spans(recording_.model, kModelLane);
    write_spans(recording_.kernel, kKernelLane);
    if (all)
      write_flows();
    else
      for (const TraceEvent& event : recording_.events[begin]) write_kernel(begin, event);
    for (const SoftmaxSample& sample : recording_.samples)
      if (all || sample.rank == only_rank_) write_sample(sample);
    add("\n]\n}}\n");
    flush();
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
  }
  void add_text(std::string_view text) { buffer_.append(text.data(), text.data() + text.size()); }
  void flush() {
    sink_(std::string_view(buffer_.data(), buffer_.size()));
    buffer_.clear();
  }

  // Begin a member of the object at hand.
  void key(std::string_view name) {
    add_text(first_member_ ? "\"" : ", \"");
    first_member_ = false;
    add_text(name);
    add_text("\": ");
  }
  void open_object() {
    add_text("{");
    first_member_ = true;
  }
  void close_object() {
    add_text("}");
    first_member_ = false;
  }
  void open_object(EventField field) {
    key(name_of(field));
    open_object();
  }
  template <class T>
  void member(EventField field, const T& value) {
    key(name_of(field));
    if constexpr (std::is_enum_v<T>) {
      add("\"{}\"", name_of(value));
    } else if constexpr (std::is_same_v<T, float>) {
      add_text(json_float(value));
    } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      add("[{}]", fmt::join(value, ", "));
    } else if constexpr (std::is_same_v<T, std::vector<float>>) {
      add_text("[");
      for (std::size_t i = 0; i < value.size(); ++i)
        add("{}{}", i == 0 ? "" : ", ", json_float(value[i]));
      add_text("]");
    } else if constexpr (!std::is_integral_v<T>) {
      add_text(json_string(value));
    } else if (is_time(field)) {
      add_microseconds(value);
    } else {
      const fmt::format_int digits(value);
      buffer_.append(digits.data(), digits.data() + digits.size());
    }
  }
  void add_microseconds(std::int64_t ns) {
    const auto u = static_cast<std::uint64_t>(ns);
    const std::uint64_t size = ns < 0 ? -u : u;
    add("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
  }

  // Writes the members that for_fields() describes.
  struct FieldWriter {
    TraceWriter& writer;

    template <class T>
    void operator()(EventField field, const T& value, FieldRange range = {}) const {
      if constexpr (requires { *value; }) {
        if (value) writer.member(field, *value);
      } else {
        bool lacks = false;
        if constexpr (requires { value.empty(); }) lacks = value.empty();
        if constexpr (std::is_integral_v<T>) lacks = value < range.least;
        if (!lacks || !range.may_lack) writer.member(field, value);
      }
    }
    template <class F>
    void object(EventField field, F&& members) const {
      writer.open_object(field);
      members();
      writer.close_object();
    }
    template <class T, class F>
    void part(EventField, const std::optional<T>& part, F&& members) const {
      if (part) members(*part);
    }
  };

  void write_head() {
    const RunInfo& info = recording_.info;
    add_text("{\n\"schemaVersion\": 1,\n");
    first_member_ = true;
    open_object(EventField::distributed_info);
    member(EventField::backend, info.backend);
    member(EventField::own_rank, std::max(only_rank_, 0));
    member(EventField::world_size, info.world_size);
    close_object();
    begin_line();
    open_object(EventField::ring);
    member(EventField::schema_version, 1);
    for_fields(info, recording_.dropped, FieldWriter{*this});
    close_object();
    begin_line();
    write_origin();
    if (recording_.tile && (only_rank_ < 0 || recording_.tile->rank == only_rank_)) {
      for_tile_fields(recording_.tile, info.world_size, FieldWriter{*this});
      begin_line();
    }
    if (!recording_.story.empty()) write_story();
    member(EventField::base_time, info.base_time_ns);
    add_text(",\n\"displayTimeUnit\": \"ms\"");
    begin_line();
    key(name_of(EventField::trace_events));
    add_text("[");
  }
  void write_origin() {
    const auto origin = recording_.info.origin.empty() && origin_of_all != nullptr
                            ? origin_of_all()
                            : recording_.info.origin;
    if (origin.empty()) return;
    open_object(EventField::provenance);
    for (const EventField field : kOriginFields)
      for (const auto& [key, value] : origin)
        if (key == name_of(field)) member(field, value);
    close_object();
    begin_line();
  }

  // Begin the next member of the outermost object.
  void begin_line() {
    add_text(",\n");
    first_member_ = true;
  }

  // Write the story early in the file; other readers pass over it.
  void write_story() {
    key(name_of(EventField::story));
    add_text("[");
    for (const StoryStep& step : recording_.story) {
      add_text(&step == recording_.story.data() ? "\n" : ",\n");
      open_object();
      for_fields(step, recording_.info.world_size, FieldWriter{*this});
      close_object();
    }
    add_text("\n]");
    begin_line();
  }

  // Begin an event on a line of its own.
  void begin_event(std::string_view phase) {
    if (buffer_.size() > (1 << 16)) flush();
    add_text(first_event_ ? "\n" : ",\n");
    first_event_ = false;
    open_object();
    text_member(EventField::ph, phase);
  }
  // Write a string of ours, which needs no escapes.
  void text_member(EventField field, std::string_view text) {
    key(name_of(field));
    add("\"{}\"", text);
  }
  void write_subject(std::string_view category, std::string_view name, std::size_t rank, int tid) {
    text_member(EventField::cat, category);
    text_member(EventField::name, name);
    member(EventField::pid, rank);
    member(EventField::tid, tid);
  }
  void write_slice_head(std::string_view category, std::string_view name, std::size_t rank, int tid,
                        std::int64_t begin_ns, std::int64_t end_ns) {
    begin_event("X");
    write_subject(category, name, rank, tid);
    member(EventField::ts, begin_ns);
    member(EventField::dur, end_ns - begin_ns);
    open_object(EventField::args);
  }
  template <class Event>
  void write_args(const Event& event) {
    for_args(event, recording_.info, FieldWriter{*this});
  }
  // End an event and its args.
  void end_event() { add_text("}}"); }

  void write_names(std::size_t rank) {
    const auto metadata = [&](std::string_view what, int tid, EventField field, const auto& value) {
      begin_event("M");
      text_member(EventField::name, what);
      member(EventField::pid, rank);
      member(EventField::tid, tid);
      open_object(EventField::args);
      member(field, value);
      end_event();
    };
    metadata("process_name", 0, EventField::given_name, fmt::format("rank {}", rank));
    metadata("process_sort_index", 0, EventField::sort_index, rank);
    const auto thread = [&](int tid, const auto& name, int place) {
      metadata("thread_name", tid, EventField::given_name, name);
      metadata("thread_sort_index", tid, EventField::sort_index, place);
    };
    for (const Lane lane : kAllLanes) thread(static_cast<int>(lane), lane, static_cast<int>(lane));
    if (!recording_.kernel.empty()) {
      std::map<int, std::string> lanes;
      for (const KernelSpan& span : recording_.kernel[rank])
        lanes[span.tid()] = lane_of_kernel(span.tid());
      for (const auto& [tid, name] : lanes) thread(tid, name, tid);
    }
    if (recording_.model.empty()) return;
    thread(kModelTid, std::string(kModelLane), -1);  // above the ring it contains
  }

  void write_slice(std::size_t rank, TraceEvent e) {
    if (only_rank_ >= 0) e.flow = 0;  // its other end is in another file
    write_slice_head(name_of(e.lane), title_of(e), rank, static_cast<int>(e.lane), e.begin_ns,
                     e.end_ns);
    write_args(e);
    if (e.lane == Lane::compute) add_text(", \"stream\": 0");
    end_event();
  }

  // Write a transfer as the kernel of a stream.
  void write_kernel(std::size_t rank, const TraceEvent& e) {
    if (e.lane != Lane::send && e.lane != Lane::recv) return;
    const int stream = static_cast<int>(e.lane);
    write_slice_head("kernel", "ncclKernel_SendRecv", rank, kModelTid + stream, e.begin_ns,
                     e.end_ns);
    add("\"stream\": {}", stream);
    end_event();
  }

  // Write both ends of each message's flow.
  void write_flows() {
    for (const RecordedMessage& message : messages_of(recording_)) {
      const TraceEvent& send = recording_.events[message.send.rank][message.send.index];
      const TraceEvent& recv = recording_.events[message.recv.rank][message.recv.index];
      // If the slices overlap, both ends get the same time, because a flow that ends before it
      // starts is not drawn.
      const std::int64_t both = std::max(send.begin_ns, recv.begin_ns);
      const bool overlap = both < send.end_ns && both < recv.end_ns;
      for (const TraceEvent* end : {&send, &recv}) {
        begin_event(end == &send ? "s" : "f");
        if (end == &recv) text_member(EventField::bp, "e");
        member(EventField::id, end->flow);
        write_subject("flow", name_of(send.payload),
                      (end == &send ? message.send : message.recv).rank,
                      static_cast<int>(end->lane));
        member(EventField::ts, overlap ? both : end->begin_ns);
        close_object();
      }
    }
  }

  void write_sample(const SoftmaxSample& s) {
    begin_event("i");
    add_text(", \"s\": \"t\"");
    write_subject("softmax", fmt::format("softmax of query {}", s.query),
                  static_cast<std::size_t>(s.rank), 0);
    member(EventField::ts, s.at_ns);
    open_object(EventField::args);
    write_args(s);
    end_event();
  }

  const Sink& sink_;
  const Recording& recording_;
  int only_rank_;
  fmt::memory_buffer buffer_;
  bool first_event_ = true;
  bool first_member_ = true;
};

void write_with(const Sink& sink, const Recording& recording, int only_rank = -1) {
  const std::size_t ranks = static_cast<std::size_t>(std::max(recording.info.world_size, 0));
  const auto one_a_rank = [&](std::size_t given, const char* what, bool may_be_empty) {
    if (given != ranks && !(may_be_empty && given == 0))
      throw InputError(
          fmt::format("recording: {} of {} ranks given; of {} accepted", what, given, ranks));
  };
  one_a_rank(recording.events.size(), "events", false);
  one_a_rank(recording.info.clock_offset_ns.size(), "clock offsets", true);
  one_a_rank(recording.info.clock_error_ns.size(), "clock errors", true);
  one_a_rank(recording.dropped.size(), "dropped events", true);
  one_a_rank(recording.model.size(), "spans of the model", true);
  TraceWriter(sink, recording, only_rank).write();
}

}  // namespace

std::vector<RecordedMessage> messages_of(const Recording& recording) {
  struct End {
    std::int64_t flow;
    Lane lane;
    RecordedMessage::End place;
  };
  std::vector<End> ends;
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
    for (std::size_t i = 0; i < recording.events[rank].size(); ++i)
      if (const TraceEvent& e = recording.events[rank][i];
          e.flow != 0 && (e.lane == Lane::send || e.lane == Lane::recv))
        ends.push_back({e.flow, e.lane, {rank, i}});
  ranges::stable_sort(ends, {}, [](const End& end) { return std::pair(end.flow, end.lane); });
  std::vector<RecordedMessage> messages;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i)
    if (ends[i].flow == ends[i + 1].flow && ends[i].lane == Lane::send &&
        ends[i + 1].lane == Lane::recv)
      messages.push_back({ends[i].place, ends[i + 1].place});
  return messages;
}

std::string title_of(const TraceEvent& e) {
  const std::string_view backward = e.pass == Pass::backward ? " (backward)" : "";
  if (e.lane == Lane::compute) return fmt::format("attend kv {}{}", e.kv_owner, backward);
  if (e.lane == Lane::wait) return fmt::format("wait for rank {}{}", e.waiting_for, backward);
  return fmt::format("{} {} {}{}", name_of(e.lane), name_of(e.payload), e.kv_owner, backward);
}

std::string title_of(const ModelSpan& span) {
  return fmt::format("{}{}{}", name_of(span.part),
                     span.layer >= 0 ? fmt::format(" {}", span.layer) : "",
                     span.pass == Pass::backward ? " (backward)" : "");
}

std::string title_of(const KernelSpan& span) {
  return std::string(name_of(span.part)) +
         (span.visitor() >= 0 ? fmt::format(" {}", span.visitor()) : "");
}

std::string lane_of_kernel(int tid) {
  const int role = (tid - kKernelTid) % kKernelRoles;
  return fmt::format("SM {} {}", (tid - kKernelTid) / kKernelRoles,
                     role == 0 ? "producer" : fmt::format("consumer {}", role - 1));
}

void write_chrome_trace(std::ostream& out, const Recording& recording) {
  write_with(
      [&](std::string_view text) {
        out.write(text.data(), static_cast<std::streamsize>(text.size()));
      },
      recording);
}

void write_chrome_trace(AtomicFile& file, const Recording& recording) {
  write_with([&](std::string_view text) { file.write(text); }, recording);
}

void write_chrome_trace_of_rank(AtomicFile& file, const Recording& recording, int rank) {
  write_with([&](std::string_view text) { file.write(text); }, recording, rank);
}

void set_trace_origin(std::vector<std::pair<std::string, std::string>> (*origin)()) {
  origin_of_all = origin;
}

void write_chrome_trace(const std::string& path, const Recording& recording) {
  AtomicFile file(path);
  write_chrome_trace(file, recording);
  file.commit();
}

}  // namespace ringscope
