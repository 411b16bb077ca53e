// Tests the sources' descriptions of who holds, sends and gets what, against a ring of labels that
// are passed on by hand, and against recorded runs.
#include <functional>
#include <set>
#include <vector>

#include "core/ring/ring.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"
#include "tests/claims/rows.h"

namespace ringscope::claims {
namespace {

// Return held[step][rank], the owner of the block, if every rank passes what it holds `direction`
// ranks on.
std::vector<std::vector<int>> passed_around(int n, int direction) {
  std::vector<std::vector<int>> held(static_cast<std::size_t>(n), std::vector<int>(n));
  for (int rank = 0; rank < n; ++rank) held[0][rank] = rank;
  for (int step = 1; step < n; ++step)
    for (int rank = 0; rank < n; ++rank)
      held[step][(rank + direction + n) % n] = held[step - 1][rank];
  return held;
}

using Formula = std::function<int(int rank, int step, int n)>;
int minus(int rank, int step, int n) { return (rank - step + n) % n; }
int plus(int rank, int step, int n) { return (rank + step) % n; }

// Count the (rank, step) where blocks that are sent to the right do not have the owner of the
// formula.
double mismatches(int n, const Formula& owner) {
  const auto held = passed_around(n, 1);
  double count = 0;
  for (int step = 0; step < n; ++step)
    for (int rank = 0; rank < n; ++rank) count += held[step][rank] != owner(rank, step, n) ? 1 : 0;
  return count;
}

const RingRun& run_of_eight() {
  static const RingRun run = recorded_run(config_of(1, 1, 64, 4, 8));
  return run;
}

double recorded_mismatches(const Formula& owner) {
  double count = 0;
  for (int rank = 0; rank < 8; ++rank)
    for (const TraceEvent& e : events_of(run_of_eight(), rank, Lane::compute))
      count += e.kv_owner != owner(rank, e.step, 8) ? 1 : 0;
  return count;
}

// Count the blocks that a rank has seen after n rounds in which every rank sends its own, or what
// it holds.
double blocks_seen(int n, bool always_the_own) {
  std::vector<int> held(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) held[rank] = rank;
  std::set<int> seen;
  for (int round = 0; round < n; ++round) {
    seen.insert(held[0]);
    const std::vector<int> before = held;
    for (int rank = 0; rank < n; ++rank) {
      const int from = (rank + n - 1) % n;
      held[rank] = always_the_own ? from : before[from];
    }
  }
  return static_cast<double>(seen.size());
}

CLAIM(C09, AddingUpBlockOutputsIsNoSoftmax, wrong, "S4", "part 1, both algorithms") {
  const Row row = random_row(32, 13);
  const Row ones{row.scores, std::vector<double>(32, 1)};
  double added = 0;
  Part<double> merged;
  for (const auto& [first, last] : blocks_of(ones, 4)) {
    const auto block = part_of<double>(ones, first, last);
    added += block.normalised();
    merged.add(block);
  }
  return {
      "In every round a GPU adds softmax(scores) V of the block to its output, and sends its own K "
      "and V on.",
      "Each block's softmax adds up to 1, so the weights of {0} blocks add up to {0}: the outputs "
      "have to be merged (S4's part 2). And what is sent must be the block at hand. K[GPU_id] can "
      "be that block, if UPDATE overwrites it; but then K[kv_idx], which the round attends, is "
      "nowhere on the GPU. If it is the GPU's own block, as the comment says, a GPU of 8 sees {1} "
      "blocks in all.",
      {Figure("sum of a row's weights after 4 rounds", added, near(4, 1e-12),
              {"merged", merged.normalised()}, 1),
       Figure("blocks that a GPU of 8 sees when each sends its own", blocks_seen(8, true),
              exactly(2), {"each sends what it holds", blocks_seen(8, false)}, 8)}};
}

CLAIM(C13, BlocksComeFromTheRanksBehind, holds, "S0, S1, S2, S4",
      "S0, Putting it together; S1, part one, 4.2; S2, Communication-Computation Overlap; S4, part "
      "1") {
  return {"Sending to rank i+1, rank i holds the KV block of rank (i - t) mod N at step t.",
          "It does, at every one of 64 pairs of rank and step, on paper and in a recorded run.",
          {Figure("exceptions of 64, labels passed on by hand, 8 ranks", mismatches(8, minus),
                  exactly(0), {"(i + t) mod N", mismatches(8, plus)}, 0),
           Figure("exceptions of 64 in a recorded run", recorded_mismatches(minus), exactly(0),
                  {"(i + t) mod N", recorded_mismatches(plus)}, 0)}};
}

CLAIM(C14, NotFromTheRanksAhead, wrong, "S3", "Section 2, pipeline overview; Section 5.1") {
  return {"Sending to the right, device i holds block (i + t) mod N at iteration t.",
          "(i - t) mod N; (i + t) is what sending to the left gives. Of 64 pairs of device and "
          "iteration {0} differ, and both agree where 2t is a multiple of N. S3's own trace has "
          "block {1} on device 0 at iteration 1 of 3, which is right.",
          {Figure("exceptions of 64, labels passed on by hand, 8 ranks", mismatches(8, plus),
                  exactly(48), {"(i - t) mod N", mismatches(8, minus)}, 0),
           Figure("block on device 0 at iteration 1 of 3, sent to the right",
                  static_cast<double>(passed_around(3, 1)[1][0]), exactly(2),
                  {"sent to the left", static_cast<double>(passed_around(3, -1)[1][0])},
                  plus(0, 1, 3))}};
}

CLAIM(C15, NMinusOneHopsShowEveryBlockToEveryRank, holds, "S2", "Core Idea, 5") {
  std::set<int> owners, without_last;
  for (const TraceEvent& e : events_of(run_of_eight(), 3, Lane::compute)) {
    owners.insert(e.kv_owner);
    if (e.step < 7) without_last.insert(e.kv_owner);
  }
  Problem both = config_of(1, 1, 64, 4, 8);
  both.backward = true;
  const auto gradient_hops = events_of(recorded_run(both), 3, Lane::send, Payload::dkv).size();
  return {"After N - 1 passes every rank has seen every KV block.",
          "It has, with {1} messages per rank for 8 ranks. A gradient needs one hop more, to get "
          "home (C16).",
          {Figure("blocks that a rank of 8 attended in a recorded run",
                  static_cast<double>(owners.size()), exactly(8),
                  {"one hop less", static_cast<double>(without_last.size())}, 8),
           Figure("KV blocks that it sent",
                  static_cast<double>(events_of(run_of_eight(), 3, Lane::send).size()), exactly(7),
                  {"gradients counted instead", static_cast<double>(gradient_hops)}, 7)}};
}

CLAIM(C28, ARingIsNoAllToAll, wrong, "S1", "part one, 7.2 and 7.3") {
  std::set<int> peers, owners;
  for (const TraceEvent& e : events_of(run_of_eight(), 3, Lane::send)) peers.insert(e.dst);
  for (const TraceEvent& e : events_of(run_of_eight(), 3, Lane::recv)) owners.insert(e.kv_owner);
  return {
      "Passing K and V around a ring is an all-to-all exchange.",
      "In an all-to-all every rank has a message for every other one. In a ring a rank sends to "
      "{0} rank only. Dealing out heads instead of the sequence (Ulysses) is what needs an "
      "all-to-all.",
      {Figure("ranks of 8 that one rank sends to", static_cast<double>(peers.size()), exactly(1),
              {"owners of the blocks that reach it counted", static_cast<double>(owners.size())},
              7)}};
}

CLAIM(C45, PositionsAreNeverSent, holds, "S1", "part two, 12.3") {
  const auto run = recorded_run(config_of(2, 1, 64, 4, 4, "causal", kFold));
  const double keys_and_values = 3 * 2.0 * 16 * 4 * 4;
  return {"Positions follow from the block's owner by a formula, and are never sent.",
          "Three hops of a folded causal run carry K and V of 16 rows each, and {0} bytes besides.",
          {Figure("bytes sent beyond K and V, 64 positions folded on 4 ranks",
                  bytes_sent(run, 1) - keys_and_values, exactly(0),
                  {"an 8-byte position with each row",
                   bytes_sent(run, 1) + 3 * 16 * 8.0 - keys_and_values},
                  0)}};
}

CLAIM(C61, QueriesStayAtHome, wrong, "S0", "Putting it together, below the first picture") {
  // With 4 query heads for a KV head, a travelling Q would show in the bytes.
  const auto run = recorded_run(config_of(4, 1, 64, 4, 4));
  const double row = 3 * 16 * 4 * 4.0;  // a head's bytes in three hops
  return {"While it computes, GPU 1 sends Q1 and V1 to GPU 2.",
          "It sends K1 and V1, as S0's other sentences have it; queries stay where they are. (It "
          "is a slip of the pen.)",
          {Figure("bytes sent over those of K and V, 4 query heads per KV head",
                  bytes_sent(run, 1) / (2 * row), exactly(1),
                  {"Q and V sent", (4 * row + row) / (2 * row)}, (4 + 1) / 2.0)}};
}

}  // namespace
}  // namespace ringscope::claims
