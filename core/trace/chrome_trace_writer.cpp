// Writes chrome traces. Times are integer nanoseconds, printed as decimal microseconds and never
// through floating point, so they read back exactly. Slices come before the flows that bind to
// them, because readers attach a flow to the slice that is already open at its time.
#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <ostream>
#include <tuple>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {
namespace {

// Return `text` as a quoted JSON string. Throw InputError if it is not UTF-8, which JSON requires.
std::string json_string(const std::string& text) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteValidateEncodingFlag>
      writer(buffer);
  if (!writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size())))
    throw InputError("recording: a string that is not UTF-8 given; UTF-8 accepted");
  return {buffer.GetString(), buffer.GetSize()};
}

// Return `text` as UTF-8. An error message may name a path of any bytes and must not be lost.
std::string as_utf8(std::string text) {
  try {
    json_string(text);
  } catch (const InputError&) {
    for (char& c : text)
      if (c < ' ' || c > '~') c = '?';
  }
  return text;
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

// Return nanoseconds as microseconds with three decimals.
std::string microseconds(std::int64_t ns) {
  const auto u = static_cast<std::uint64_t>(ns);
  const std::uint64_t size = ns < 0 ? -u : u;
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

// One end of a flow, which joins the send slice and the recv slice of a message.
struct FlowEnd {
  std::int64_t flow;
  Lane lane;
  std::size_t rank;
  const TraceEvent* event;
};

using Sink = std::function<void(std::string_view)>;

class TraceWriter {
 public:
  TraceWriter(const Sink& sink, const Recording& recording) : sink_(sink), recording_(recording) {}

  void write() {
    write_head();
    for (std::size_t rank = 0; rank < recording_.events.size(); ++rank) write_names(rank);
    for (std::size_t rank = 0; rank < recording_.events.size(); ++rank)
      for (const TraceEvent& event : recording_.events[rank]) write_slice(rank, event);
    for (std::size_t rank = 0; rank < recording_.model.size(); ++rank)
      for (const ModelSpan& span : recording_.model[rank]) write_span(rank, span);
    write_flows();
    for (const SoftmaxSample& sample : recording_.samples) write_sample(sample);
    add("\n]\n}}\n");
    flush();
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
  }
  void flush() {
    sink_(std::string_view(buffer_.data(), buffer_.size()));
    buffer_.clear();
  }
  // Begin an event on a line of its own.
  template <class... Args>
  void begin_event(fmt::format_string<Args...> format, Args&&... args) {
    if (buffer_.size() > (1 << 16)) flush();
    add("{}", first_event_ ? "\n" : ",\n");
    first_event_ = false;
    add(format, std::forward<Args>(args)...);
  }

  void write_head() {
    const RunInfo& info = recording_.info;
    const AttentionShape& s = info.shape;
    add("{{\n\"schemaVersion\": 1,\n");
    add("\"distributedInfo\": {{\"backend\": {}, \"rank\": 0, \"world_size\": {}}},\n",
        json_string(info.backend), info.world_size);
    add("\"ring\": {{\"schema_version\": 1, \"partition\": {}, \"mask\": {}, \"scheme\": {}, ",
        json_string(info.partition), json_string(info.mask), json_string(info.scheme));
    add("\"shape\": {{\"batch\": {}, \"num_heads\": {}, \"num_heads_kv\": {}, \"seqlen\": {}, "
        "\"head_dim\": {}}}, \"dtype\": {}, ",
        s.batch, s.num_heads, s.num_heads_kv, s.seqlen, s.head_dim, json_string(info.dtype));
    if (info.kv_buffers > 0) add("\"kv_buffers\": {}, ", info.kv_buffers);
    if (info.failure) write_failure(*info.failure);
    if (info.training)
      add("\"train_step\": {}, \"layer\": {}, \"layers\": {}, ", info.training->train_step,
          info.training->layer, info.training->layers);
    add("\"clock_offset_ns\": [{}], \"clock_error_ns\": [{}], \"dropped_events\": [{}]}},\n",
        fmt::join(info.clock_offset_ns, ", "), fmt::join(info.clock_error_ns, ", "),
        fmt::join(recording_.dropped, ", "));
    write_story();
    add("\"baseTimeNanoseconds\": {},\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [",
        info.base_time_ns);
  }

  void write_failure(const RunEnd& failure) {
    add("\"failure\": {{\"message\": {}", json_string(as_utf8(failure.message)));
    if (failure.rank >= 0) add(", \"rank\": {}", failure.rank);
    if (failure.step >= 0) add(", \"step\": {}", failure.step);
    add("}}, ");
  }

  // Write the story early in the file; other readers pass over it.
  void write_story() {
    if (recording_.story.empty()) return;
    add("\"story\": [");
    for (const StoryStep& step : recording_.story) {
      add("{}\n{{\"text\": {}", &step == recording_.story.data() ? "" : ",",
          json_string(step.text));
      if (step.pass) add(", \"pass\": \"{}\"", name_of(*step.pass));
      if (step.step >= 0) add(", \"step\": {}", step.step);
      if (step.rank >= 0) add(", \"rank\": {}", step.rank);
      if (step.lane) add(", \"lane\": \"{}\"", name_of(*step.lane));
      if (step.figure) add(", \"figure\": \"{}\"", name_of(*step.figure));
      add("}}");
    }
    add("\n],\n");
  }

  void write_names(std::size_t rank) {
    const auto metadata = [&](const char* name, int tid, const std::string& args) {
      begin_event(R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{{}}}}})", name,
                  rank, tid, args);
    };
    metadata("process_name", 0, fmt::format(R"("name": "rank {}")", rank));
    metadata("process_sort_index", 0, fmt::format(R"("sort_index": {})", rank));
    for (const Lane lane : kAllLanes) {
      const int tid = static_cast<int>(lane);
      metadata("thread_name", tid, fmt::format(R"("name": "{}")", name_of(lane)));
      metadata("thread_sort_index", tid, fmt::format(R"("sort_index": {})", tid));
    }
    if (recording_.model.empty()) return;
    metadata("thread_name", kModelTid, fmt::format(R"("name": "{}")", kModelLane));
    metadata("thread_sort_index", kModelTid, R"("sort_index": -1)");  // above the ring it contains
  }

  void write_slice(std::size_t rank, const TraceEvent& e) {
    begin_event(R"({{"ph": "X", "cat": "{}", "name": ")", name_of(e.lane));
    const bool backward = e.pass == Pass::backward;
    switch (e.lane) {
      case Lane::compute:
        add("attend kv {}", e.kv_owner);
        break;
      case Lane::wait:
        add("wait for rank {}", e.waiting_for);
        break;
      default:
        add("{} {} {}", name_of(e.lane), name_of(e.payload), e.kv_owner);
    }
    add(R"({}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, )", backward ? " (backward)" : "", rank,
        static_cast<int>(e.lane), microseconds(e.begin_ns), microseconds(e.end_ns - e.begin_ns));
    add(R"("args": {{"pass": "{}", "step": {}, "kv_owner": {}, )", name_of(e.pass), e.step,
        e.kv_owner);
    switch (e.lane) {
      case Lane::compute:
        add(R"("pairs": {}, "flops": {}, "tiles_full": {}, "tiles_partial": {}, )", e.pairs,
            e.flops, e.tiles_full, e.tiles_partial);
        add(R"("tiles_skipped": {}, "cpu_us": {}, "stream": 0}}}})", e.tiles_skipped,
            microseconds(e.cpu_ns));
        break;
      case Lane::wait:
        add(R"("payload": "{}", "waiting_for": {}}}}})", name_of(e.payload), e.waiting_for);
        break;
      default:
        add(R"("payload": "{}", "bytes": {}, "src": {}, "dst": {}, "flow": {}}}}})",
            name_of(e.payload), e.bytes, e.src, e.dst, e.flow);
    }
  }

  void write_span(std::size_t rank, const ModelSpan& span) {
    const bool of_layer = span.layer >= 0;
    begin_event(R"({{"ph": "X", "cat": "{}", "name": "{}{}{}", "pid": {}, "tid": {}, )", kModelLane,
                name_of(span.part), of_layer ? fmt::format(" {}", span.layer) : "",
                span.pass == Pass::backward ? " (backward)" : "", rank, kModelTid);
    add(R"("ts": {}, "dur": {}, "args": {{"part": "{}", "pass": "{}")", microseconds(span.begin_ns),
        microseconds(span.end_ns - span.begin_ns), name_of(span.part), name_of(span.pass));
    if (of_layer) add(R"(, "layer": {})", span.layer);
    if (span.bytes > 0) add(R"(, "bytes": {})", span.bytes);
    add("}}}}");
  }

  // Write the flows. A flow that lacks an end (because its event was dropped) is left out.
  void write_flows() {
    std::vector<FlowEnd> ends;
    for (std::size_t rank = 0; rank < recording_.events.size(); ++rank)
      for (const TraceEvent& e : recording_.events[rank])
        if (e.flow != 0 && (e.lane == Lane::send || e.lane == Lane::recv))
          ends.push_back({e.flow, e.lane, rank, &e});
    std::stable_sort(ends.begin(), ends.end(), [](const FlowEnd& a, const FlowEnd& b) {
      return std::tie(a.flow, a.lane) < std::tie(b.flow, b.lane);
    });
    for (std::size_t i = 0; i + 1 < ends.size(); ++i)
      if (ends[i].flow == ends[i + 1].flow && ends[i].lane == Lane::send &&
          ends[i + 1].lane == Lane::recv)
        write_flow(ends[i], ends[i + 1]);
  }

  void write_flow(const FlowEnd& send, const FlowEnd& recv) {
    // If the slices overlap, both ends get the same time, because a flow that ends before it starts
    // is not drawn.
    const std::int64_t both = std::max(send.event->begin_ns, recv.event->begin_ns);
    const bool overlap = both < send.event->end_ns && both < recv.event->end_ns;
    const auto end = [&](const char* phase, const FlowEnd& at) {
      begin_event(R"({{"ph": {}, "id": {}, "cat": "flow", "name": "{}", )", phase, at.flow,
                  name_of(send.event->payload));
      add(R"("pid": {}, "tid": {}, "ts": {}}})", at.rank, static_cast<int>(at.lane),
          microseconds(overlap ? both : at.event->begin_ns));
    };
    end(R"("s")", send);
    end(R"("f", "bp": "e")", recv);
  }

  void write_sample(const SoftmaxSample& s) {
    begin_event(R"({{"ph": "i", "s": "t", "cat": "softmax", "name": "softmax of query {}", )",
                s.query);
    add(R"("pid": {}, "tid": 0, "ts": {}, "args": {{"step": {}, "query": {}, )", s.rank,
        microseconds(s.at_ns), s.step, s.query);
    add(R"("row_max": {}, "row_sum": {}, "lse": {}, "lse_error": {}}}}})", json_float(s.row_max),
        json_float(s.row_sum), json_float(s.lse), json_float(s.lse_error));
  }

  const Sink& sink_;
  const Recording& recording_;
  fmt::memory_buffer buffer_;
  bool first_event_ = true;
};

// Throw InputError for a story that the reader would refuse.
void require_readable(const std::vector<StoryStep>& story, int world_size) {
  if (story.size() > kMaxStorySteps)
    throw InputError(fmt::format("recording: a story of {} paragraphs given; up to {} accepted",
                                 story.size(), kMaxStorySteps));
  for (const StoryStep& step : story) {
    if (step.text.empty() || step.text.size() > kMaxStoryText)
      throw InputError(
          fmt::format("recording: a paragraph of {} bytes given for its story; 1 to {} accepted",
                      step.text.size(), kMaxStoryText));
    for (const int value : {step.rank, step.step})
      if (value < -1 || value >= world_size)
        throw InputError(
            fmt::format("recording: {} given in its story; ranks and steps below world_size {} "
                        "accepted, -1 for none",
                        value, world_size));
  }
}

void write_with(const Sink& sink, const Recording& recording) {
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
  require_readable(recording.story, recording.info.world_size);
  TraceWriter(sink, recording).write();
}

}  // namespace

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

void write_chrome_trace(const std::string& path, const Recording& recording) {
  AtomicFile file(path);
  write_chrome_trace(file, recording);
  file.commit();
}

}  // namespace ringscope
