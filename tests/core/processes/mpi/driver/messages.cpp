// Hops without a run around them: blocks in many messages, empty blocks, hops that wait for others.
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "core/processes/mpi/mpi_communicator.h"
#include "core/ring/ring.h"
#include "tests/core/processes/mpi/driver/driver.h"

namespace ringscope {
namespace {

std::vector<int> block_of(int owner, std::size_t values) {
  std::vector<int> block(values);
  std::iota(block.begin(), block.end(), 1000 * owner);
  return block;
}

// Sends blocks round the whole ring in messages of `message_bytes`, into two buffers.
void go_round(MpiSession& session, std::size_t values, Index message_bytes) {
  const RingSchedule ring{session.rank(), session.world_size()};
  MpiWaits waits;
  RankPulse pulse;
  MpiCommunicator::Options options;
  options.message_bytes = message_bytes;
  options.pulse = &pulse;
  std::vector<int> blocks[2] = {block_of(ring.rank, values), std::vector<int>(values, -1)};
  {
    MpiCommunicator comm(waits, ring.rank, ring.world_size, options);
    const Index bytes = static_cast<Index>(values * sizeof(int));
    Completion arrived;
    for (int step = 0; step < ring.world_size; ++step) {
      arrived = comm.exchange(
          {Pass::forward, Payload::kv, step, ring.owner(step), blocks[step % 2].data(), bytes,
           ring.owner(step + 1), blocks[(step + 1) % 2].data(), bytes},
          {arrived});
    }
    arrived->wait();
    EXPECT_TRUE(arrived->done());
    const TransferTimes times = arrived->times();
    EXPECT_LE(times.send_begin, times.send_end);
    EXPECT_LE(times.recv_begin, times.recv_end);
    EXPECT_GT(times.recv_begin, 0);
  }
  EXPECT_EQ(blocks[ring.world_size % 2], block_of(ring.rank, values)) << "rank " << ring.rank;
  EXPECT_GE(pulse.progress(), static_cast<std::uint64_t>(ring.world_size));
}

}  // namespace

void messages(MpiSession& session) {
  go_round(session, 1000, 4000);
  go_round(session, 1000, 4001);
  go_round(session, 1000, 3999);  // a last message of one byte
  go_round(session, 1000, 16);
  go_round(session, 0, 16);
  go_round(session, 1 << 18, 1 << 18);
  if (testing::UnitTest::GetInstance()->Failed()) throw RunError("blocks differ", session.rank());
}

}  // namespace ringscope
