#include "core/tools/foreign/merged_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/fields.h"

namespace ringscope {
namespace {

class MergedTraceWriter {
 public:
  explicit MergedTraceWriter(AtomicFile& file) : file_(file) {
    text_ = "{\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [";
  }

  void write(const Trace& trace, const std::string& before_names) {
    places_.clear();
    for (const TraceFlow& flow : trace.flows)
      for (const SliceId id : {flow.from, flow.to}) places_[{id.row, id.index}] = {};
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
      const RankTrack& track = trace.ranks[rank];
      begin_process(before_names + track.name);
      for (std::uint32_t l = track.first_lane; l < track.first_lane + track.lanes; ++l)
        write_lane(trace, l);
    }
    write_flows(trace);
    if (!trace.is_ring) return;
    begin_process(before_names + "all ranks");
    write_counters(trace);
  }

  void finish() {
    text_ += "\n]}\n";
    file_.write(text_);
  }

 private:
  // Where a slice stands in the file.
  struct Place {
    int process = 0, thread = 0;
  };

  // Begin an event of this process and thread; the caller ends it by "}".
  void begin_event(char phase, const Place& place, std::string_view name) {
    if (text_.size() > (1 << 16)) file_.write(std::exchange(text_, ""));
    text_ += std::exchange(first_, false) ? "\n" : ",\n";
    add(R"({{"ph": "{}", "pid": {}, "tid": {}, "name": {})", phase, place.process, place.thread,
        Json(name).text());
  }
  void add_time(std::string_view key, std::int64_t ns) {
    add(R"(, "{}": {}.{:03})", key, ns / 1000, ns % 1000);
  }
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  // Numbers begin with 1, because Perfetto takes 0 for the system's idle process.
  void begin_process(const std::string& name) {
    ++process_;
    begin_event('M', {process_, 0}, "process_name");
    add(R"(, "args": {{"name": {}}}}})", Json(name).text());
    begin_event('M', {process_, 0}, "process_sort_index");
    add(R"(, "args": {{"sort_index": {}}}}})", process_);
  }
  int begin_thread(const std::string& name) {
    ++thread_;
    begin_event('M', {process_, thread_}, "thread_name");
    add(R"(, "args": {{"name": {}}}}})", Json(name).text());
    begin_event('M', {process_, thread_}, "thread_sort_index");
    add(R"(, "args": {{"sort_index": {}}}}})", thread_);
    return thread_;
  }

  // Write the slices of a lane. A thread's slices nest in Perfetto, so those that overlap others go to more
  // threads of the lane's name.
  void write_lane(const Trace& trace, std::uint32_t l) {
    const TraceLane& lane = trace.lanes[l];
    std::vector<SliceId> slices;
    for (std::uint32_t row = lane.first_row; row < lane.first_row + lane.rows; ++row)
      for (std::uint32_t i = 0; i < trace.rows[row].count; ++i) slices.push_back({row, i});
    std::stable_sort(slices.begin(), slices.end(), [&](SliceId a, SliceId b) {
      const TraceEvent &first = trace.slice(a), &second = trace.slice(b);
      return std::pair(first.begin_ns, -first.end_ns) < std::pair(second.begin_ns, -second.end_ns);
    });
    struct Thread {
      int number;
      std::vector<std::int64_t> ends;  // of the slices that are open, outermost first
    };
    std::vector<Thread> threads;
    for (const SliceId id : slices) {
      const TraceEvent& slice = trace.slice(id);
      const auto has_room = [&](Thread& thread) {
        while (!thread.ends.empty() && thread.ends.back() <= slice.begin_ns) thread.ends.pop_back();
        return thread.ends.empty() || thread.ends.back() >= slice.end_ns;
      };
      auto thread = std::find_if(threads.begin(), threads.end(), has_room);
      if (thread == threads.end())
        thread = threads.insert(threads.end(), Thread{begin_thread(lane.name), {}});
      thread->ends.push_back(slice.end_ns);
      write_slice(trace, id, {process_, thread->number});
    }
  }

