// Tensor parallel heads with a ring of attention, two rings a process: bit for bit what threads do.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "core/mpi/mpi_communicator.h"
#include "tests/core/model/tensor_parallel_case.h"
#include "tests/core/mpi/driver/driver.h"

namespace ringscope {
namespace {

MpiCommunicator::Options options_of(const std::vector<int>& group) {
  MpiCommunicator::Options options;
  options.world_ranks = group;
  return options;
}

}  // namespace

void tensor_parallel(MpiSession& session) {
  const int size = session.world_size(), rank = session.rank();
  const RankGroups groups({{2, size / 2, 1, 1}}, size);
  int runs = 0;
  for (const PartitionKind partition : kAllPartitions)
    for (const Index seqlen : {1, 13, 300}) {
      AttentionCase a_case;
      a_case.partition = partition;
      a_case.seqlen = seqlen;
      const auto on_threads = run_parts(a_case, 2, size / 2);
      MpiWaits waits;
      std::unique_ptr<Part> part;  // outlives the communicators
      const PerAxis at = groups.indices(rank);
      MpiCommunicator tensor(waits, at[Axis::tensor], 2,
                             options_of(groups.members(rank, Axis::tensor)));
      MpiCommunicator context(waits, at[Axis::context], size / 2,
                              options_of(groups.members(rank, Axis::context)));
      part = std::make_unique<Part>(a_case, tensor, context);
      part->run();
      const Part& expected = *on_threads[rank];
      EXPECT_EQ(part->rows.y, expected.rows.y) << "rank " << rank;
      EXPECT_EQ(part->rows.dx, expected.rows.dx) << "rank " << rank;
      EXPECT_EQ(std::memcmp(part->store.gradients(), expected.store.gradients(),
                            sizeof(float) * static_cast<std::size_t>(part->store.size())),
                0)
          << "rank " << rank;
      EXPECT_EQ(part->tensor.sent(), expected.tensor.sent());
      EXPECT_EQ(part->context.sent(), expected.context.sent());
      ++runs;
    }
  EXPECT_EQ(overlapping_calls(), 0);
  if (testing::UnitTest::GetInstance()->Failed()) throw RunError("values differ", rank);
  if (rank == 0) std::printf("%d runs compared\n", runs);
}

}  // namespace ringscope
