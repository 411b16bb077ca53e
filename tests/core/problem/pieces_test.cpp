// What a rank may attend of a KV block, under masks and deals drawn from a seed, among them masks in
// pieces (sink, ranges) and positions that are dealt out by a table: intervals, pair counts and tile
// classes against counting pair by pair what the definitions allow.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/problem/region.h"
#include "core/tools/sim/work.h"
#include "tests/core/problem/all_masks.h"
#include "tests/core/problem/held_rows.h"

namespace ringscope {
namespace pieces_test {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  Index between(Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(engine_);
  }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }

 private:
  std::mt19937_64 engine_;
};

// A mask as its definition says, and as it is spelled.
struct Drawn : DefinedMask {
  std::vector<Index> slices;  // five numbers each

  explicit Drawn(Draw& draw) {
    seqlen = draw.between(1, 40);
    causal = draw.chance(0.5);
    if (draw.chance(0.3)) prefix = draw.between(0, seqlen + 2);
    if (draw.chance(0.7)) window = draw.between(1, seqlen + 2);
    if (window > 0 && draw.chance(0.7)) sink = draw.between(0, seqlen + 2);
    if (draw.chance(0.4))
      for (Index left = seqlen; left > 0; left -= documents.back())
        documents.push_back(draw.between(1, left));
    if (draw.chance(0.5))
      for (int tries = 0; tries < 12; ++tries) add_slice(draw);
  }
  // Add a slice if it overlaps none.
  void add_slice(Draw& draw) {
    const Index q0 = draw.between(0, seqlen - 1), q1 = draw.between(q0 + 1, seqlen);
    const Index k0 = draw.between(0, seqlen - 1), k1 = draw.between(k0 + 1, seqlen);
    for (std::size_t at = 0; at < slices.size(); at += 5)
      if (slices[at] < q1 && q0 < slices[at + 1] && slices[at + 2] < k1 && k0 < slices[at + 3])
        return;
    for (const Index number : {q0, q1, k0, k1, draw.between(0, 2)}) slices.push_back(number);
  }

  bool allows(Index i, Index j) const {
    if (!DefinedMask::allows(i, j)) return false;
    if (slices.empty()) return true;
    for (std::size_t at = 0; at < slices.size(); at += 5) {
      const Index q0 = slices[at], q1 = slices[at + 1], k0 = slices[at + 2], k1 = slices[at + 3];
      if (i < q0 || i >= q1 || j < k0 || j >= k1) continue;
      if (slices[at + 4] == 0) return true;
      // Count from the corner that the diagonal goes through.
      return slices[at + 4] == 1 ? k1 - 1 - j >= q1 - 1 - i : j - k0 >= i - q0;
    }
    return false;
  }
  MaskSpec spec() const {
    return MaskSpec::recorded(text() + (slices.empty() ? "" : "+ranges:drawn"), slices);
  }
};

// Any assignment of `seqlen` positions to n ranks, of which some may hold nothing.
std::vector<DealtRun> drawn_runs(Draw& draw, Index seqlen, int n) {
  std::vector<DealtRun> runs;
  const Index longest = draw.chance(0.5) ? 1 : max_of(seqlen / 2, 1);
  for (Index left = seqlen; left > 0; left -= runs.back().count)
    runs.push_back(
        {static_cast<int>(draw.between(0, n - 1)), min_of(left, draw.between(1, longest))});
  return runs;
}

TEST(Pieces, IntervalsOfAQueryAreItsKeys) {
  Draw draw(1);
  for (int n = 0; n < 400; ++n) {
    const Drawn drawn(draw);
    const MaskSpec spec = drawn.spec();
    const Mask mask = spec.for_seqlen(drawn.seqlen);
    SCOPED_TRACE(std::to_string(n) + ": " + spec.name());
    for (Index i = 0; i < drawn.seqlen; ++i) {
      std::vector<bool> seen(static_cast<std::size_t>(drawn.seqlen), false);
      Index end = -1;
      mask.for_allowed(i, [&](Interval keys) {
        ASSERT_LT(end, keys.first);  // neither overlaps nor touches the one before
        ASSERT_LT(keys.first, keys.last);
        ASSERT_LE(keys.last, drawn.seqlen);
        end = keys.last;
        for (Index j = keys.first; j < keys.last; ++j) seen[j] = true;
      });
      for (Index j = 0; j < drawn.seqlen; ++j) {
        ASSERT_EQ(seen[j], drawn.allows(i, j)) << "query " << i << " key " << j;
        ASSERT_EQ(mask.allows(i, j), drawn.allows(i, j)) << "query " << i << " key " << j;
      }
    }
  }
}

