#include "viz/data/timeline/axis.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {
namespace {

constexpr std::int64_t kUnknown = INT64_MAX;

// Place the steps without a recorded begin, and keep all in order. Between two steps of a pass they share
// the time in which the rank attends nothing. Where nothing follows in the pass, they take no time.
// `worked` has the end of each step's work, or kUnknown.
void fill_gaps(std::int64_t* begins, const std::int64_t* worked, int steps, int forward_steps) {
  int known = 0;
  for (int step = 1; step <= steps; ++step) {
    if (begins[step] == kUnknown) continue;
    begins[step] = std::clamp(begins[step], begins[known], begins[steps]);
    const bool in_one_pass = step < steps && (known < forward_steps) == (step < forward_steps);
    std::int64_t idle_ns = begins[step];
    if (in_one_pass)
      idle_ns = std::clamp(worked[known] == kUnknown ? 0 : worked[known], begins[known], idle_ns);
    for (int gap = known + 1; gap < step; ++gap)
      begins[gap] = idle_ns + (begins[step] - idle_ns) / (step - known - 1) * (gap - known - 1);
    known = step;
  }
}

// Close the last step that a rank of a failed run reached. It begins when the rank has computed
// what it did, and lasts until the run ends.
void end_in_a_step(std::int64_t* begins, int steps, std::int64_t computed_ns, std::int64_t end_ns) {
  int last = steps - 1;
  while (last > 0 && begins[last] == kUnknown) --last;
  if (last == steps - 1) return;
  if (computed_ns > begins[last]) begins[++last] = computed_ns;
  for (int step = last + 1; step <= steps; ++step) begins[step] = end_ns;
}

}  // namespace

Axis::Axis(const Trace& trace)
    : begin_ns_(trace.begin_ns),
      end_ns_(trace.end_ns),
      steps_(step_count(trace)),
      forward_steps_(forward_step_count(trace)) {
  if (steps_ == 0) return;
  boundaries_.assign(trace.ranks.size() * (static_cast<std::size_t>(steps_) + 1), kUnknown);
  lengths_.assign(static_cast<std::size_t>(steps_), 1);
  last_steps_.assign(trace.ranks.size(), 0);
  first_begins_.assign(static_cast<std::size_t>(steps_), kUnknown);
  for (int rank = 0; rank < trace.rank_count(); ++rank) add_rank(trace, rank);
  // A step at which no rank works begins with the one before.
  for (int step = 1; step < steps_; ++step)
    if (first_begins_[step] == kUnknown) first_begins_[step] = first_begins_[step - 1];
}

void Axis::add_rank(const Trace& trace, int rank) {
  std::int64_t* const begins =
      boundaries_.data() + static_cast<std::ptrdiff_t>(rank) * (std::ptrdiff_t{steps_} + 1);
  std::vector<std::int64_t> worked(static_cast<std::size_t>(steps_), kUnknown);  // ends
  std::int64_t end = INT64_MIN, computed = begin_ns_;
  const RankTrack& track = trace.ranks[rank];
  for (std::uint32_t l = track.first_lane; l < track.first_lane + track.lanes; ++l)
    for (std::uint32_t row = trace.lanes[l].first_row;
         row < trace.lanes[l].first_row + trace.lanes[l].rows; ++row)
      for (const TraceEvent& slice : trace.slices(row)) {
        end = std::max(end, slice.end_ns);
        // The wait for a gradient begins no step, because it comes when the step's own work is over.
        const bool begins_step = slice.lane == Lane::compute ||
                                 (slice.lane == Lane::wait && slice.payload == Payload::kv);
        const int step = axis_step(slice, forward_steps_);
        if (!begins_step || step < 0 || step >= steps_) continue;
        if (slice.lane == Lane::compute) computed = std::max(computed, slice.end_ns);
        begins[step] = std::min(begins[step], slice.begin_ns);
        std::int64_t& last = worked[static_cast<std::size_t>(step)];
        last = last == kUnknown ? slice.end_ns : std::max(last, slice.end_ns);
      }
  begins[0] = begin_ns_;
  begins[steps_] = end == INT64_MIN ? end_ns_ : end;
  if (!trace.info.is_whole()) end_in_a_step(begins, steps_, computed, end_ns_);
  std::vector<Stretch> passes;
  if (trace.has_model()) passes = ring_stretches(trace, rank);
  if (!passes.empty()) begins[0] = passes.front().begin_ns;
  for (int step = 0; step < steps_; ++step)
    first_begins_[step] = std::min(first_begins_[step], begins[step]);
  fill_gaps(begins, worked.data(), steps_, forward_steps_);
  int pass_end = steps_;
  bool works_later = false;  // in the pass
  for (int step = steps_ - 1; step >= 0; --step) {
    if (step + 1 == forward_steps_) pass_end = forward_steps_, works_later = false;
    const int next = step + 1;
    std::int64_t until = begins[next];
    // Waiting for others when all of its own is attended would make a step longer than its work.
    if (trace.info.is_whole() && !works_later && next < pass_end && worked[step] != kUnknown)
      until = std::clamp(worked[step], begins[step], until);
    works_later |= worked[step] != kUnknown;
    if (works_later || !trace.info.is_whole())
      last_steps_[rank] = std::max(last_steps_[rank], step);
    // The last step of a pass ends with the pass, whatever the rank does next.
    if (!passes.empty() && next == pass_end)
      until =
          std::clamp((next == steps_ ? passes.back() : passes.front()).end_ns, begins[step], until);
    lengths_[step] = std::max(lengths_[step], until - begins[step]);
  }
}

