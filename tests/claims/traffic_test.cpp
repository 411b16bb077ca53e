// Tests the sources' counts of bytes and messages that are sent.
#include "core/tools/cost/amounts.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace {

double bytes_in_all(int n) {
  double bytes = 0;
  for (int rank = 0; rank < n; ++rank)
    bytes += traffic_of(job_of(32, 32, 65536, n), rank).forward_bytes;
  return bytes;
}

double kv_bytes() { return 2 * kv_values({1, 32, 32, 65536, 128}, 65536) * 2; }

CLAIM(C27, RingAndAllGatherMoveTheSame, holds_if, "S1", "part one, 3.2, 4.4 and 7.3") {
  Problem config = config_of(2, 2, 64, 4, 8);
  const RingRun ring = recorded_run(config);
  config.scheme = scheme_named("allgather");
  const RingRun gathered = recorded_run(config);
  const Problem job = job_of(32, 32, 65536, 8);
  // S1 counts N messages for the ring (4.4) and N - 1 blocks for the all-gather (3.2).
  return {
      "A ring moves the same volume as an all-gather: 2 b S H d values per rank, one block in each "
      "of N steps.",
      "They are the same if the ring's last step sends nothing: N - 1 messages per rank, (N-1)/N "
      "of "
      "all K and V, as S1 itself counts for the all-gather. With N messages, as its 4.4 counts, it "
      "would be N / (N - 1) of that, and the last one would bring every block back to its owner "
      "for nothing.",
      {Figure("bytes a rank sends in a recorded ring over a recorded all-gather",
              bytes_sent(ring, 0) / bytes_sent(gathered, 0), exactly(1),
              {"N messages against N - 1", bytes_sent(ring, 0) * 8 / 7 / bytes_sent(gathered, 0)},
              1),
       Figure("messages a rank of 8 sends",
              static_cast<double>(events_of(ring, 0, Lane::send).size()), exactly(7),
              {"one for every step, the last included",
               static_cast<double>(events_of(ring, 0, Lane::compute).size())},
              8),
       Figure("bytes a rank of 8 sends over those of all K and V",
              traffic_of(job, 0).forward_bytes / kv_bytes(), exactly(7.0 / 8),
              {"N messages", 8 * kv_hop_bytes(job) / kv_bytes()}, 1)}};
}

CLAIM(C29, VolumeIsIndependentOfNOnlyForARank, holds_if, "S2", "Complexity Analysis") {
  const double share = bytes_in_all(64) / 64 / kv_bytes();
  return {"The communication volume is O(S d) in total, whatever the number of ranks.",
          "This is true of one rank: it sends (N-1)/N of all K and V, {0} with 64 ranks. Over all "
          "ranks it grows with N - 1: {1} times as much with 64 ranks as with 2.",
          {Figure("what a rank of 64 sends over all K and V", share, {0.98, 1},
                  {"what all ranks send", bytes_in_all(64) / kv_bytes()}, 1),
           Figure("what all ranks send, 64 ranks over 2", bytes_in_all(64) / bytes_in_all(2),
                  exactly(63),
                  {"a rank's mean instead", share / (bytes_in_all(2) / 2 / kv_bytes())}, 1)}};
}

CLAIM(C48, GroupedHeadsSendTheirShare, holds, "S1, S3", "S1, part two, 12.3; S3, 8B") {
  const double all = bytes_sent(recorded_run(config_of(8, 8, 64, 4, 4)), 0);
  const double grouped = bytes_sent(recorded_run(config_of(8, 2, 64, 4, 4)), 0);
  const auto closed_form = [](Index heads_kv) {
    return traffic_of(job_of(32, heads_kv, 65536, 8), 0).forward_bytes;
  };
  return {
      "With grouped heads only the KV heads go round the ring.",
      "They do, and the bytes fall by the ratio of the heads: {0} with 2 KV heads for 8, measured.",
      {Figure("bytes sent in a recorded run, 2 KV heads for 8 over 8 for 8", grouped / all,
              exactly(2.0 / 8), {"K and V repeated for every query head", grouped * 4 / all},
              2.0 / 8),
       Figure("by formula, 1 KV head for 32", closed_form(1) / closed_form(32), exactly(1.0 / 32),
              {"4 KV heads", closed_form(4) / closed_form(32)}, 1.0 / 32)}};
}

}  // namespace
}  // namespace ringscope::claims
