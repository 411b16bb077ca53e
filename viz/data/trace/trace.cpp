#include "viz/data/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/ring/scheme.h"
#include "viz/data/trace/ring_trace.h"

namespace ringscope::viz {
namespace {

// Return one more than the highest step of a pass.
int steps_of(const Trace& trace, Pass pass) {
  if (!trace.is_ring()) return 0;
  int steps = 0;
  for (const Row& row : trace.rows)
    for (const Slice& slice : row.slices)
      if (slice.pass == pass) steps = std::max(steps, slice.step + 1);
  return steps;
}

}  // namespace

std::string way_of(const RunInfo& run) {
  if (run.scheme != default_scheme()->name) return " · " + run.scheme;
  return run.kv_buffers > 2 ? fmt::format(" · {} buffers", run.kv_buffers) : "";
}

std::string Trace::title() const {
  if (!run) return path.substr(path.find_last_of('/') + 1);
  const std::string training = run->training
                                   ? fmt::format(" · training step {}, layer {}",
                                                 run->training->train_step, run->training->layer)
                                   : "";
  // Without shapes, only a causal mask is told, by what steps take.
  const std::string dealt = run->lacks_shape && run->mask == "full"
                                ? "a ring of attention"
                                : fmt::format("{} · {}", run->partition, run->mask);
  return fmt::format("{} · {} rank{}{}{}", dealt, run->world_size, run->world_size == 1 ? "" : "s",
                     way_of(*run), training);
}

bool is_unrecorded(const Trace& trace, int rank) {
  constexpr std::size_t kMany = 16;
  if (!trace.is_ring() || !trace.run->is_whole() || trace.ranks.size() <= kMany) return false;
  const RankTrack& track = trace.ranks[rank];
  for (std::uint32_t l = track.first_lane; l < track.first_lane + track.lanes; ++l)
    for (std::uint32_t row = 0; row < trace.lanes[l].rows; ++row)
      if (!trace.rows[trace.lanes[l].first_row + row].slices.empty()) return false;
  return true;
}

int step_count(const Trace& trace) {
  return steps_of(trace, Pass::forward) + steps_of(trace, Pass::backward);
}

int forward_step_count(const Trace& trace) { return steps_of(trace, Pass::forward); }

std::vector<Stretch> ring_stretches(const Trace& trace, int rank) {
  Stretch passes[2] = {{INT64_MAX, INT64_MIN}, {INT64_MAX, INT64_MIN}};
  for (const RingLane lane : {RingLane::compute, RingLane::wait})
    for (const Slice& slice : trace.slices_of(rank, lane)) {
      Stretch& pass = passes[static_cast<int>(slice.pass)];
      pass.begin_ns = std::min(pass.begin_ns, slice.begin_ns);
      pass.end_ns = std::max(pass.end_ns, slice.end_ns);
    }
  std::vector<Stretch> stretches;
  for (const Stretch& pass : passes)
    if (pass.begin_ns <= pass.end_ns) stretches.push_back(pass);
  // In a file that is not ours, passes may overlap; then they are one.
  if (stretches.size() == 2 && stretches[1].begin_ns < stretches[0].end_ns)
    stretches = {{std::min(stretches[0].begin_ns, stretches[1].begin_ns),
                  std::max(stretches[0].end_ns, stretches[1].end_ns)}};
  return stretches;
}

const KernelSpan* kernel_span(const Trace& trace, SliceId id) {
  const Slice& slice = trace.slice(id);
  const auto part = kernel_part(slice);
  const Lane& lane = trace.lanes[trace.rows[id.row].lane];
  if (!part || lane.rank >= trace.kernel.size()) return nullptr;
  for (const KernelSpan& span : trace.kernel[lane.rank])
    if (span.tid() == lane.tid && span.part == *part && span.begin_ns == slice.begin_ns &&
        span.end_ns == slice.end_ns)
      return &span;
  return nullptr;
}

const std::vector<Slice>& model_slices(const Trace& trace, int rank) {
  static const std::vector<Slice> kNone;
  return trace.has_model() ? trace.rows[model_lane(trace, rank).first_row].slices : kNone;
}

namespace {

// Of slices that begin at once, the longest contains the others, except those that take no time,
// which come before it.
bool comes_before(const Slice& a, const Slice& b) {
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  if (a.duration_ns() == 0 || b.duration_ns() == 0)
    return a.duration_ns() == 0 && b.duration_ns() != 0;
  return a.end_ns > b.end_ns;
}

}  // namespace

std::uint32_t NameTable::number_of(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);
  return number;
}

