// Rings with a slow rank in every place, with and without overlap, clocks that differ, other kernels
// between; and an all-gather, which is none.
#include <algorithm>
#include <string>

#include "tests/lessons/exercises/exercise_test.h"

namespace {

constexpr int kLayers = 16;

// `clock` is what a rank's clock is ahead of the one before it.
std::vector<Profile> ring(std::size_t n, std::size_t slow, double hop, bool overlaps,
                          double clock) {
  std::vector<Profile> ranks(n);
  std::vector<double> ready(n);
  for (std::size_t step = 0; step < std::size_t{kLayers} * n; ++step) {
    const std::vector<double> began = ready;
    for (std::size_t r = 0; r < n; ++r) {
      const double ahead = clock * static_cast<double>(r);
      const double there = std::max({began[(r + n - 1) % n], began[r], began[(r + 1) % n]});
      const double moved = step % n + 1 < n ? there + hop : began[r];
      const double from = overlaps ? began[r] : moved, to = from + (r == slow ? 130 : 100);
      if (step % n + 1 < n)
        ranks[r].push_back({"ncclKernel_SendRecv_RING", began[r] + ahead, moved + ahead});
      ranks[r].push_back({r % 2 ? "_attn_fwd" : "flash_fwd_splitkv", from + ahead, to + ahead});
      ranks[r].push_back({"elementwise_kernel", to + ahead, to + ahead + 1});
      ready[r] = std::max(moved, to);
    }
  }
  return ranks;
}

}  // namespace

void check(Exercise& exercise) {
  for (const std::size_t n : {3u, 4u, 8u})
    for (std::size_t slow = 0; slow < n; slow += 2)
      for (const double clock : {0.0, 5000.0}) {
        const auto ranks = ring(n, slow, 20, true, clock);
        const std::string name = std::to_string(n) + " ranks, " + std::to_string(slow) + " slow";
        exercise.holds(name + ": a ring", is_ring(ranks, kLayers));
        exercise.equal(name + ": found", static_cast<double>(slow_rank(ranks)),
                       static_cast<double>(slow));
        exercise.near(name + ": it overlaps", overlap(ranks[slow]), 1, 1e-9);
      }
  exercise.near("no overlap", overlap(ring(4, 1, 20, false, 0)[1]), 0, 1e-9);
  exercise.near("half", overlap(Profile{{"SendRecv", 0, 40}, {"flash", 20, 50}}), 0.5, 1e-9);
  exercise.near("no transfers", overlap(Profile{{"flash", 20, 50}}), 0, 0);
  exercise.holds("an all-gather is no ring",
                 !is_ring({{{"ncclDevKernel_AllGather", 0, 9}, {"flash", 9, 20}},
                           {{"ncclDevKernel_AllGather", 0, 9}, {"flash", 9, 20}}},
                          1));
}
