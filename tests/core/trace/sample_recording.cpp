#include "tests/core/trace/sample_recording.h"

#include <limits>

namespace ringscope {
namespace {

constexpr std::int64_t kStepNs = 2000;

void add_pass(Recording& recording, Pass pass) {
  const int n = recording.info.world_size;
  const std::int64_t start = pass == Pass::forward ? 0 : n * kStepNs;
  for (int rank = 0; rank < n; ++rank) {
    const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
    for (int step = 0; step < n; ++step) {
      const std::int64_t now = start + step * kStepNs;
      const int owner = (rank + n - step) % n;
      std::vector<TraceEvent>& events = recording.events[static_cast<std::size_t>(rank)];
      const std::int64_t pairs = 100 * (rank + 1) + step;
      events.push_back({.pass = pass,
                        .step = step,
                        .kv_owner = owner,
                        .begin_ns = now + 10,
                        .end_ns = now + 1010,
                        .pairs = pairs,
                        .flops = 256 * pairs,
                        .tiles_full = step,
                        .tiles_partial = 2,
                        .tiles_skipped = rank,
                        .cpu_ns = 900 + rank});

      TraceEvent wait{.lane = Lane::wait, .pass = pass, .step = step, .kv_owner = owner};
      wait.begin_ns = now + 1010;
      wait.end_ns = now + 1500 + 7 * rank;
      wait.waiting_for = previous;
      events.push_back(wait);

      const auto hop = [&](Payload payload, std::int64_t begin) {
        const auto flow_from = [&](int sender) {
          const int kind = 2 * static_cast<int>(pass) + static_cast<int>(payload);
          return 1 + (kind * n + step) * n + sender;
        };
        TraceEvent send{.lane = Lane::send, .pass = pass, .payload = payload, .step = step};
        send.kv_owner = owner;
        send.begin_ns = begin + rank;
        send.end_ns = begin + 600;
        send.bytes = payload == Payload::kv ? 4096 : 8192;
        send.src = rank;
        send.dst = next;
        send.flow = flow_from(rank);
        send.moved_ns = 1234;
        TraceEvent recv = send;
        recv.lane = Lane::recv;
        recv.kv_owner = (owner + n - 1) % n;
        recv.begin_ns = begin + 2 * rank;
        recv.src = previous;
        recv.dst = rank;
        recv.flow = flow_from(previous);
        events.push_back(send);
        events.push_back(recv);
      };
      if (step + 1 < n) hop(Payload::kv, now);
      if (pass == Pass::backward && n > 1) hop(Payload::dkv, now + 1000);
    }
  }
}

}  // namespace

Recording sample_recording(int world_size, bool backward) {
  Recording recording;
  recording.info.partition = "zigzag";
  recording.info.mask = "causal+window:17";
  recording.info.shape = {2, 4, 2, 1000, 64};
  recording.info.world_size = world_size;
  recording.info.travel = Travel{.visits_all = true};
  recording.info.base_time_ns = 1'700'000'000'123'456'789;
  recording.events.resize(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    recording.info.clock_offset_ns.push_back(-1000 * rank);
    recording.info.clock_error_ns.push_back(25 + rank);
    recording.dropped.push_back(rank == 1 ? 3 : 0);
  }
  add_pass(recording, Pass::forward);
  if (backward) add_pass(recording, Pass::backward);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int rank = 0; rank < world_size; ++rank) {
    recording.samples.push_back({rank, 0, 10 * rank, 1005, -kInfinity, 0, -kInfinity, kInfinity});
    recording.samples.push_back({rank, world_size - 1, 10 * rank, 5005, 0.1f, 1e-41f, -2.5f, 0});
  }
  return recording;
}

RecordedTile sample_tile() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {.softmax_scale = 0.125f,
          .queries = {7, 999},
          .keys = {0, 1, 2},
          .q = std::vector<float>(2 * 64, 0.1f),
          .k = std::vector<float>(3 * 64, -1e-41f),
          .v = std::vector<float>(3 * 6, 3e38f),
          .scores = {1, -kInfinity, -0.0f, -kInfinity, -kInfinity, -kInfinity},
          .row_max_before = {-kInfinity, -kInfinity},
          .row_sum_before = {0, 0},
          .out_before = std::vector<float>(2 * 6, 0.0f),
          .row_max = {1, -kInfinity},
          .row_sum = {1.5f, 0},
          .out_accum = std::vector<float>(2 * 6, 2.0f),
          .out = std::vector<float>(2 * 6, 0.25f)};
}

}  // namespace ringscope