  void write_slice(const Trace& trace, SliceId id, const Place& place) {
    const TraceEvent& slice = trace.slice(id);
    if (const auto end = places_.find({id.row, id.index}); end != places_.end())
      end->second = place;
    begin_event('X', place, trace.name(slice));
    add_time("ts", slice.begin_ns - trace.begin_ns);
    add_time("dur", slice.duration_ns());
    text_ += R"(, "args": {)";
    const char* gap = "";
    const auto argument = [&](const char* name, std::int64_t value, std::int64_t nothing) {
      if (value != nothing) add("{}\"{}\": {}", std::exchange(gap, ", "), name, value);
    };
    argument("step", slice.step, -1);
    argument("kv_owner", slice.kv_owner, -1);
    argument("peer", slice.peer(), -1);
    argument("pairs", slice.pairs, 0);
    argument("flops", slice.flops, 0);
    argument("bytes", slice.bytes, 0);
    text_ += "}}";
  }

  // Write both ends of each message. A flow that ends before it begins is not drawn, so where the slices
  // overlap its ends have one time.
  void write_flows(const Trace& trace) {
    for (const TraceFlow& flow : trace.flows) {
      const TraceEvent &from = trace.slice(flow.from), &to = trace.slice(flow.to);
      const std::int64_t both = std::max(from.begin_ns, to.begin_ns);
      const bool overlap = both < from.end_ns && both < to.end_ns;
      ++flow_;
      for (const bool ends : {false, true}) {
        const SliceId id = ends ? flow.to : flow.from;
        begin_event(ends ? 'f' : 's', places_.at({id.row, id.index}), "message");
        add_time("ts", (overlap ? both : trace.slice(id).begin_ns) - trace.begin_ns);
        add(R"(, "cat": "flow", "id": {}{}}})", flow_, ends ? R"(, "bp": "e")" : "");
      }
    }
  }

  // Write how many ranks compute and wait, and how many bytes are on their way, whenever that changes.
  void write_counters(const Trace& trace) {
    const auto counter = [&](const char* name, Lane lane, auto amount) {
      std::map<std::int64_t, std::int64_t> changes;
      for (int rank = 0; rank < trace.rank_count(); ++rank)
        for (const TraceEvent& slice : trace.slices_of(rank, lane)) {
          changes[slice.begin_ns] += amount(slice);
          changes[slice.end_ns] -= amount(slice);
        }
      std::int64_t now = 0;
      for (const auto& [ns, change] : changes) {
        now += change;
        begin_event('C', {process_, 0}, name);
        add_time("ts", ns - trace.begin_ns);
        add(R"(, "args": {{"value": {}}}}})", now);
      }
    };
    const auto one = [](const TraceEvent&) { return 1; };
    counter("ranks that compute", Lane::compute, one);
    counter("ranks that wait", Lane::wait, one);
    counter("bytes on their way", Lane::recv, [](const TraceEvent& slice) { return slice.bytes; });
  }

  AtomicFile& file_;
  std::string text_;
  bool first_ = true;
  int process_ = 0, thread_ = 0, flow_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Place> places_;  // of ends of flows
};

}  // namespace

void write_merged_trace(AtomicFile& file, const std::vector<Trace>& traces) {
  MergedTraceWriter writer(file);
  const auto file_name = [](const Trace& trace) {
    return std::filesystem::path(trace.path).filename().string();
  };
  std::set<std::string> names;
  for (const Trace& trace : traces) names.insert(file_name(trace));
  for (const Trace& trace : traces) {
    const bool is_clear = names.size() == traces.size();
    writer.write(trace,
                 traces.size() == 1 ? "" : (is_clear ? file_name(trace) : trace.path) + " \u00b7 ");
  }
  writer.finish();
}

}  // namespace ringscope
