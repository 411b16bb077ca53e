// Interprets a recording's mask and partition, and counts single regions.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/ring/ring.h"
#include "viz/model/mask/mask_painter.h"

namespace ringscope::viz {

namespace {

// A table of ranks by ranks shows nothing beyond so many ranks.
constexpr std::size_t kMaxTable = 2048;

struct Place {
  int rank = 0;
  Index local = 0, global = 0;
};

// Return who holds line `at` of the picture.
Place place_of(const Partition& partition, MaskOrder order, Index at) {
  for (int rank = 0; rank < partition.world_size; ++rank) {
    const LocalRows rows = partition.rows_of(rank);
    if (order == MaskOrder::global) {
      const Index local = rows.rows_below(at);
      if (rows.rows_below(at + 1) > local) return {rank, local, at};
    } else {
      if (at < rows.size()) return {rank, at, rows.global_position(at)};
      at -= rows.size();
    }
  }
  return {-1, 0, 0};
}

}  // namespace

std::optional<MaskModel> mask_model(const Trace& trace) {
  if (!trace.is_ring()) return std::nullopt;
  try {
    MaskModel model;
    const RunInfo& run = *trace.run;
    if (run.shape.seqlen < 1 || run.shape.seqlen > kMaxSeqlen || run.world_size < 1)
      return std::nullopt;
    model.spec = MaskSpec::recorded(run.mask, run.mask_slices);
    model.partition_spec = PartitionSpec::recorded(run.partition, run.partition_runs,
                                                   run.shape.seqlen, run.world_size);
    model.partition = model.partition_spec.of(run.shape.seqlen, run.world_size);
    static_cast<void>(model.mask());  // throws if documents don't sum up to seqlen
    return model;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

MaskProgress mask_progress(const RingMoment& moment, const Trace& trace) {
  MaskProgress progress;
  const std::size_t ranks = moment.ranks.size();
  if (!trace.is_ring() || ranks > kMaxTable) return progress;
  progress.done.assign(ranks * ranks, 0);
  progress.active.assign(ranks * ranks, false);
  const int n = static_cast<int>(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const RankMoment& at = moment.ranks[rank];
    // The block that the rank holds gives the ring step of its pass.
    const int now = step_with(static_cast<int>(rank), at.kv_owner, n);
    for (int step = 0; step <= now; ++step) {
      const int owner = RingSchedule{static_cast<int>(rank), n}.owner(step);
      const std::size_t cell = rank * ranks + static_cast<std::size_t>(owner);
      progress.done[cell] = step < now ? 1 : at.progress;
      progress.active[cell] = step == now && at.doing == RankMoment::computing;
    }
  }
  return progress;
}

std::optional<MaskPoint> mask_point(const MaskModel& model, MaskOrder order, double x, double y) {
  if (!(x >= 0 && x < 1 && y >= 0 && y < 1)) return std::nullopt;
  const Index rows = model.partition.seqlen;
  const auto line = [rows](double share) {
    return min_of(static_cast<Index>(share * static_cast<double>(rows)), rows - 1);
  };
  const Place query = place_of(model.partition, order, line(y));
  const Place key = place_of(model.partition, order, line(x));
  if (query.rank < 0 || key.rank < 0) return std::nullopt;
  return MaskPoint{query.rank,
                   key.rank,
                   query.global,
                   key.global,
                   query.local,
                   key.local,
                   model.mask().allows(query.global, key.global)};
}

}  // namespace ringscope::viz
