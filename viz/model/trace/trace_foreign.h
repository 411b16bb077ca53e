// Turns the events of traces that are not ours into slices: slices from X events and from pairs of
// B and E, names and order from metadata, flows bound to the slices around them. It counts and
// ignores what is odd but harmless, and refuses what would put a slice in the wrong place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/trace/trace_fields.h"
#include "viz/model/trace/trace.h"
#include "viz/model/trace/trace_rows.h"

namespace ringscope::viz {

class ForeignEvents {
 public:
  // Add one event.
  void add(const TraceFields& fields);
  std::size_t slices() const { return count_; }
  bool from_profiler() const { return from_profiler_; }
  // Return the trace after all events were added. If `rank` is set, all processes belong to it.
  Trace finish(std::optional<std::int64_t> rank, std::uint64_t end);

 private:
  static constexpr std::uint32_t kNoLane = UINT32_MAX;

  // An Id is a process or thread as the file names it, by number or by text.
  struct Id {
    std::int64_t number = 0;
    std::string text;  // if empty, the number counts
    bool operator==(const Id&) const = default;
    bool operator<(const Id& other) const {
      return std::tie(number, text) < std::tie(other.number, other.text);
    }
  };
  struct Process {
    Id id;
    std::string name;
    std::int64_t sort_index = 0;
  };
  // An Edge is a B or E event.
  struct Edge {
    Slice slice;  // begins at the edge's time
    std::uint64_t at = 0;
    bool begins = false;
  };
  struct Thread {
    std::uint32_t process = 0;
    Id id;
    std::string name;
    std::int64_t sort_index = 0;
    bool device = false;
    LaneSlices slices;
    std::vector<Edge> edges;
    std::uint32_t lane = kNoLane;  // index in Trace::lanes
  };
  struct FlowEvent {
    std::uint32_t key = 0;  // number of category and id in keys_
    std::uint32_t thread = 0;
    std::int64_t ts = 0;
    char phase = 's';
    bool enclosing = true;  // binds to the slice around it, not to the next one
  };

  static Id id_of(const TraceFields& fields, EventField field);
  std::uint32_t process_of(const TraceFields& fields);
  std::uint32_t thread_of(const TraceFields& fields);
  void add_slice(const TraceFields& fields, char phase);
  void add_metadata(const TraceFields& fields);
  void add_flow_event(const TraceFields& fields, char phase);
  void close_edges();
  void make_rows(std::optional<std::int64_t> rank);
  std::optional<SliceId> slice_of(const FlowEvent& event, const Trace& trace) const;
  void bind_flows();

  Trace trace_;
  NameTable names_, keys_;
  std::vector<Process> processes_;
  std::vector<Thread> threads_;
  std::map<Id, std::uint32_t> process_numbers_;
  std::map<std::pair<std::uint32_t, Id>, std::uint32_t> thread_numbers_;
  std::vector<FlowEvent> flow_events_;
  std::uint32_t last_thread_ = 0;
  std::int64_t last_ns_ = 0;  // when the last slice or edge ends
  bool from_profiler_ = false;
  std::size_t count_ = 0;
};

}  // namespace ringscope::viz
