// What loading any trace needs on the way to rows: names by number, slices in order, and slices that
// lie over each other dealt to several rows.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Every distinct text once, numbered by first use.
class NameTable {
 public:
  std::uint32_t number_of(std::string_view text);
  std::vector<std::string> take();

 private:
  std::deque<std::string> texts_;  // does not move them
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

// By begin; of those that begin together, the longest first; of equal ones, as they came.
void sort_slices(std::vector<Slice>& slices);

// Deals sorted slices to rows in which none overlap. A slice lies in a deeper row than all that
// contain it, and in the first such row with room. `overlap` is set to the begin of the first slice
// that overlaps an earlier one without nesting, -1 for none. Throws InputError when a lane would
// take more than kMaxRows.
inline constexpr std::size_t kMaxRows = 1000;
std::vector<std::vector<Slice>> rows_of(std::vector<Slice> slices, std::int64_t& overlap);

// Appends a lane with these rows to the trace, and to its last rank.
void append_lane(Trace& trace, std::int64_t tid, std::string name,
                 std::vector<std::vector<Slice>> rows);

// Sets begin_ns, end_ns and slice_count from the rows.
void measure_extent(Trace& trace);

}  // namespace ringscope::viz
