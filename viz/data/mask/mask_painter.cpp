#include "viz/data/mask/mask_painter.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/ring/ring.h"
#include "core/ring/scheme.h"

namespace ringscope::viz {
namespace {

// These are the strengths of pairs not yet attended, and of queries of ranks not looked at.
constexpr float kFaint = 0.2f, kDimmed = 0.25f;

using Rgb = std::array<float, 3>;

Rgb rgb_of(Color color) {
  return {static_cast<float>(color & 255), static_cast<float>(color >> 8 & 255),
          static_cast<float>(color >> 16 & 255)};
}

Rgb blend(const Rgb& under, const Rgb& over, float share) {
  Rgb result;
  for (std::size_t c = 0; c < 3; ++c) result[c] = under[c] + (over[c] - under[c]) * share;
  return result;
}

Color color_of(const Rgb& color) {
  const auto byte = [](float x) { return static_cast<int>(std::clamp(x, 0.0f, 255.0f) + 0.5f); };
  return rgb(byte(color[0]), byte(color[1]), byte(color[2]));
}

// BlockColors gives the colour of all allowed pairs of a rank's queries with an owner's keys.
class BlockColors {
 public:
  BlockColors(const MaskPaint& paint, int ranks)
      : paint_(paint),
        ranks_(static_cast<std::size_t>(ranks)),
        progress_(paint.progress != nullptr && paint.progress->done.size() == ranks_ * ranks_ &&
                          paint.progress->active.size() == ranks_ * ranks_
                      ? paint.progress
                      : nullptr) {
    const Palette& palette = palette_of(paint.theme);
    empty_ = rgb_of(palette.empty_tile);
    bright_ = rgb_of(palette.text);
    for (int owner = 0; owner < ranks; ++owner)
      owners_.push_back(rgb_of(paint.color_by == ColorBy::owner
                                   ? owner_color(paint.theme, owner, ranks)
                                   : palette.full_tile));
  }

  const Rgb& empty() const { return empty_; }
  bool active(int rank, int owner) const { return progress_ && progress_->active[at(rank, owner)]; }
  Rgb of(int rank, int owner) const {
    float strength = 1;
    if (progress_ != nullptr)
      strength = kFaint + (1 - kFaint) * static_cast<float>(progress_->done[at(rank, owner)]);
    Rgb color = owners_[owner];
    if (active(rank, owner)) {
      color = blend(color, bright_, 0.25f);
      strength = std::max(strength, 0.6f);
    }
    if (paint_.only_rank >= 0 && rank != paint_.only_rank) strength *= kDimmed;
    return blend(empty_, color, strength);
  }

 private:
  std::size_t at(int rank, int owner) const {
    return static_cast<std::size_t>(rank) * ranks_ + static_cast<std::size_t>(owner);
  }

  const MaskPaint& paint_;
  std::size_t ranks_;
  const MaskProgress* progress_;
  Rgb empty_{}, bright_{};
  std::vector<Rgb> owners_;
};

// Mixes groups the pixels of one side that mix the same ranks in the same shares.
struct Mixes {
  std::vector<std::vector<PictureSide::RankShare>> mixes;
  std::vector<std::size_t> of_pixel;  // [pixel]: index in `mixes`
  std::pair<PartitionSpec, PartitionSpec>
      owners;  // of the table by whose address they are found again

  Mixes(const MaskModel& model, const PictureSide& side, int pixels)
      : owners(model.partition_spec, model.query_spec) {
    std::map<std::vector<PictureSide::RankShare>, std::size_t> known;
    for (int pixel = 0; pixel < pixels; ++pixel) {
      auto mix = side.ranks_in(pixel);
      const auto [at, is_new] = known.emplace(std::move(mix), mixes.size());
      if (is_new) mixes.push_back(at->first);
      of_pixel.push_back(at->second);
    }
  }
};

// [mix of keys]: return the colours of a line whose queries are mixed as `queries` says.
std::vector<Rgb> line_colors(const BlockColors& colors,
                             const std::vector<PictureSide::RankShare>& queries, const Mixes& keys,
                             int ranks) {
  std::vector<Rgb> by_owner(static_cast<std::size_t>(ranks), Rgb{});
  for (const auto& [rank, share] : queries)
    for (int owner = 0; owner < ranks; ++owner) {
      const Rgb color = colors.of(rank, owner);
      for (std::size_t c = 0; c < 3; ++c) by_owner[owner][c] += share * color[c];
    }
  std::vector<Rgb> mixed;
  for (const auto& mix : keys.mixes) {
    Rgb& sum = mixed.emplace_back(Rgb{});
    for (const auto& [owner, share] : mix)
      for (std::size_t c = 0; c < 3; ++c) sum[c] += share * by_owner[owner][c];
  }
  return mixed;
}

// ---
// Interprets a recording's mask and partition, and counts single regions.

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

struct MaskModel::PaintedShares {
  MaskOrder order{};
  int width = 0, height = 0;
  std::vector<double> shares;

