// Shares of allowed pairs per pixel, against counting pair by pair, for every mask, partition and
// order; and at sizes that nobody can count, against what geometry says.
#include "viz/data/mask/mask_painter.h"

#include <gtest/gtest.h>

#include "tests/core/problem/all_masks.h"

namespace ringscope::viz {
namespace {

// The mask of `defined` as people write it.
MaskSpec spec_of(const DefinedMask& defined) {
  std::string text = defined.causal ? "causal" : "full";
  if (defined.prefix >= 0) text += "+prefix:" + std::to_string(defined.prefix);
  if (defined.window > 0) text += "+window:" + std::to_string(defined.window);
  for (std::size_t d = 0; d < defined.documents.size(); ++d)
    text += (d == 0 ? "+documents:" : ",") + std::to_string(defined.documents[d]);
  return MaskSpec::parse(text);
}

// Global positions of the picture's lines, top to bottom.
std::vector<Index> lines_of(const Partition& partition, MaskOrder order) {
  std::vector<Index> lines;
  for (Index i = 0; order == MaskOrder::global && i < partition.seqlen; ++i) lines.push_back(i);
  for (int rank = 0; order == MaskOrder::local && rank < partition.world_size; ++rank)
    for (Index i = 0; i < partition.rows_of(rank).size(); ++i)
      lines.push_back(partition.rows_of(rank).global_position(i));
  return lines;
}

Interval lines_in(int pixel, int pixels, Index lines) {
  const Index first = pixel * lines / pixels;
  return {first, std::max(first + 1, (pixel + 1) * lines / pixels)};
}

struct Picture {
  MaskModel model;
  Mask mask;
  PictureSide queries, keys;
  MaskShares shares;

  Picture(const MaskSpec& spec, const Partitions& partition, MaskOrder order, int width, int height)
      : model{spec, partition},
        mask(model.mask()),
        queries(partition.queries, order, height),
        keys(partition, order, width),
        shares(model, mask, order, queries, keys) {}
  Picture(const Picture&) = delete;
};

TEST(MaskShares, AreThoseOfCountingPairs) {
  for (const Index seqlen : {1, 2, 7, 12})
    for (const DefinedMask& defined : all_masks(seqlen)) {
      const MaskSpec spec = spec_of(defined);
      for (const PartitionKind kind : kAllPartitions)
        for (const int ranks : {1, 3, 5, 14})
          for (const MaskOrder order : {MaskOrder::global, MaskOrder::local})
            for (const auto& [width, height] : {std::pair{5, 3}, {12, 12}, {17, 30}}) {
              const Partition partition{kind, seqlen, ranks};
              const Picture picture(spec, partition, order, width, height);
              const std::vector<Index> lines = lines_of(partition, order);
              std::vector<double> shares;
              for (int y = 0; y < height; ++y) {
                picture.shares.line(y, shares);
                ASSERT_EQ(shares.size(), static_cast<std::size_t>(width));
                const Interval rows = lines_in(y, height, seqlen);
                for (int x = 0; x < width; ++x) {
                  const Interval columns = lines_in(x, width, seqlen);
                  int allowed = 0;
                  for (Index q = rows.first; q < rows.last; ++q)
                    for (Index k = columns.first; k < columns.last; ++k)
                      allowed += defined.allows(lines[q], lines[k]);
                  ASSERT_NEAR(shares[x],
                              static_cast<double>(allowed) /
                                  static_cast<double>(rows.size() * columns.size()),
                              1e-12)
                      << defined.name() << ", " << name_of(kind) << " on " << ranks << ", "
                      << (order == MaskOrder::local ? "local" : "global") << ", pixel " << x << ", "
                      << y << " of " << width << " x " << height;
                }
              }
            }
    }
}

// Fewer queries than keys make a rectangle, whose lines are the queries' positions.
TEST(MaskShares, OfFewerQueriesThanKeys) {
  constexpr Index kKeys = 12, kQueries = 5, kFirst = 4;
  for (const DefinedMask& defined : all_masks(kKeys))
    for (const MaskOrder order : {MaskOrder::global, MaskOrder::local}) {
      const Partition queries{PartitionKind::striped, kQueries, 3};
      const Partitions both({PartitionKind::zigzag, kKeys, 3}, queries, kFirst);
      const Picture picture(spec_of(defined), both, order, kKeys, kQueries);
      const std::vector<Index> lines = lines_of(queries, order), columns = lines_of(both, order);
      std::vector<double> shares;
      for (int y = 0; y < kQueries; ++y) {
        picture.shares.line(y, shares);
        for (int x = 0; x < kKeys; ++x) {
          const bool allowed = defined.allows(kFirst + lines[y], columns[x]);
          ASSERT_EQ(shares[x], allowed ? 1 : 0) << defined.name();
          const auto point =
              mask_point(picture.model, order, (x + 0.5) / kKeys, (y + 0.5) / kQueries);
          ASSERT_TRUE(point.has_value());
          EXPECT_EQ(point->global_query, kFirst + lines[y]);
          EXPECT_EQ(point->allowed, allowed);
        }
      }
    }
}

TEST(MaskShares, OfASequenceOfABillion) {
  // Causal, in global order: half of each pixel on the diagonal, all below, nothing above.
  const Picture picture(MaskSpec::parse("causal"), {PartitionKind::zigzag, 1'000'000'000, 64},
                        MaskOrder::global, 100, 100);
  std::vector<double> shares;
  for (const int y : {0, 1, 50, 99}) {
    picture.shares.line(y, shares);
    for (int x = 0; x < 100; ++x) EXPECT_NEAR(shares[x], x < y ? 1 : x == y ? 0.5 : 0, 1e-6) << x;
  }
}

TEST(PictureSide, SharesOfRanksInAPixel) {
  for (const PartitionKind kind : kAllPartitions)
    for (const MaskOrder order : {MaskOrder::global, MaskOrder::local})
      for (const Index seqlen : {1, 5, 23, 100}) {
        const Partition partition{kind, seqlen, 4};
        const PictureSide side(partition, order, 9);
        std::vector<int> holder(static_cast<std::size_t>(seqlen));
        for (int rank = 0; rank < 4; ++rank)
          for (Index i = 0; i < partition.rows_of(rank).size(); ++i)
            holder[partition.rows_of(rank).global_position(i)] = rank;
        const std::vector<Index> lines = lines_of(partition, order);
        for (int pixel = 0; pixel < 9; ++pixel) {
          std::vector<double> expected(4, 0), given(4, 0);
          const Interval rows = lines_in(pixel, 9, seqlen);
          for (Index i = rows.first; i < rows.last; ++i)
            expected[holder[lines[i]]] += 1.0 / static_cast<double>(rows.size());
          for (const auto& [rank, share] : side.ranks_in(pixel)) given[rank] += share;
          for (std::size_t rank = 0; rank < 4; ++rank)
            EXPECT_NEAR(given[rank], expected[rank], 1e-6)
                << name_of(kind) << " " << seqlen << ", pixel " << pixel << ", rank " << rank;
        }
      }
}

}  // namespace
}  // namespace ringscope::viz
