// Rings that live long: what is over is forgotten.
#include "core/ring/thread_communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

namespace ringscope {
namespace {

// Two messages are under way at a time, as in a ring with two buffers; the later waits for the
// earlier. When a rank has waited for a hop, all before it are gone, on both its sides.
TEST(ThreadRing, ForgetsHopsThatAreOver) {
  constexpr int ranks = 3, hops = 200;
  ThreadRing ring(ranks);
  std::vector<std::vector<std::weak_ptr<PendingOperation>>> started(ranks);
  std::vector<long> kept(ranks, -1), sums(ranks, 0);
  {
    std::vector<std::unique_ptr<ThreadCommunicator>> communicators;
    for (int rank = 0; rank < ranks; ++rank)
      communicators.push_back(std::make_unique<ThreadCommunicator>(ring, rank));
    std::vector<std::thread> threads;
    std::vector<std::vector<int>> sent(ranks, std::vector<int>(hops));
    std::vector<std::vector<int>> received(ranks, std::vector<int>(hops));
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        Completion last;
        for (int i = 0; i < hops; ++i) {
          sent[rank][i] = 1000 * rank + i;
          Completion next =
              communicators[rank]->exchange({Pass::forward, Payload::kv, i, 0, &sent[rank][i],
                                             sizeof(int), 0, &received[rank][i], sizeof(int)},
                                            {last});
          wait_for(last);
          last = std::move(next);
          started[rank].push_back(last);
        }
        wait_for(last);
        for (const int value : received[rank]) sums[rank] += value;
        kept[rank] = std::count_if(started[rank].begin(), started[rank].end(),
                                   [](const auto& hop) { return !hop.expired(); });
      });
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < ranks; ++rank) {
      const long from = (rank + ranks - 1) % ranks;
      EXPECT_EQ(sums[rank], 1000 * from * hops + hops * (hops - 1) / 2);
      EXPECT_LE(kept[rank], 1) << "rank " << rank << ": all but the one that `last` holds";
    }
  }
}

}  // namespace
}  // namespace ringscope