  void update(const MaskModel& model, const MaskPaint& paint, const Image& image,
              const PictureSide& queries, const PictureSide& keys) {
    if (order == paint.order && width == image.width && height == image.height) return;
    const Mask mask = model.mask();
    const MaskShares lines(model, mask, paint.order, queries, keys);
    shares.clear();
    std::vector<double> line;
    for (int y = 0; y < image.height; ++y) {
      lines.line(y, line);
      shares.insert(shares.end(), line.begin(), line.end());
    }
    order = paint.order;
    width = image.width;
    height = image.height;
  }
};

bool MaskModel::mixes_ranks() const {
  constexpr Index kMostStripes = 256;  // that a picture shows
  const LocalRows rows = partition.rows_of(0);
  const Index runs = rows.stride() != 1 ? rows.size() : rows.num_runs(0, rows.size());
  return runs * partition.world_size > kMostStripes;
}

void paint_mask(const MaskModel& model, const MaskPaint& paint, Image& image) {
  if (image.width <= 0 || image.height <= 0) return;
  const int ranks = model.partition.world_size;
  const PictureSide queries(model.partition.queries, paint.order, image.height);
  const PictureSide keys(model.partition, paint.order, image.width);
  // Where ranks and allowed pairs lie does not change while the playhead moves, and takes long for
  // many of them.
  const auto painted = model.painted ? model.painted : std::make_shared<MaskModel::PaintedShares>();
  painted->update(model, paint, image, queries, keys);
  const BlockColors colors(paint, ranks);
  using Key = std::tuple<PartitionKind, const Assignment*, Index, int, MaskOrder, int>;
  thread_local std::map<Key, Mixes> known;
  if (known.size() > 16) known.clear();
  const auto mixes = [&](const PictureSide& side, int pixels, const Partition& p) -> const Mixes& {
    const Key key(p.kind, p.assignment, p.seqlen, p.world_size, paint.order, pixels);
    return known.try_emplace(key, model, side, pixels).first->second;
  };
  const Mixes &query_mixes = mixes(queries, image.height, model.partition.queries),
              &key_mixes = mixes(keys, image.width, model.partition);

  std::vector<std::vector<Rgb>> lines(query_mixes.mixes.size());
  auto share = painted->shares.begin();
  for (int y = 0; y < image.height; ++y) {
    const std::size_t mix = query_mixes.of_pixel[y];
    if (lines[mix].empty())
      lines[mix] = line_colors(colors, query_mixes.mixes[mix], key_mixes, ranks);
    for (int x = 0; x < image.width; ++x)
      image.at(x, y) = color_of(blend(
          colors.empty(), lines[mix][key_mixes.of_pixel[static_cast<std::size_t>(x)]], *share++));
  }
}

std::optional<MaskModel> mask_model(const Trace& trace) {
  if (!trace.is_ring) return std::nullopt;
  try {
    MaskModel model;
    model.painted = std::make_shared<MaskModel::PaintedShares>();
    const RunInfo& run = trace.info;
    if (run.shape.seqlen < 1 || run.shape.seqlen > kMaxSeqlen || run.world_size < 1)
      return std::nullopt;
    model.spec = MaskSpec::recorded(run.mask, run.mask_slices);
    model.partition_spec = PartitionSpec::recorded(run.partition, run.partition_runs,
                                                   run.shape.seqlen, run.world_size);
    model.query_spec = run.partition_q.empty()
                           ? model.partition_spec
                           : PartitionSpec::recorded(run.partition_q, run.partition_q_runs,
                                                     run.shape.queries(), run.world_size);
    model.partition = Partitions(model.partition_spec.of(run.shape.seqlen, run.world_size),
                                 model.query_spec.of(run.shape.queries(), run.world_size),
                                 run.shape.first_query());
    static_cast<void>(model.mask());  // throws if documents don't sum up to seqlen
    return model;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

AttendedOrder::AttendedOrder(const Trace& trace) {
  if (!trace.is_ring || trace.ranks.size() > kMaxTable) return;
  const int ranks = trace.rank_count();
  forward_steps_ = forward_step_count(trace);
  queries_travel_ = travel_of(trace.info).moves_queries();
  for (auto& of_ranks : of_ranks_) of_ranks.resize(trace.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (const TraceEvent& s : trace.slices_of(rank, Lane::compute))
      if (s.step >= 0 && s.kv_owner >= 0 && s.kv_owner < ranks)
        of_ranks_[static_cast<std::size_t>(s.pass)][rank].push_back(
            {s.step, s.kv_owner, std::max(1.0, static_cast<double>(s.pairs)), 0});
    auto& forward = of_ranks_[0][rank];
    const bool is_recorded = !forward.empty();
    for (int step = 0; !is_recorded && step < ranks; ++step)
      forward.push_back({step, RingSchedule{rank, ranks}.owner(step), 1, 0});
    for (auto& of_ranks : of_ranks_) add_up(of_ranks[rank], ranks);
  }
}

void AttendedOrder::add_up(std::vector<Attended>& order, int ranks) {
  const auto by_step = [](const Attended& a, const Attended& b) { return a.step < b.step; };
  if (!std::is_sorted(order.begin(), order.end(), by_step))
    std::stable_sort(order.begin(), order.end(), by_step);
  // Parts of one block at one step are as far as each other.
  std::vector<Attended> blocks;
  for (const Attended& each : order)
    if (!blocks.empty() && blocks.back().step == each.step && blocks.back().owner == each.owner) {
      blocks.back().of_block += each.of_block;
    } else {
      blocks.push_back(each);
    }
  order = std::move(blocks);
  std::vector<double> sums(static_cast<std::size_t>(ranks));
  double all = 0;
  for (Attended& each : order) {
    each.of_rank = all += each.of_block;
    each.of_block = sums[each.owner] += each.of_block;
  }
  for (Attended& each : order) each.of_block /= sums[each.owner], each.of_rank /= all;
}

MaskProgress AttendedOrder::progress_at(const RingMoment& moment) const {
  MaskProgress progress;
  const std::size_t ranks = of_ranks_[0].size();
  if (moment.ranks.size() != ranks) return progress;
  progress.done.assign(ranks * ranks, 0);
  progress.active.assign(ranks * ranks, false);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const RankMoment& at = moment.ranks[rank];
    const bool backward = at.pass == Pass::backward;
    const int now = at.step - (backward ? forward_steps_ : 0);
    const auto& order = of_ranks_[backward && !of_ranks_[1][rank].empty()][rank];
    auto next = std::partition_point(order.begin(), order.end(),
                                     [now](const Attended& each) { return each.step < now; });
    while (next != order.end() && next->step == now && next->owner != at.kv_owner) ++next;
    double* const done = progress.done.data() + rank * ranks;
    std::size_t found = 0;
    for (auto each = next; each != order.begin() && found < ranks;)
      if (double& share = done[(--each)->owner]; share == 0) share = each->of_block, ++found;
    double all = next == order.begin() ? 0 : std::prev(next)->of_rank;
    if (next != order.end() && next->step == now) {
      double& share = done[next->owner];
      share += at.progress * (next->of_block - share);
      all += at.progress * (next->of_rank - all);
      progress.active[rank * ranks + static_cast<std::size_t>(next->owner)] =
          at.doing == RankMoment::computing && !queries_travel_;
    }
    if (queries_travel_) std::fill_n(done, ranks, all);
  }
  return progress;
}

std::optional<MaskPoint> mask_point(const MaskModel& model, MaskOrder order, double x, double y) {
  if (!(x >= 0 && x < 1 && y >= 0 && y < 1)) return std::nullopt;
  const auto place = [order](const Partition& partition, double share) {
    const Index rows = partition.seqlen;
    return place_of(partition, order, min_of(static_cast<Index>(share * rows), rows - 1));
  };
  Place query = place(model.partition.queries, y);
  const Place key = place(model.partition, x);
  query.global += model.partition.first_query;
  if (query.rank < 0 || key.rank < 0) return std::nullopt;
  return MaskPoint{query.rank,
                   key.rank,
                   query.global,
                   key.global,
                   query.local,
                   key.local,
                   model.mask().allows(query.global, key.global)};
}

// ---
// Shares of allowed pairs.

PictureSide::PictureSide(const Partition& partition, MaskOrder order, int pixels)
    : partition_(partition), order_(order) {
  const Index rows = partition.seqlen;
  int rank = 0;
  Index block = 0, block_size = order == MaskOrder::local ? partition.rows_of(0).size() : rows;
  for (int pixel = 0; pixel < pixels; ++pixel) {
    first_.push_back(parts_.size());
    Index begin = pixel * rows / pixels;
    const Index end = std::max(begin + 1, (pixel + 1) * rows / pixels);
    while (begin < end && begin < rows) {
      while (begin >= block + block_size) {
        block += block_size;
        block_size = partition.rows_of(++rank).size();
      }
      const Index until = std::min(end, block + block_size);
      parts_.push_back({pixel, rank, begin - block, until - block});
      begin = until;
    }
  }
  first_.push_back(parts_.size());
}

Index PictureSide::rows_in(int pixel) const {
  Index rows = 0;
  for (std::size_t p = first_part(pixel); p < first_part(pixel + 1); ++p)
    rows += parts_[p].end - parts_[p].begin;
  return rows;
}

std::vector<PictureSide::RankShare> PictureSide::ranks_in(int pixel) const {
  std::vector<RankShare> shares;
  const auto total = static_cast<float>(rows_in(pixel));
  for (std::size_t p = first_part(pixel); p < first_part(pixel + 1); ++p) {
    const Part& part = parts_[p];
    const Index rows = part.end - part.begin;
    if (order_ == MaskOrder::local) {
      shares.push_back({part.rank, rows / total});
      continue;
    }
    const int ranks = partition_.world_size;
    const bool dealt_out =
        partition_.kind == PartitionKind::striped || partition_.kind == PartitionKind::fold;
    for (int rank = 0; rank < ranks; ++rank) {
      // No colour can show how shares differ if a pixel holds hundreds of rows of every rank.
      if (dealt_out && rows / 512 >= ranks) {
        shares.push_back({rank, 1.0f / ranks});
        continue;
      }
      const LocalRows held = partition_.rows_of(rank);
      const Index count = held.rows_below(part.end) - held.rows_below(part.begin);
      if (count > 0) shares.push_back({rank, count / total});
    }
  }
  return shares;
}

MaskShares::MaskShares(const MaskModel& model, const Mask& mask, MaskOrder order,
                       const PictureSide& queries, const PictureSide& keys)
    : mask_(mask), queries_(queries), keys_(keys) {
  if (order == MaskOrder::global) {
    const Partition all{PartitionKind::contiguous, model.partition.queries.seqlen, 1};
    query_rows_.push_back(all.rows_of(0).moved(model.partition.first_query));
    rows_.push_back(Partition{PartitionKind::contiguous, model.partition.seqlen, 1}.rows_of(0));
  } else {
    for (int rank = 0; rank < model.partition.world_size; ++rank) {
      query_rows_.push_back(model.partition.queries_of(rank));
      rows_.push_back(model.partition.rows_of(rank));
    }
  }
}

void MaskShares::line(int y, std::vector<double>& shares) const {
  const std::vector<PictureSide::Part>& keys = keys_.parts();
  const std::size_t pixels = keys.empty() ? 0 : static_cast<std::size_t>(keys.back().pixel) + 1;
  shares.assign(pixels, 0);
  for (std::size_t q = queries_.first_part(y); q < queries_.first_part(y + 1); ++q) {
    const PictureSide::Part& part = queries_.parts()[q];
    const LocalRows& rows = query_rows_[part.rank];
    for (std::size_t first = 0; first < keys.size();) {
      // The parts of one owner are neighbours.
      const int owner = keys[first].rank;
      const auto last = static_cast<std::size_t>(
          std::partition_point(keys.begin() + static_cast<std::ptrdiff_t>(first), keys.end(),
                               [owner](const PictureSide::Part& k) { return k.rank == owner; }) -
          keys.begin());
      add_pairs(part, {mask_, rows, rows_[owner]}, first, last, shares);
      first = last;
    }
  }
  const auto height = static_cast<double>(queries_.rows_in(y));
  for (std::size_t x = 0; x < pixels; ++x) shares[x] /= height * keys_.rows_in(x);
}

void MaskShares::add_pairs(const PictureSide::Part& queries, const Region& region,
                           std::size_t first, std::size_t last, std::vector<double>& pairs) const {
  const Interval rows{queries.begin, queries.end};
  // Under a mask in pieces no pixel is known to be empty or full before it is counted.
  const Index all = mask_.seqlen;
  const bool pieces = mask_.is_in_pieces();
  const Interval top = pieces ? Interval{0, all} : region.allowed_rows(queries.begin);
  const Interval bottom = pieces ? Interval{all, all} : region.allowed_rows(queries.end - 1);
  const auto height = static_cast<double>(queries.end - queries.begin);
  for (std::size_t k = first; k < last; ++k) {
    const PictureSide::Part& part = keys_.parts()[k];
    if (part.end <= top.first) continue;
    if (part.begin >= bottom.last) break;
    double& sum = pairs[part.pixel];
    if (bottom.first <= part.begin && part.end <= top.last) {
      sum += height * (part.end - part.begin);
    } else {
      sum += region.pairs(rows, {part.begin, part.end});
    }
  }
}

}  // namespace ringscope::viz
