// Whatever rank fails at whatever step, every rank ends, and the error says which rank and which
// step.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <new>
#include <stdexcept>
#include <variant>

#include "core/ring/ring.h"
#include "core/ring/thread_communicator.h"
#include "tests/core/ring/ring_harness.h"

namespace ringscope {
namespace failure_test {

// What fails: an operation of the backend, or a hop of a pass.
using Where = std::variant<BlockOperation, Pass>;
enum class Kind { run_error, other, memory };

struct Fault {
  int rank;
  int step;
  Where where;
  Kind kind;

  void strike(int at_rank, int at_step, const Where& at) const {
    if (at_rank != rank || at_step != step || at != where) return;
    switch (kind) {
      case Kind::run_error:
        throw RunError("the device is gone");
      case Kind::other:
        throw std::runtime_error("the device is gone");
      case Kind::memory:
        throw std::bad_alloc();
    }
  }
};

class FaultyBackend : public ForwardingBackend {
 public:
  FaultyBackend(int rank, BlockBackend& inner, const Fault& fault)
      : ForwardingBackend(inner), rank_(rank), fault_(fault) {}

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override {
    if (step != nullptr) fault_.strike(rank_, step->step, which);
    return start(after);
  }

  int rank_;
  Fault fault_;
};

class FaultyCommunicator : public ForwardingCommunicator {
 public:
  FaultyCommunicator(Communicator& inner, const Fault& fault)
      : ForwardingCommunicator(inner), fault_(fault) {}
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    fault_.strike(rank(), hop.step, hop.pass);
    return ForwardingCommunicator::exchange(hop, after);
  }

 private:
  Fault fault_;
};

constexpr int kWorldSize = 4;
constexpr AttentionShape kShape{1, 2, 1, 21, 4};

const RingReference& problem() {
  static const RingReference reference(kShape, DType::f32, "causal", 0.5f, 41);
  return reference;
}

// Ends the whole program when the ranks hang: their threads cannot be taken back.
RingRun run_with_deadline(const Scheme* scheme, int kv_buffers, const Fault& fault) {
  Problem config = problem().config(PartitionKind::zigzag, kWorldSize, scheme);
  config.kv_buffers = kv_buffers;
  auto running = std::async(std::launch::async, [&] {
    return run_wrapped(
        config, problem().inputs,
        [&](Rank&, Communicator& inner) { return FaultyCommunicator(inner, fault); },
        [&](Rank& rank, BlockBackend& inner) { return FaultyBackend(rank.rank(), inner, fault); });
  });
  if (running.wait_for(std::chrono::seconds(120)) != std::future_status::ready) {
    ADD_FAILURE() << "ranks still running long after the fault";
    std::_Exit(1);
  }
  return running.get();
}

// A scheme and its KV buffers.
class Failure : public testing::TestWithParam<std::pair<const Scheme*, int>> {};

TEST_P(Failure, OfAnyRankAtAnyStepEndsAllAndIsNamed) {
  const auto [scheme, kv_buffers] = GetParam();
  for (const Where& where :
       {Where(BlockOperation::attend), Where(BlockOperation::attend_backward),
        Where(BlockOperation::add), Where(Pass::forward), Where(Pass::backward)})
    for (const Kind kind : {Kind::run_error, Kind::other, Kind::memory})
      for (int rank = 0; rank < kWorldSize; ++rank)
        for (int step = 0; step < kWorldSize; ++step) {
          // Steps at which this happens at all.
          const bool attends = where == Where(BlockOperation::attend) ||
                               where == Where(BlockOperation::attend_backward);
          const bool is_ring = scheme == scheme_named("ring");
          if (is_ring && where == Where(BlockOperation::add) && step == 0) continue;
          if (step == kWorldSize - 1 && (is_ring ? where == Where(Pass::forward) : !attends))
            continue;
          SCOPED_TRACE(testing::Message() << "rank " << rank << ", step " << step << ", where "
                                          << where.index() << ", kind " << static_cast<int>(kind));
          try {
            run_with_deadline(scheme, kv_buffers, {rank, step, where, kind});
            ADD_FAILURE() << "no error";
          } catch (const RunError& error) {
            EXPECT_EQ(error.rank(), rank);
            EXPECT_EQ(error.step(), step);
            EXPECT_NE(std::string(error.what()), "");
          }
        }
}

TEST_P(Failure, OfNobodyIsNoFailure) {
  const auto [scheme, kv_buffers] = GetParam();
  const RingRun run =
      run_with_deadline(scheme, kv_buffers, {-1, -1, BlockOperation::attend, Kind::run_error});
  EXPECT_LE(max_abs_error(run.outputs.out, problem().oracle.out), 1e-5);
  EXPECT_LE(max_abs_error(run.outputs.dk, problem().oracle.dk), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, Failure,
                         testing::Values(std::pair(scheme_named("ring"), 2),
                                         std::pair(scheme_named("ring"), 4),
                                         std::pair(scheme_named("allgather"), 2)),
                         [](const auto& tested) {
                           return std::string(name_of(tested.param.first)) +
                                  (tested.param.second == 2 ? "" : "_4_buffers");
                         });

// Ranks that don't agree about a message get an error, not a wrong answer.
TEST(ThreadCommunicator, RefusesBlocksThatWereNotExpected) {
  std::vector<std::byte> a(8), b(8);
  const auto outcome = [&](Index recv_bytes, int recv_owner, Payload payload) {
    ThreadRing ring(2);
    std::optional<RunError> error;
    std::thread other([&] {
      try {
        ThreadCommunicator comm(ring, 1);
        wait_for(
            comm.exchange({Pass::forward, Payload::kv, 3, 1, b.data(), 4, 0, b.data() + 4, 4}, {}));
      } catch (const RunError&) {
      }
    });
    try {
      ThreadCommunicator comm(ring, 0);
      wait_for(comm.exchange(
          {Pass::forward, payload, 3, 0, a.data(), 4, recv_owner, a.data() + 4, recv_bytes}, {}));
    } catch (const RunError& caught) {
      error = caught;
    }
    other.join();
    return error;
  };
  EXPECT_FALSE(outcome(4, 1, Payload::kv).has_value());
  EXPECT_TRUE(outcome(3, 1, Payload::kv).has_value());
  EXPECT_TRUE(outcome(4, 0, Payload::kv).has_value());
  EXPECT_TRUE(outcome(4, 1, Payload::dkv).has_value());
}

}  // namespace failure_test
}  // namespace ringscope
