// Turns the events of traces that are not ours into slices: slices from X events and from pairs of
// B and E, names and order from metadata. It counts and ignores what is odd but harmless, and refuses
// what would put a slice in the wrong place.
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
  };
  static Id id_of(const TraceFields& fields, EventField field);
  std::uint32_t process_of(const TraceFields& fields);
  std::uint32_t thread_of(const TraceFields& fields);
  void add_slice(const TraceFields& fields, char phase);
  void add_metadata(const TraceFields& fields);
  void close_edges();
  void make_rows(std::optional<std::int64_t> rank);

  Trace trace_;
  NameTable names_;
  std::vector<Process> processes_;
  std::vector<Thread> threads_;
  std::map<Id, std::uint32_t> process_numbers_;
  std::map<std::pair<std::uint32_t, Id>, std::uint32_t> thread_numbers_;
  std::uint32_t last_thread_ = 0;
  std::int64_t last_ns_ = 0;  // when the last slice or edge ends
  bool from_profiler_ = false;
  std::size_t count_ = 0;
};

}  // namespace ringscope::viz
