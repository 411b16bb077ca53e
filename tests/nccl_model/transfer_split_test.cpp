// What both sides of a hop saw becomes what the transfer took.
#include <gtest/gtest.h>

#include "cuda/nccl/nccl_communicator.h"

namespace ringscope::cuda {
namespace {

TraceEvent hop(Lane lane, int src, int dst, std::int64_t begin, std::int64_t end, int step = 0) {
  TraceEvent event{.lane = lane, .step = step, .begin_ns = begin, .end_ns = end};
  event.src = src;
  event.dst = dst;
  event.flow = 1 + 10 * step + src;
  return event;
}

TraceEvent wait(int rank, std::int64_t begin, std::int64_t end) {
  TraceEvent event{.lane = Lane::wait, .step = 1, .begin_ns = begin, .end_ns = end};
  event.waiting_for = rank;
  return event;
}

using Span = std::pair<std::int64_t, std::int64_t>;
Span span(const TraceEvent& event) { return {event.begin_ns, event.end_ns}; }

// Three ranks, of which each has one hop: its own beginning and end, for both directions.
Recording three_ranks(Span first, Span second, Span third) {
  Recording recording;
  int rank = 0;
  for (const Span& its : {first, second, third}) {
    recording.events.push_back({hop(Lane::send, rank, (rank + 1) % 3, its.first, its.second),
                                hop(Lane::recv, (rank + 2) % 3, rank, its.first, its.second),
                                wait((rank + 2) % 3, its.first, its.second)});
    ++rank;
  }
  return recording;
}

TEST(TransferSplit, ATransferBeginsWhenBothAreThereAndEndsBeforeEitherLeaves) {
  // Rank 1 is late: what is sent to it, and what it sends, begins with it.
  Recording recording = three_ranks({100, 230}, {200, 225}, {110, 240});
  split_waiting_from_transfer(recording);
  EXPECT_EQ(span(recording.events[0][0]), Span(200, 225));  // 0 to 1
  EXPECT_EQ(span(recording.events[1][1]), Span(200, 225));
  EXPECT_EQ(span(recording.events[1][0]), Span(200, 225));  // 1 to 2
  EXPECT_EQ(span(recording.events[2][1]), Span(200, 225));
  EXPECT_EQ(span(recording.events[2][0]), Span(110, 230));  // 2 to 0
  EXPECT_EQ(span(recording.events[0][1]), Span(110, 230));
}

TEST(TransferSplit, WaitsNameThePeerThatCameLast) {
  Recording recording = three_ranks({100, 230}, {200, 225}, {110, 240});
  split_waiting_from_transfer(recording);
  EXPECT_EQ(recording.events[0][2].waiting_for, 1);  // the next one, since its buffer was not free
  EXPECT_EQ(recording.events[1][2].waiting_for, 2);
  EXPECT_EQ(recording.events[2][2].waiting_for, 1);  // the previous one
  EXPECT_EQ(span(recording.events[0][2]), Span(100, 230));
}

TEST(TransferSplit, AWaitIsAboutTheHopBeforeItsStepOrGatheringTheOneThatHadBegunLast) {
  Recording recording = three_ranks({100, 230}, {200, 225}, {110, 240});
  // A second hop, of which rank 2 is late, begins on rank 0 before its wait ends, or after it.
  for (const std::int64_t begin : {220, 400}) {
    Recording two = recording;
    two.events[0].push_back(hop(Lane::send, 0, 1, begin, 500, 1));
    two.events[1].push_back(hop(Lane::send, 1, 2, 230, 500, 1));
    two.events[2].push_back(hop(Lane::send, 2, 0, 450, 500, 1));
    Recording gathered = two;
    gathered.info.scheme = "allgather";
    split_waiting_from_transfer(two);
    split_waiting_from_transfer(gathered);
    EXPECT_EQ(two.events[0][2].waiting_for, 1);
    EXPECT_EQ(gathered.events[0][2].waiting_for, begin == 220 ? 2 : 1);
  }
}

TEST(TransferSplit, ClocksThatDifferLeaveSlicesWithinTheirOwn) {
  Recording recording = three_ranks({100, 120}, {300, 330}, {305, 325});
  split_waiting_from_transfer(recording);
  EXPECT_EQ(span(recording.events[0][0]), Span(120, 120));
  EXPECT_EQ(span(recording.events[1][1]), Span(300, 300));
  for (const auto& events : recording.events)
    for (const TraceEvent& event : events) EXPECT_LE(event.begin_ns, event.end_ns);
}

TEST(TransferSplit, ASideThatIsNotThereChangesNothing) {
  Recording recording;
  recording.events = {{hop(Lane::send, 0, 1, 5, 9)}, {}};
  const Recording before = recording;
  split_waiting_from_transfer(recording);
  EXPECT_EQ(recording, before);
}

}  // namespace
}  // namespace ringscope::cuda
