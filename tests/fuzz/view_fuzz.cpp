// Whatever the viewer's loader is given, it answers with a trace whose parts fit together or with an
// InputError of one line; and the same, however the text is cut into chunks.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/tools/foreign/trace_files.h"

namespace {

using ringscope::SliceId;
using ringscope::Trace;
using ringscope::TraceEvent;
using ringscope::TraceLane;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_slices(const Trace& trace, std::uint32_t row) {
  const TraceEvent* before = nullptr;
  for (const TraceEvent& slice : trace.slices(row)) {
    require(trace.begin_ns <= slice.begin_ns && slice.begin_ns <= slice.end_ns &&
            slice.end_ns <= trace.end_ns);
    require(before == nullptr || before->end_ns <= slice.begin_ns);
    require(slice.name < trace.names.size() && slice.flow >= 0 &&
            static_cast<std::size_t>(slice.flow) <= trace.flows.size());
    require(slice.bytes >= 0 && slice.peer() >= -1);
    before = &slice;
  }
}

void check(const Trace& trace) {
  std::size_t slices = 0, lanes = 0;
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
    const TraceLane& lane = trace.lanes.at(trace.rows[row].lane);
    require(row == lane.first_row + trace.rows[row].depth && trace.rows[row].depth < lane.rows);
    slices += trace.slices(row).size();
    check_slices(trace, row);
  }
  require(slices == trace.slice_count);
  for (std::uint32_t rank = 0; rank < trace.ranks.size(); ++rank) {
    require(trace.ranks[rank].first_lane == lanes);
    lanes += trace.ranks[rank].lanes;
    for (std::uint32_t i = trace.ranks[rank].first_lane; i < lanes; ++i)
      require(trace.lanes.at(i).rank == rank && trace.lanes[i].rows > 0);
  }
  require(lanes == trace.lanes.size());
  for (const auto& flow : trace.flows)
    for (const SliceId end : {flow.from, flow.to})
      require(end.row < trace.rows.size() && end.index < trace.rows[end.row].count &&
              trace.slice(end).flow != 0);
  if (!trace.is_ring) return require(trace.slice_count > 0);
  const auto world_size = static_cast<std::size_t>(trace.info.world_size);
  require(trace.ranks.size() == world_size &&
          trace.lanes.size() == (trace.has_model() ? 5 : 4) * world_size);
  require(trace.story.size() <= ringscope::kMaxStorySteps);
  for (const ringscope::StoryStep& told : trace.story)
    require(!told.text.empty() && told.rank < trace.info.world_size &&
            told.step < trace.info.world_size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string complaint, chunked_complaint;
  Trace trace, chunked;
  try {
    trace = ringscope::parse_trace(text, "");
    check(trace);
  } catch (const ringscope::InputError& error) {
    complaint = error.what();
    for (const char c : complaint) require(c >= ' ' && c <= '~');
  }
  try {
    chunked = ringscope::parse_trace(text, "", 1 + size % 61);
  } catch (const ringscope::InputError& error) {
    chunked_complaint = error.what();
  }
  require(complaint == chunked_complaint);
  require(trace.rows.size() == chunked.rows.size() && trace.names == chunked.names &&
          trace.notices == chunked.notices && trace.story == chunked.story &&
          trace.flows.size() == chunked.flows.size());
  for (std::size_t row = 0; row < trace.rows.size(); ++row)
    require(std::ranges::equal(trace.slices(row), chunked.slices(row)));
  return 0;
}
