#include "viz/data/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ring/scheme.h"

namespace ringscope::viz {

std::string way_of(const RunInfo& run) {
  const Travel travel = travel_of(run);
  const bool is_ring = travel.what == Travels::blocks && travel.visits_all && !travel.is_gathered;
  if (!is_ring) return " · " + run.scheme;
  return run.kv_buffers > 2 ? fmt::format(" · {} buffers", run.kv_buffers) : "";
}

std::string title_of(const Trace& trace) {
  const RunInfo& info = trace.info;
  if (!trace.is_ring) return trace.path.substr(trace.path.find_last_of('/') + 1);
  const std::string training = info.training
                                   ? fmt::format(" · training step {}, layer {}",
                                                 info.training->train_step, info.training->layer)
                                   : "";
  // Without shapes, only a causal mask is told, by what steps take.
  const std::string dealt = info.lacks_shape && info.mask == "full"
                                ? "a ring of attention"
                                : fmt::format("{} · {}", info.partition, info.mask);
  return fmt::format("{} · {} rank{}{}{}", dealt, info.world_size, info.world_size == 1 ? "" : "s",
                     way_of(info), training);
}

std::string name_of_message(const Trace& trace, const TraceEvent& message) {
  const std::string_view what =
      travel_of(trace.info).name_of(message.pass, message.payload, message.src, message.dst);
  if (what == "heads") return std::string(what);  // a rank sends those of all
  return fmt::format("{} {}", what, message.kv_owner);
}

bool is_unrecorded(const Trace& trace, int rank) {
  constexpr std::size_t kMany = 16;
  return trace.is_ring && trace.info.is_whole() && trace.ranks.size() > kMany &&
         trace.events[rank].empty();
}

std::vector<Stretch> ring_stretches(const Trace& trace, int rank) {
  Stretch passes[2] = {{INT64_MAX, INT64_MIN}, {INT64_MAX, INT64_MIN}};
  for (const Lane lane : {Lane::compute, Lane::wait})
    for (const TraceEvent& slice : trace.slices_of(rank, lane)) {
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

std::span<const TraceEvent> model_slices(const Trace& trace, int rank) {
  if (!trace.has_model()) return {};
  return trace.slices(model_lane(trace, rank).first_row);
}

}  // namespace ringscope::viz
