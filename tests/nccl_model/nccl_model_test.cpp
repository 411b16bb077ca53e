// The stand-in for NCCL finds what it is there to find: buffers that are touched too early, and communicators
// that are not used as they must be. What hangs and what has an error is in nccl_mutants_test and nccl_faults_test.
#include <gtest/gtest.h>

#include "tests/nccl_model/nccl_run.h"

namespace ringscope::cuda {
namespace {

constexpr std::size_t kBytes = 32;

// Communicators of some ranks, each with a stream and two buffers, used from the test's own thread.
class NcclModelTest : public NcclTest {
 protected:
  struct Rank {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    unsigned char *sent = nullptr, *received = nullptr;
  };

  void SetUp() override {
    NcclTest::SetUp();
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  }

  void connect(int ranks) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ranks_.resize(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      Rank& r = ranks_[static_cast<std::size_t>(rank)];
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ASSERT_EQ(ncclCommInitRankConfig(&r.comm, ranks, id, rank, &config), ncclInProgress);
      ASSERT_EQ(cudaStreamCreateWithPriority(&r.stream, cudaStreamNonBlocking, 0), cudaSuccess);
      ASSERT_EQ(cudaMalloc(&r.sent, kBytes), cudaSuccess);
      ASSERT_EQ(cudaMalloc(&r.received, kBytes), cudaSuccess);
      ASSERT_EQ(cudaMemset(r.sent, 1 + rank, kBytes), cudaSuccess);
    }
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    settle();
  }

  ncclResult_t state(int rank) {
    ncclResult_t status = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(at(rank).comm, &status), ncclSuccess);
    return status;
  }
  // Polls all for a while; whether all are done.
  bool settle() {
    for (int i = 0; i < 50; ++i) {
      bool all = true;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        all = state(static_cast<int>(rank)) == ncclSuccess && all;
      if (all) return true;
    }
    return false;
  }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  ncclResult_t send(int rank, std::size_t bytes = kBytes) {
    Rank& r = at(rank);
    return ncclSend(r.sent, bytes, ncclInt8, (rank + 1) % size(), r.comm, r.stream);
  }
  ncclResult_t receive(int rank, std::size_t bytes = kBytes) {
    Rank& r = at(rank);
    return ncclRecv(r.received, bytes, ncclInt8, (rank + size() - 1) % size(), r.comm, r.stream);
  }
  void exchange(int rank) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(send(rank), ncclSuccess);
    EXPECT_EQ(receive(rank), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  }
  bool complained(const std::string& of) {
    for (const std::string& complaint : model::nccl_complaints())
      if (complaint.find(of) != std::string::npos) return true;
    return false;
  }
  void abort_all() {
    for (const Rank& r : ranks_) EXPECT_EQ(ncclCommAbort(r.comm), ncclSuccess);
  }

  std::vector<Rank> ranks_;
};

// What another stream does while rank 0's group has begun, and its peer's has not.
TEST_F(NcclModelTest, BuffersThatAreTouchedOnTheWayAreFound) {
  for (const bool the_one_sent : {true, false}) {
    reset_models();
    connect(2);
    for (int rank = 0; rank < 2; ++rank) exchange(rank);
    while (state(0) == ncclInProgress) {
    }
    cudaEvent_t behind = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&behind, cudaEventDefault), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(behind, at(0).stream), cudaSuccess);
    ASSERT_EQ(cudaEventQuery(behind), cudaErrorNotReady);  // runs what can be run
    cudaStream_t other = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0), cudaSuccess);
    unsigned char* const touched = the_one_sent ? at(0).sent : at(0).received;
    ASSERT_EQ(cudaMemsetAsync(touched, 7, kBytes, other), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
    ASSERT_TRUE(settle());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(model::nccl_complaints().size(), 1u);
    EXPECT_TRUE(complained(the_one_sent ? "rank 0 sends rank 1 32 bytes: the buffer changed"
                                        : "rank 0 receives from rank 1 32 bytes: the buffer was"));
  }
}

TEST_F(NcclModelTest, ACallWhileAnotherIsInProgressIsRefused) {
  model::set_nccl_delay(0, 1);
  connect(2);
  exchange(0);
  EXPECT_EQ(send(0), ncclInvalidUsage);
  EXPECT_TRUE(complained("in progress"));
  abort_all();
}

TEST_F(NcclModelTest, WhatHasEndedIsNotUsedAgain) {
  connect(2);
  EXPECT_EQ(ncclCommAbort(at(0).comm), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(at(0).comm), ncclInvalidArgument);
  EXPECT_TRUE(complained("is aborted"));
  EXPECT_EQ(ncclCommDestroy(at(1).comm), ncclSuccess);
  EXPECT_EQ(send(1), ncclInvalidArgument);
  EXPECT_TRUE(complained("is destroyed"));
}

TEST_F(NcclModelTest, NothingMayBeUnderWayWhenOneIsDestroyed) {
  connect(2);
  for (int rank = 0; rank < 2; ++rank) exchange(rank);
  ASSERT_TRUE(settle());
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ncclCommDestroy(at(rank).comm), ncclSuccess);
  EXPECT_TRUE(complained("work is under way"));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// An event that is recorded while the call is in progress is before the group in the stream.
TEST_F(NcclModelTest, AnEventBeforeTheCallIsDoneComesTooEarly) {
  connect(2);
  cudaEvent_t early = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&early, cudaEventDefault), cudaSuccess);
  exchange(0);
  ASSERT_EQ(cudaEventRecord(early, at(0).stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(early), cudaSuccess);  // the group of rank 1 is not there at all
  abort_all();
}

TEST_F(NcclModelTest, BlockingCommunicatorsAreRefused) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  EXPECT_TRUE(complained("blocking"));
}

}  // namespace
}  // namespace ringscope::cuda
