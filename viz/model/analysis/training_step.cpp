#include "viz/model/analysis/training_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "viz/model/session/format.h"

namespace ringscope::viz {
namespace {

std::uint32_t model_row(const Trace& trace, int rank) {
  const RankTrack& track = trace.ranks[static_cast<std::size_t>(rank)];
  return trace.lanes[track.first_lane + kModelTid].first_row;
}

}  // namespace

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

const std::vector<Slice>& model_slices(const Trace& trace, int rank) {
  static const std::vector<Slice> kNone;
  return trace.has_model() ? trace.rows[model_row(trace, rank)].slices : kNone;
}

std::string words_of_training(const Trace& trace) {
  if (!trace.has_model() || !trace.run->training) return "";
  double at_one = 0, at_all = 0;
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank) {
    for (const Stretch& stretch : ring_stretches(trace, rank))
      at_one += static_cast<double>(stretch.end_ns - stretch.begin_ns);
    const Lane& lane = trace.lanes[trace.rows[model_row(trace, rank)].lane];
    for (std::uint32_t row = lane.first_row; row < lane.first_row + lane.rows; ++row)
      for (const Slice& slice : trace.rows[row].slices)
        if (slice.part == static_cast<int>(ModelPart::ring))
          at_all += static_cast<double>(slice.duration_ns());
  }
  const double whole =
      std::max(static_cast<double>(trace.wall_ns()) * static_cast<double>(trace.ranks.size()), 1.0);
  const RecordedLayer& training = *trace.run->training;
  std::string text = fmt::format("Step {} of a training run: attention takes {} of it",
                                 training.train_step, words_of_share(at_all / whole));
  if (training.layers > 1)
    text += fmt::format("; shown slice by slice is that of layer {} (of 0 to {}), {}",
                        training.layer, training.layers - 1, words_of_share(at_one / whole));
  return text + ".";
}

}  // namespace ringscope::viz