double Axis::position(AxisMode mode, int rank, std::int64_t ns) const {
  if (mode == AxisMode::time) return ns - begin_ns_;
  if (boundaries_.empty()) return 0;
  const int step = step_at(rank, ns);
  const double within = static_cast<double>(ns - step_begin_ns(rank, step)) / step_length_ns(step);
  return step + std::clamp(within, 0.0, 1.0);
}

double Axis::end_position(AxisMode mode, int rank, const TraceEvent& slice) const {
  const std::int64_t inside = std::max(slice.begin_ns, slice.end_ns - 1);
  const int step = step_at(rank, inside);
  if (mode == AxisMode::time || boundaries_.empty() || inside == slice.end_ns)
    return position(mode, rank, slice.end_ns);
  const auto within = static_cast<double>(slice.end_ns - step_begin_ns(rank, step));
  return step + std::clamp(within / step_length_ns(step), 0.0, 1.0);
}

std::vector<std::pair<double, double>> Axis::places(AxisMode mode, int rank,
                                                    const TraceEvent& slice) const {
  const std::pair<double, double> whole(position(mode, rank, slice.begin_ns),
                                        end_position(mode, rank, slice));
  if (mode == AxisMode::time || boundaries_.empty()) return {whole};
  std::vector<std::pair<double, double>> places;
  for (int step = static_cast<int>(whole.first); step < whole.second; ++step) {
    const std::int64_t begin = step_begin_ns(rank, step), length = step_length_ns(step);
    const std::int64_t end = std::min(step_begin_ns(rank, step + 1), begin + length);
    const std::int64_t from = std::max(slice.begin_ns, begin), to = std::min(slice.end_ns, end);
    if (from < to)
      places.emplace_back(step + static_cast<double>(from - begin) / length,
                          step + static_cast<double>(to - begin) / length);
  }
  if (places.empty()) places.push_back(whole);
  return places;
}

std::int64_t Axis::time_at(AxisMode mode, int rank, double position) const {
  position = std::clamp(position, 0.0, length(mode));
  if (mode == AxisMode::time) return begin_ns_ + std::llround(position);
  if (boundaries_.empty()) return begin_ns_;
  const int step = std::min(static_cast<int>(position), steps_ - 1);
  const std::int64_t from = step_begin_ns(rank, step);
  const std::int64_t at = from + std::llround((position - step) * step_length_ns(step));
  if (step == steps_ - 1) return std::min(at, end_ns_);
  // Where nothing is left to attend, a step takes no time before the next pass begins.
  const bool is_over = is_backward(step_at(rank, from)) != is_backward(step);
  return std::max(is_over ? begin_ns_ : from, std::min(at, step_begin_ns(rank, step + 1) - 1));
}

double Axis::length(AxisMode mode) const {
  return mode == AxisMode::time ? static_cast<double>(end_ns_ - begin_ns_)
                                : static_cast<double>(boundaries_.empty() ? 0 : steps_);
}

int Axis::step_at(int rank, std::int64_t ns) const {
  if (boundaries_.empty() || ns <= begin_ns_) return 0;
  const auto begin =
      boundaries_.begin() + static_cast<std::ptrdiff_t>(rank) * (std::ptrdiff_t{steps_} + 1);
  const auto after = std::upper_bound(begin, begin + steps_, ns);
  return std::clamp(static_cast<int>(after - begin) - 1, 0, last_steps_[rank]);
}

int Axis::step_shown(AxisMode mode, int rank, double position) const {
  if (mode == AxisMode::time) return step_at(rank, time_at(mode, rank, position));
  return std::clamp(static_cast<int>(position), 0, std::max(steps_ - 1, 0));
}

std::int64_t Axis::step_begin_ns(int rank, int step) const {
  if (boundaries_.empty()) return begin_ns_;
  return boundaries_[static_cast<std::size_t>(rank) * (static_cast<std::size_t>(steps_) + 1) +
                     static_cast<std::size_t>(std::clamp(step, 0, steps_))];
}

double Axis::step_position(AxisMode mode, int rank, int step) const {
  if (mode == AxisMode::steps) return step;
  if (rank >= 0) return position(mode, rank, step_begin_ns(rank, step));
  return first_begins_.empty()
             ? 0
             : static_cast<double>(first_begins_[std::clamp(step, 0, steps_ - 1)] - begin_ns_);
}

std::int64_t Axis::step_length_ns(int step) const {
  return lengths_.empty() ? 1 : lengths_[std::clamp(step, 0, steps_ - 1)];
}

}  // namespace ringscope::viz
