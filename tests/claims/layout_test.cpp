// Tests which rows lie together, and the effect on tiles and on other masks.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/tools/cost/balance.h"
#include "core/tools/sim/work.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace layout_test {

std::string shown_name(PartitionKind kind) {
  return kind == kZigzag ? "2N chunks" : kind == kFold ? "folded" : std::string(name_of(kind));
}

// The square tiles that a ring's ranks compute if tiles without a pair are skipped.
struct TileCount {
  double critical_path = 0;  // sum over steps of the rank that has most
  double computed = 0;       // over all ranks
  double partial = 0;        // of these, those on the mask's edge
  double busy_steps = 0;     // steps in which some rank computes
  double partial_share() const { return partial / computed; }
};

TileCount tiles_of(const char* mask, PartitionKind kind, Index rows, Index tile) {
  const Problem job = job_of(1, 1, 8 * rows, 8, mask, kind);
  const Partition partition = job.partition_of_sequence();
  TileCount count;
  for (int step = 0; step < 8; ++step) {
    double most = 0;
    for (int rank = 0; rank < 8; ++rank) {
      const Region region{job.mask.for_seqlen(job.shape.seqlen), partition.rows_of(rank),
                          partition.rows_of((rank - step + 8) % 8)};
      double mine = 0;
      for (Index q = 0; q < rows; q += tile)
        for (Index k = 0; k < rows; k += tile) {
          const TileClass c = region.tile_class({q, q + tile}, {k, k + tile});
          mine += c != TileClass::empty ? 1 : 0;
          count.partial += c == TileClass::partial ? 1 : 0;
        }
      count.computed += mine;
      most = std::max(most, mine);
    }
    count.critical_path += most;
    count.busy_steps += most > 0 ? 1 : 0;
  }
  return count;
}

// Return the mean length of a rank's runs of consecutive positions, for 32,768 positions on 8
// ranks.
double run_length(PartitionKind kind) {
  double runs = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const LocalRows rows = Partition{kind, 32768, 8}.rows_of(rank);
    for (Index i = 0; i < rows.size(); ++i)
      runs += i == 0 || rows.global_position(i) != rows.global_position(i - 1) + 1 ? 1 : 0;
  }
  return 32768 / runs;
}

CLAIM(C25, ChunksAreContiguousFoldsHardly, holds_if, "S1", "part one, 6.4") {
  const double zigzag = tiles_of("causal", kZigzag, 4096, 128).partial_share();
  const double striped = tiles_of("causal", kStriped, 4096, 128).partial_share();
  const double fold = tiles_of("causal", kFold, 4096, 128).partial_share();
  return {
      "Zig-zag keeps a GPU's tokens closer together than striping: they come in pairs of "
      "neighbours.",
      "This is true of 2N chunks: runs of {1} positions on average, so copies of 512 KiB (128 "
      "values of 2 bytes per row), and {2} of the computed 128 x 128 tiles on the mask's edge. "
      "S1's "
      "own formula, folding, has neighbours on its first and last rank only: runs of {0} on "
      "average, copies of 256 or 512 bytes, and {3} of the tiles on the edge, as striping has.",
      {Figure("mean run of consecutive positions, folded, 8 ranks of 4,096 rows", run_length(kFold),
              {1.1, 1.2}, {"striped", run_length(kStriped)}, 2),
       Figure("the same, 2N chunks", run_length(kZigzag), at_least(2),
              {"folded", run_length(kFold)}, 2),
       Figure("tiles of 128 x 128 on the mask's edge, of those computed, 2N chunks", zigzag,
              near(32.0 / 4112, 1e-9), {"striped", striped}, kNothing, Shown::percent),
       Figure("the same, folded", fold, near(32.0 / 528, 1e-9), {"2N chunks", zigzag}, kNothing,
              Shown::percent),
       Figure("tiles on the critical path, striped (2N chunks: 4,112)",
              tiles_of("causal", kStriped, 4096, 128).critical_path, exactly(4224),
              {"contiguous", tiles_of("causal", kContiguous, 4096, 128).critical_path})}};
}

