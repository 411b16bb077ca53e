#include "viz/model/mask/mask_shares.h"

#include <algorithm>

namespace ringscope::viz {

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
      Index until = std::min(end, block + block_size);
      // Don't cross from one chunk of a zigzag rank to the other, because they lie far apart.
      const LocalRows held = partition.rows_of(rank);
      if (held.is_dealt()) {
        parts_.push_back({pixel, rank, begin - block, until - block});
        begin = until;
        continue;
      }
      const Index second_chunk = block + held.runs[0].count;
      if (order == MaskOrder::local && !held.alternating && begin < second_chunk)
        until = std::min(until, second_chunk);
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
      shares.push_back({part.rank, static_cast<float>(rows) / total});
      continue;
    }
    const int ranks = partition_.world_size;
    const bool dealt_out =
        partition_.kind == PartitionKind::striped || partition_.kind == PartitionKind::fold;
    for (int rank = 0; rank < ranks; ++rank) {
      // No colour can show how shares differ if a pixel holds hundreds of rows of every rank.
      if (dealt_out && rows / 512 >= ranks) {
        shares.push_back({rank, 1.0f / static_cast<float>(ranks)});
        continue;
      }
      const LocalRows held = partition_.rows_of(rank);
      const Index count = held.rows_below(part.end) - held.rows_below(part.begin);
      if (count > 0) shares.push_back({rank, static_cast<float>(count) / total});
    }
  }
  return shares;
}

MaskShares::MaskShares(const MaskModel& model, const Mask& mask, MaskOrder order,
                       const PictureSide& queries, const PictureSide& keys)
    : mask_(mask), queries_(queries), keys_(keys) {
  if (order == MaskOrder::global) {
    rows_.push_back(Partition{PartitionKind::contiguous, model.partition.seqlen, 1}.rows_of(0));
  } else {
    for (int rank = 0; rank < model.partition.world_size; ++rank)
      rows_.push_back(model.partition.rows_of(rank));
  }
}

void MaskShares::line(int y, std::vector<double>& shares) const {
  const std::vector<PictureSide::Part>& keys = keys_.parts();
  const std::size_t pixels = keys.empty() ? 0 : static_cast<std::size_t>(keys.back().pixel) + 1;
  shares.assign(pixels, 0);
  for (std::size_t q = queries_.first_part(y); q < queries_.first_part(y + 1); ++q) {
    const PictureSide::Part& part = queries_.parts()[q];
    const LocalRows& rows = rows_[static_cast<std::size_t>(part.rank)];
    for (std::size_t first = 0; first < keys.size();) {
      // The parts of one owner are neighbours.
      const int owner = keys[first].rank;
      const auto last = static_cast<std::size_t>(
          std::partition_point(keys.begin() + static_cast<std::ptrdiff_t>(first), keys.end(),
                               [owner](const PictureSide::Part& k) { return k.rank == owner; }) -
          keys.begin());
      add_pairs(part, {mask_, rows, rows_[static_cast<std::size_t>(owner)]}, first, last, shares);
      first = last;
    }
  }
  const auto height = static_cast<double>(queries_.rows_in(y));
  for (std::size_t x = 0; x < pixels; ++x)
    shares[x] /= height * static_cast<double>(keys_.rows_in(static_cast<int>(x)));
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
    double& sum = pairs[static_cast<std::size_t>(part.pixel)];
    if (bottom.first <= part.begin && part.end <= top.last) {
      sum += height * static_cast<double>(part.end - part.begin);
    } else {
      sum += static_cast<double>(region.pairs(rows, {part.begin, part.end}));
    }
  }
}

}  // namespace ringscope::viz
