// Makes the viewer's Trace of one of our recordings, from its file or from memory. Sends are joined
// to receives by their flow. Any trace's names are numbered, and its slices put into rows, by the same means.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/trace/chrome_trace_reader.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// A NameTable holds every distinct text once, numbered by first use.
class NameTable {
 public:
  std::uint32_t number_of(std::string_view text);
  std::vector<std::string> take();

 private:
  std::deque<std::string> texts_;  // a deque, because growing must not move the keys' texts
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

// Gathers the slices of one lane. Growing moves none of them, because there may be millions.
class LaneSlices {
 public:
  static constexpr std::size_t kMaxRows = 1000;

  void push_back(const Slice& slice);
  bool empty() const { return pieces_.empty(); }
  // Take the slices, distributed to rows in which none overlap, each sorted by begin. A slice lies
  // in a deeper row than all that contain it, and in the first such row with room. Sets `overlap`
  // to the begin of the first slice that overlaps an earlier one without nesting, or to -1. Throws
  // InputError if the lane would take more than kMaxRows.
  std::vector<std::vector<Slice>> take_rows(std::int64_t& overlap);

 private:
  std::vector<Slice> take_sorted();
  std::vector<std::vector<Slice>> pieces_;
};

// Append a lane with these rows to the trace and to its rank at `rank`, which is the last with lanes.
void append_lane(Trace& trace, std::size_t rank, std::int64_t tid, std::string name,
                 std::vector<std::vector<Slice>> rows);

// Set begin_ns, end_ns and slice_count from the rows.
void measure_extent(Trace& trace);

class RingEvents : public TraceSink {
 public:
  RingEvents() = default;
  // Of these ranks (ascending) alone. Messages may lack an end.
  RingEvents(const RunInfo& run, const std::vector<int>& ranks);

  // If events were dropped, or if the run failed, messages may lack an end.
  void begin(const RunInfo& run, const std::vector<std::int64_t>& dropped) override;
  void slice(int rank, const TraceEvent& event, const TraceFields& fields) override;
  void span(int rank, const ModelSpan& span, const TraceFields& fields) override;
  void span(int rank, const KernelSpan& span, const TraceFields& fields) override;
  void sample(const SoftmaxSample& sample) override { trace_.samples.push_back(sample); }
  // Slices say everything that flow events say, which are for other viewers.
  void flow(const FlowEvent&) override { has_flow_events_ = true; }

  // Add a slice or span of the rank at `index`. `flow_at` is the byte that a complaint about the
  // slice's flow names.
  void add(std::size_t index, const TraceEvent& event, std::string_view name,
           std::uint64_t flow_at);
  void add(std::size_t index, const ModelSpan& span, std::string_view name);
  void add(std::size_t index, const KernelSpan& span, std::string_view name);

  std::size_t slices() const { return count_; }
  // Return the trace after all events were added. Of a file that is cut off, messages may lack an
  // end. Throws InputError.
  Trace finish(bool is_cut_off = false);

 private:
  // A MessageEnd is what a send or receive slice says about its message.
  struct MessageEnd {
    std::int64_t id = 0;
    std::uint64_t at = 0;
    SliceId slice;
    bool recv = false;
  };

  void make_rows();
  void join_messages();

  Trace trace_;
  bool ends_may_lack_ = true;
  NameTable names_;
  std::vector<LaneSlices> lanes_;  // [rank][lane]; slice.flow: 1 + index in messages_
  std::vector<LaneSlices> model_;  // [rank]; empty if no rank has model spans
  std::vector<std::map<int, LaneSlices>> kernel_;  // [rank][tid]; empty without stamps
  std::vector<MessageEnd> messages_;
  bool has_flow_events_ = false;
  std::size_t count_ = 0;
};

// Return the whole recording as a trace called `path`, as the loader would do with its file.
Trace to_trace(const Recording& recording, std::string path);

// Return a trace of `ranks` (ascending) alone, which keep their names. Messages are joined only
// between these ranks, so the sample suits the timeline but neither idle times nor balance.
Trace sample_trace(const Recording& recording, const std::vector<int>& ranks, std::string path);

}  // namespace ringscope::viz