CLAIM(C26, ZigzagIsTheNameOfTwoPartitions, ambiguous, "S1", "part one, 6.1; part two, 2.1") {
  const auto same_rows = [](Index seqlen, PartitionKind a, PartitionKind b) {
    const auto rows = [&](PartitionKind kind, int rank) {
      const LocalRows local = Partition{kind, seqlen, 4}.rows_of(rank);
      std::set<Index> positions;
      for (Index i = 0; i < local.size(); ++i) positions.insert(local.global_position(i));
      return positions;
    };
    double same = 0;
    for (int rank = 0; rank < 4; ++rank) same += rows(a, rank) == rows(b, rank) ? 1 : 0;
    return same;
  };
  return {
      "Zig-zag gives GPU k mod N the tokens of even folds and GPU N - 1 - (k mod N) those of odd "
      "ones.",
      "It is a usable partition, called fold here. What most implementations call zig-zag cuts the "
      "sequence into 2N chunks and gives rank r the chunks r and 2N - 1 - r. The two are the same "
      "for two folds, S = 2N, and on {1} of 4 ranks for 16 positions. Both are balanced (C24); C25 "
      "has the difference.",
      {Figure("ranks of 4 that hold the same rows, 8 positions", same_rows(8, kFold, kZigzag),
              exactly(4), {"striped against 2N chunks", same_rows(8, kStriped, kZigzag)},
              "the same"),
       Figure("the same, 16 positions", same_rows(16, kFold, kZigzag), exactly(0),
              {"fold against fold", same_rows(16, kFold, kFold)}, refuted("the same"))}};
}

double ceiling_under(const char* mask, PartitionKind kind) {
  return balance_of(job_of(1, 1, 8 * 4096, 8, mask, kind)).ceiling();
}

CLAIM(C49, StripesStayBalancedUnderWindowsButGainNothing, ambiguous, "S3",
      "Section 11, future research 2, and Section 14; entry 5, transferability") {
  const char* window = "causal+window:4096";
  const TileCount contiguous = tiles_of(window, kContiguous, 4096, 128);
  const TileCount striped = tiles_of(window, kStriped, 4096, 128);
  Claim claim{
      "Striping does not carry over to sliding windows; elsewhere: the same round robin can be "
      "applied to them.",
      "The balance carries over: under a causal window of 4,096 (32,768 positions, 8 ranks) "
      "striped ranks reach {0}, folded ones as much, and 2N chunks only {2}. The gain does not: "
      "contiguous ranks are at {3} already, they need 2 steps where stripes need {5}, and stripes "
      "take {4} times the tiles of 128 x 128, since a tile of theirs covers 8 times as many "
      "positions. Under a prefix, and under documents of unequal length, stripes and folds stay "
      "balanced, and the other two do not. Whole tiles dealt out greedily are balanced under the "
      "window and take {6} of the contiguous ranks' critical path."};
  const auto ceiling = [&](const char* under, const char* mask, PartitionKind kind, Range right,
                           const char* other_name, const char* other_mask, PartitionKind other) {
    claim.figures.push_back(Figure(
        fmt::format("balance ceiling, {}, {}", under, shown_name(kind)), ceiling_under(mask, kind),
        right, {other_name, ceiling_under(other_mask, other)}, kNothing, Shown::percent));
  };
  const char* w = "causal window of 4,096";
  ceiling(w, window, kStriped, near(1, 1e-3), "2N chunks", window, kZigzag);
  claim.figures.back().claimed = "carries over";
  ceiling(w, window, kFold, near(1, 1e-3), "2N chunks", window, kZigzag);
  ceiling(w, window, kZigzag, near(0.625, 5e-4), "the causal mask alone", "causal", kZigzag);
  ceiling(w, window, kContiguous, near(0.9375, 5e-4), "the causal mask alone", "causal",
          kContiguous);
  claim.figures.push_back(Figure(
      "tiles on the critical path, striped over contiguous",
      striped.critical_path / contiguous.critical_path, {1.05, 1.25},
      {"the causal mask alone", tiles_of("causal", kStriped, 4096, 128).critical_path /
                                    tiles_of("causal", kContiguous, 4096, 128).critical_path},
      refuted("a gain")));
  claim.figures.push_back(Figure("steps with something to compute, striped", striped.busy_steps,
                                 exactly(8), {"contiguous", contiguous.busy_steps}));
  Problem job = job_of(1, 1, 8 * 4096, 8, window);
  job.partition = PartitionSpec::parse(kSearched);
  deal_out(job, {128, 128});
  const double tile = 128 * 128;
  claim.figures.push_back(
      Figure("tiles on the critical path, dealt out by search over contiguous",
             balance_of(Work(job, {128, 128})).slowest_steps() / tile / contiguous.critical_path,
             near(0.9508, 5e-4), {"striped", striped.critical_path / contiguous.critical_path},
             kNothing, Shown::percent));
  const char* prefix = "prefix:8192";
  for (const PartitionKind kind : {kStriped, kFold})
    ceiling("prefix of 8,192", prefix, kind, near(1, 1e-3), "contiguous", prefix, kContiguous);
  ceiling("prefix of 8,192", prefix, kZigzag, {0.5, 0.9}, "striped", prefix, kStriped);
  ceiling("prefix of 8,192", prefix, kContiguous, {0.5, 0.6}, "striped", prefix, kStriped);
  const char* documents = "causal+documents:16384,8192,4096,4096";
  const char* d = "causal documents of 16,384, 8,192, 4,096, 4,096";
  for (const PartitionKind kind : {kStriped, kFold})
    ceiling(d, documents, kind, near(1, 2e-3), "contiguous", documents, kContiguous);
  ceiling(d, documents, kZigzag, {0.3, 0.95}, "striped", documents, kStriped);
  ceiling(d, documents, kContiguous, {0.3, 0.5}, "striped", documents, kStriped);
  return claim;
}