TEST(Pieces, AnAssignmentGivesEachPositionToItsRank) {
  Draw draw(2);
  for (int trial = 0; trial < 200; ++trial) {
    const Index seqlen = draw.between(1, 50);
    const int n = static_cast<int>(draw.between(1, 6));
    const std::vector<DealtRun> runs = drawn_runs(draw, seqlen, n);
    const Assignment assignment(runs, n);
    ASSERT_EQ(assignment.seqlen(), seqlen);
    std::vector<int> rank_of;
    for (const DealtRun& run : runs)
      rank_of.insert(rank_of.end(), static_cast<std::size_t>(run.count), run.rank);
    Index most = 0;
    for (int rank = 0; rank < n; ++rank) {
      std::vector<Index> held;
      for (Index p = 0; p < seqlen; ++p)
        if (rank_of[p] == rank) held.push_back(p);
      expect_rows(assignment.rows_of(rank), held, seqlen);
      most = max_of(most, static_cast<Index>(held.size()));
    }
    ASSERT_EQ(assignment.max_rows(), most);
  }
}

// Counts allowed pairs of local rows one by one.
Index counted(const Drawn& drawn, const Region& region, Interval q, Interval k) {
  Index pairs = 0;
  for (Index i = q.first; i < q.last; ++i)
    for (Index j = k.first; j < k.last; ++j)
      pairs +=
          drawn.allows(region.queries.global_position(i), region.keys.global_position(j)) ? 1 : 0;
  return pairs;
}

// Pairs of whole groups of keys that any row of a tile may attend a key of.
Index counted_whole(const Drawn& drawn, const Region& region, const Granularity& tile) {
  Index computed = 0;
  for (Index q = 0; q < region.queries.size(); q += tile.rows)
    for (Index k = 0; k < region.keys.size(); k += tile.keys) {
      const Interval rows{q, min_of(q + tile.rows, region.queries.size())};
      const Interval keys{k, min_of(k + tile.keys, region.keys.size())};
      if (counted(drawn, region, rows, keys) > 0) computed += rows.size() * keys.size();
    }
  return computed;
}

TEST(Pieces, PairsAndClassesOfTiles) {
  Draw draw(3);
  for (int trial = 0; trial < 1500; ++trial) {
    const Drawn drawn(draw);
    const MaskSpec spec = drawn.spec();
    const int n = static_cast<int>(draw.between(1, 6));
    const Assignment assignment(drawn_runs(draw, drawn.seqlen, n), n);
    Partition partition{kAllPartitions[draw.between(0, 3)], drawn.seqlen, n};
    if (draw.chance(0.5)) partition = {PartitionKind::dealt, drawn.seqlen, n, &assignment};
    SCOPED_TRACE(std::to_string(trial) + ": " + spec.name() + " " +
                 std::string(name_of(partition.kind)));
    const Mask mask = spec.for_seqlen(drawn.seqlen);
    for (int rank = 0; rank < n; ++rank)
      for (int owner = 0; owner < n; ++owner) {
        const Region region{mask, partition.rows_of(rank), partition.rows_of(owner)};
        const Interval all_q{0, region.queries.size()}, all_k{0, region.keys.size()};
        ASSERT_EQ(region.pairs(), counted(drawn, region, all_q, all_k));
        for (Index i = 0; i < all_q.last && !mask.is_in_pieces(); ++i)
          for (Index j = 0; j < all_k.last; ++j)
            ASSERT_EQ(region.allowed_rows(i).contains(j),
                      counted(drawn, region, {i, i + 1}, {j, j + 1}) == 1)
                << "local rows " << i << ", " << j;
        const Granularity grain{draw.between(1, 9), draw.between(1, 9)};
        ASSERT_EQ(computed_pairs(region, grain), counted_whole(drawn, region, grain));
        for (int tile = 0; tile < 12; ++tile) {
          const Index q0 = draw.between(0, all_q.last), k0 = draw.between(0, all_k.last);
          const Interval q{q0, draw.between(q0, all_q.last)}, k{k0, draw.between(k0, all_k.last)};
          const Index pairs = counted(drawn, region, q, k);
          ASSERT_EQ(region.pairs(q, k), pairs) << q.first << " " << q.last;
          ASSERT_EQ(region.tile_class(q, k), pairs == 0                     ? TileClass::empty
                                             : pairs == q.size() * k.size() ? TileClass::full
                                                                            : TileClass::partial);
        }
      }
  }
}

// The closed forms are usable where there is neither heap nor run time.
constexpr Mask kCausal{.seqlen = 16, .causal = true};
constexpr Region region_of(PartitionKind kind, int rank, int owner) {
  const Partition partition{kind, kCausal.seqlen, 4};
  return {kCausal, partition.rows_of(rank), partition.rows_of(owner)};
}
static_assert(region_of(PartitionKind::striped, 1, 2).pairs() == 6);
static_assert(region_of(PartitionKind::fold, 1, 1).pairs() == 10);
static_assert(region_of(PartitionKind::zigzag, 1, 2).tile_class({2, 4}, {0, 4}) == TileClass::full);

}  // namespace pieces_test
}  // namespace ringscope
