// Helps to load any trace into rows: it numbers names, sorts slices, and distributes slices that
// overlap to several rows.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

}  // namespace ringscope::viz