CLAIM(C50, TilesCapTheGainOfStriping, holds, "S3",
      "algorithm 2, failure modes; Section 12; Section 14") {
  const auto gain = [](Index tiles_a_rank, PartitionKind kind) {
    return tiles_of("causal", kContiguous, tiles_a_rank * 64, 64).critical_path /
           tiles_of("causal", kind, tiles_a_rank * 64, 64).critical_path;
  };
  // Triangles consist of whole tiles: with k tiles a side, k(k+1)/2 are computed.
  const auto by_formula = [](double k) {
    return (k * (k + 1) / 2 + 7 * k * k) / (8 * k * (k + 1) / 2);
  };
  return {"The gain of striping shrinks at small blocks, because whole tiles only can be skipped.",
          "It does: on 8 ranks {0} (none) when a block is one tile, {1} for 2 tiles a side, {2} "
          "for 8, {3} for 32; without tiles it would be 1.875.",
          {Figure("contiguous over striped critical path, a block of 1 tile a side",
                  gain(1, kStriped), exactly(by_formula(1)),
                  {"no tiles", balance_of(job_of(1, 1, 512, 8, "causal", kStriped)).ceiling() /
                                   balance_of(job_of(1, 1, 512, 8, "causal")).ceiling()},
                  "less than 15/8"),
           Figure("2 tiles a side", gain(2, kStriped), near(by_formula(2), 1e-12),
                  {"2N chunks", gain(2, kZigzag)}, "less than 15/8"),
           Figure("8 tiles a side", gain(8, kStriped), near(by_formula(8), 1e-12),
                  {"2N chunks", gain(8, kZigzag)}, "less than 15/8"),
           Figure("32 tiles a side", gain(32, kStriped), near(by_formula(32), 1e-12),
                  {"2N chunks", gain(32, kZigzag)}, "less than 15/8")}};
}

CLAIM(C85, CoarseTilesWasteWhatTheyDoNotUnbalance, wrong, "S3", "algorithm 2, failure modes") {
  const auto in_tiles = [](PartitionKind kind, Index rows) {
    return balance_of(Work(job_of(1, 1, 4 * rows, 4, "causal", kind), {2048, 4096}));
  };
  const auto gain = [&](Index rows) {
    return in_tiles(kContiguous, rows).slowest_steps() / in_tiles(kStriped, rows).slowest_steps();
  };
  return {
      "With tiles too coarse for the mask, the imbalance between devices returns under striping at "
      "small blocks.",
      "The work returns, not the imbalance. With the tiles named there, 2,048 x 4,096, and 4,096 "
      "rows per rank, no striped tile can be skipped: all ranks compute everything at every step "
      "(a "
      "ceiling of {0} of what is computed), and striping gains nothing over contiguous ranks ({1} "
      "times as fast on 4 ranks; {2} with 65,536 rows).",
      {Figure("balance ceiling of striped ranks in such tiles, 4,096 rows each",
              in_tiles(kStriped, 4096).ceiling(), exactly(1),
              {"65,536 contiguous rows", in_tiles(kContiguous, 65536).ceiling()}, refuted("less"),
              Shown::percent),
       Figure("gain of striping there, 4 ranks", gain(4096), exactly(1), {"8,192 rows", gain(8192)},
              "small"),
       Figure("the same with 65,536 rows", gain(65536), near(1808.0 / 1088, 1e-9),
              {"by pairs",
               balance_of(job_of(1, 1, 4 * 65536, 4, "causal")).slowest_steps() /
                   balance_of(job_of(1, 1, 4 * 65536, 4, "causal", kStriped)).slowest_steps()})}};
}

}  // namespace layout_test
}  // namespace ringscope::claims
