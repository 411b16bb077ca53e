// Which rows have to travel, compared with asking every pair.
#include "core/problem/needed.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "tests/core/problem/all_masks.h"

namespace ringscope {
namespace {

// Call f(mask, partition, text) for every mask, with sinks where it has a window, and deal.
template <class F>
void for_cases(const F& f) {
  for (const Index seqlen : {1, 3, 8, 13, 24})
    for (const DefinedMask& defined : all_masks(seqlen))
      for (const Index sink : {0, 2}) {
        const BuiltMask built(defined);
        Mask mask = *built;
        if (sink > 0 && mask.window == 0) continue;
        mask.sink = sink;
        for (const PartitionKind kind : kAllPartitions)
          for (const int n : {1, 2, 4}) {
            const Partition partition{kind, seqlen, n};
            f(mask, partition,
              fmt::format("{} sink {} {} over {}", defined.name(), sink, name_of(kind), n));
          }
      }
}

std::set<Index> positions_in(const LocalRows& rows) {
  std::set<Index> positions;
  for (Index i = 0; i < rows.size(); ++i) positions.insert(rows.global_position(i));
  return positions;
}

// Return the positions of `owner`'s rows that `rank` needs, pair by pair.
std::set<Index> attended(const Mask& mask, const Partition& partition, int rank, int owner) {
  std::set<Index> needed;
  const LocalRows queries = partition.rows_of(rank);
  for (const Index key : positions_in(partition.rows_of(owner)))
    for (Index i = 0; i < queries.size(); ++i)
      if (mask.allows(queries.global_position(i), key)) needed.insert(key);
  return needed;
}

// Return the positions of the region's keys that needed_rows() names.
std::set<Index> found_in(const Region& region) {
  std::set<Index> found;
  const bool is_apart = region.keys.stride() > 1;
  for (int k = 0; k < (is_apart ? 2 : 1); ++k)
    for (const Interval rows : needed_rows(region, k))
      for (Index i = rows.first; i < rows.last; ++i)
        found.insert(is_apart ? region.keys.runs[k].position(i) : region.keys.global_position(i));
  return found;
}

TEST(NeededRows, AreThoseThatAnyQueryAttends) {
  for_cases([](const Mask& mask, const Partition& partition, const std::string& text) {
    for (int rank = 0; rank < partition.world_size; ++rank)
      for (int owner = 0; owner < partition.world_size; ++owner) {
        const Region region{mask, partition.rows_of(rank), partition.rows_of(owner)};
        ASSERT_EQ(found_in(region), attended(mask, partition, rank, owner))
            << text << " " << rank << owner;
      }
  });
}

// Fewer queries than keys, dealt out by another partition: what is needed, and how many pairs that is.
TEST(NeededRows, OfQueriesThatAreDealtOutApart) {
  constexpr Index kKeys = 13, kQueries = 6;
  for (const DefinedMask& defined : all_masks(kKeys))
    for (const PartitionKind kind : kAllPartitions)
      for (const PartitionKind of_queries : kAllPartitions)
        for (const Index first : {0, 3, 7}) {
          const BuiltMask mask(defined);
          const Partitions both({kind, kKeys, 2}, {of_queries, kQueries, 2}, first);
          std::set<Index> seen;
          for (int rank = 0; rank < 2; ++rank)
            for (int owner = 0; owner < 2; ++owner) {
              const Region region{*mask, both.queries_of(rank), both.rows_of(owner)};
              std::set<Index> attended;
              Index pairs = 0;
              for (const Index i : positions_in(region.queries)) {
                seen.insert(i);
                for (const Index j : positions_in(region.keys)) {
                  if (!(*mask).allows(i, j)) continue;
                  attended.insert(j);
                  ++pairs;
                }
              }
              ASSERT_EQ(found_in(region), attended)
                  << defined.name() << " " << name_of(kind) << " " << name_of(of_queries);
              ASSERT_EQ(region.pairs(), pairs);
            }
          ASSERT_EQ(seen,
                    positions_in(
                        Partition{PartitionKind::contiguous, kQueries, 1}.rows_of(0).moved(first)));
        }
}

TEST(BlockParts, OfACastAreForTheRanksThatNeedThem) {
  for_cases([](const Mask& mask, const Partition& partition, const std::string& text) {
    const int n = partition.world_size;
    for (int owner = 0; owner < n; ++owner) {
      std::vector<std::set<Index>> found(n);
      Index at = 0;
      std::set<Index> rows;
      const LocalRows block = partition.rows_of(owner);
      for (const BlockPart& part : parts_of_block(mask, partition, owner, PartOrder::by_position)) {
        ASSERT_EQ(part.at, at) << text;
        at += part.size();
        for (Index i = 0; i < part.size(); ++i) {
          ASSERT_EQ(part.rows.global_position(i), block.global_position(part.first + part.step * i))
              << text;
          rows.insert(part.first + part.step * i);
          for (int m = 0; m < n; ++m)
            if (part.needed_by[m]) found[m].insert(part.rows.global_position(i));
        }
      }
      ASSERT_EQ(at, block.size()) << text;
      ASSERT_EQ(std::ssize(rows), block.size()) << text;
      for (int m = 1; m < n; ++m)
        ASSERT_EQ(found[m], attended(mask, partition, (owner + m) % n, owner)) << text << owner;
    }
  });
}

TEST(BlockParts, OfARingTravelAsFarAsTheLastRankThatNeedsThem) {
  for_cases([](const Mask& mask, const Partition& partition, const std::string& text) {
    const int n = partition.world_size;
    bool saves = false;
    for (int owner = 0; owner < n; ++owner) {
      const LocalRows block = partition.rows_of(owner);
      const std::vector<BlockPart> parts =
          parts_of_block(mask, partition, owner, PartOrder::farthest_first);
      ASSERT_LE(parts.size(), 16U) << text;
      std::set<Index> rows;
      int before = n;
      for (const BlockPart& part : parts) {
        const int last = part.last;
        ASSERT_LE(last, before) << text;
        before = last;
        saves = saves || (last < n - 1 && part.size() > 0);
        for (Index i = 0; i < part.size(); ++i) rows.insert(part.rows.global_position(i));
      }
      ASSERT_EQ(rows, positions_in(block)) << text;
      // None goes further than it must, unless there were too many parts.
      for (int m = 1; m < n; ++m) {
        std::set<Index> travelling, needed;
        for (const BlockPart& part : parts)
          for (Index i = 0; i < part.size() && part.last >= m; ++i)
            travelling.insert(part.rows.global_position(i));
        for (int further = m; further < n; ++further)
          needed.merge(attended(mask, partition, (owner + further) % n, owner));
        ASSERT_TRUE(
            std::includes(travelling.begin(), travelling.end(), needed.begin(), needed.end()))
            << text;
        if (block.stride() == 1 && parts.size() < 8) {
          ASSERT_EQ(travelling, needed) << text;
        }
      }
    }
    if (saves_hops(mask, partition)) {
      ASSERT_TRUE(saves) << text;
    }
  });
}

TEST(BlockParts, AreWorthItWhereAQuarterOfTheRowsCanStay) {
  const auto saves = [](PartitionKind kind, const char* text, int n) {
    const MaskSpec mask = MaskSpec::parse(text);
    return saves_hops(mask.for_seqlen(960), Partition{kind, 960, n});
  };
  for (const PartitionKind kind : kAllPartitions) {
    EXPECT_FALSE(saves(kind, "full", 8));
    EXPECT_FALSE(saves(kind, "causal+window:40", 1));
    EXPECT_EQ(saves(kind, "causal", 8), kind == PartitionKind::contiguous) << name_of(kind);
    EXPECT_EQ(saves(kind, "causal+window:40", 8),
              kind == PartitionKind::contiguous || kind == PartitionKind::zigzag)
        << name_of(kind);
  }
  EXPECT_FALSE(saves(PartitionKind::zigzag, "causal", 2));
  EXPECT_TRUE(saves(PartitionKind::striped, "causal+window:2", 8));
}

TEST(BlockParts, OfAWindowAreItsLastRows) {
  const MaskSpec mask = MaskSpec::parse("causal+window:20");
  const Partition partition{PartitionKind::contiguous, 64, 8};  // 8 rows each
  for (int rank = 0; rank < 8; ++rank) {
    Index sent = 0;
    for (const BlockPart& part :
         parts_of_block(mask.for_seqlen(64), partition, rank, PartOrder::farthest_first))
      sent += part.size() * part.last;
    const Index ahead = 64 - 8 * (rank + 1);  // rows behind the block, of which 19 look back to it
    EXPECT_EQ(sent, ahead >= 24 ? 19 : ahead == 16 ? 16 : ahead);
  }
}

}  // namespace
}  // namespace ringscope