std::vector<std::string> NameTable::take() {
  numbers_.clear();
  std::vector<std::string> texts(std::make_move_iterator(texts_.begin()),
                                 std::make_move_iterator(texts_.end()));
  texts_.clear();
  return texts;
}

std::vector<std::vector<Slice>> rows_of(std::vector<Slice> slices, std::int64_t* overlap) {
  // Sorting takes memory for half of the slices, and recorders mostly write in order.
  if (!std::is_sorted(slices.begin(), slices.end(), comes_before))
    std::stable_sort(slices.begin(), slices.end(), comes_before);
  std::vector<std::uint16_t> row_of(slices.size());
  std::vector<std::int64_t> ends;  // of each row's last slice
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    std::size_t row = 0;
    for (std::size_t above = ends.size(); above-- > 0;)
      if (ends[above] > slice.begin_ns && ends[above] >= slice.end_ns) {
        row = above + 1;
        break;
      }
    if (overlap != nullptr && *overlap < 0)
      for (const std::int64_t end : ends)
        if (end > slice.begin_ns && end < slice.end_ns) *overlap = slice.begin_ns;
    while (row < ends.size() && ends[row] > slice.begin_ns) ++row;
    if (row == kMaxRows)
      throw InputError(
          fmt::format("more than {} slices over each other on one thread at {} ns; "
                      "at most {} accepted",
                      kMaxRows, slice.begin_ns, kMaxRows));
    if (row == ends.size()) {
      ends.push_back(0);
      counts.push_back(0);
    }
    ends[row] = slice.end_ns;
    ++counts[row];
    row_of[i] = static_cast<std::uint16_t>(row);
  }
  std::vector<std::vector<Slice>> rows(std::max<std::size_t>(ends.size(), 1));
  if (ends.size() <= 1) {
    rows[0] = std::move(slices);
    return rows;
  }
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row].reserve(counts[row]);
  for (std::size_t i = 0; i < slices.size(); ++i) rows[row_of[i]].push_back(slices[i]);
  return rows;
}

void append_lane(Trace& trace, std::size_t rank, std::int64_t tid, std::string name,
                 std::vector<std::vector<Slice>> rows) {
  const auto lane = static_cast<std::uint32_t>(trace.lanes.size());
  trace.lanes.push_back({.rank = static_cast<std::uint32_t>(rank),
                         .tid = tid,
                         .name = std::move(name),
                         .first_row = static_cast<std::uint32_t>(trace.rows.size()),
                         .rows = static_cast<std::uint32_t>(rows.size())});
  ++trace.ranks[rank].lanes;
  for (std::size_t depth = 0; depth < rows.size(); ++depth)
    trace.rows.push_back({lane, static_cast<std::uint32_t>(depth), std::move(rows[depth])});
}

void measure_extent(Trace& trace) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  trace.slice_count = 0;
  for (const Row& row : trace.rows) {
    trace.slice_count += row.slices.size();
    for (const Slice& slice : row.slices) {
      begin = std::min(begin, slice.begin_ns);
      end = std::max(end, slice.end_ns);
    }
  }
  trace.begin_ns = trace.slice_count > 0 ? begin : 0;
  trace.end_ns = trace.slice_count > 0 ? end : 0;
}

}  // namespace ringscope::viz
