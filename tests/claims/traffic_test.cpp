// What is sent: the sources' counts of bytes and messages.
#include "core/cost/amounts.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace {

double bytes_of_scheme(Problem job, Scheme scheme) {
  job.scheme = scheme;
  return traffic_of(job, 0).forward_bytes;
}

double bytes_in_all(int n) {
  double bytes = 0;
  for (int rank = 0; rank < n; ++rank)
    bytes += traffic_of(job_of(32, 32, 65536, n), rank).forward_bytes;
  return bytes;
}

double kv_bytes() { return 2 * kv_values({1, 32, 32, 65536, 128}, 65536) * 2; }

CLAIM(C27, RingAndAllGatherMoveTheSame) {
  Problem config = config_of(2, 2, 64, 4, 8);
  const RingRun ring = recorded_run(config);
  config.scheme = Scheme::allgather;
  const RingRun gathered = recorded_run(config);
  const Problem job = job_of(32, 32, 65536, 8);
  // S1 counts N messages for the ring (4.4) and N - 1 blocks for the all-gather (3.2).
  return {.verdict = Verdict::holds_if,
          .claim =
              "A ring moves the same volume as an all-gather: 2 s d b n_h values a rank, one "
              "block in each of N steps.",
          .source = "S1",
          .place = "part one, 3.2, 4.4 and 7.3",
          .correct =
              "The same, if the ring's last step sends nothing: N - 1 messages a rank, (N-1)/N "
              "of all K and V, as S1 itself counts for the all-gather. With N messages, as its "
              "4.4 counts, it would be N / (N - 1) of that, and the last one would bring every "
              "block back to its owner for nothing.",
          .first_verdict = Verdict::holds,
          .why_changed =
              "the volumes are the same only with N - 1 messages, and S1 counts N for "
              "the ring and N - 1 for the all-gather",
          .figures = {{.what = "bytes a rank sends in a recorded ring over a recorded all-gather",
                       .value = bytes_sent(ring, 0) / bytes_sent(gathered, 0),
                       .right = exactly(1),
                       .claimed = 1,
                       .broken = {"N messages against N - 1",
                                  bytes_sent(ring, 0) * 8 / 7 / bytes_sent(gathered, 0)}},
                      {.what = "messages a rank of 8 sends",
                       .value = static_cast<double>(events_of(ring, 0, Lane::send).size()),
                       .right = exactly(7),
                       .claimed = 8,
                       .broken = {"one for every step, the last included",
                                  static_cast<double>(events_of(ring, 0, Lane::compute).size())}},
                      {.what = "bytes a rank of 8 sends over those of all K and V",
                       .value = traffic_of(job, 0).forward_bytes / kv_bytes(),
                       .right = exactly(7.0 / 8),
                       .claimed = 1,
                       .broken = {"N messages", 8 * kv_hop_bytes(job) / kv_bytes()}}}};
}

CLAIM(C29, VolumeIsIndependentOfNOnlyForARank) {
  const double share = bytes_in_all(64) / 64 / kv_bytes();
  return {.verdict = Verdict::holds_if,
          .claim = "The communication volume is O(S D) in total, whatever the number of ranks.",
          .source = "S2",
          .place = "Complexity Analysis",
          .correct =
              "True of one rank: it sends (N-1)/N of all K and V, {0} with 64 ranks. Over all "
              "ranks it grows with N - 1: {1} times as much with 64 ranks as with 2.",
          .figures = {
              {.what = "what a rank of 64 sends over all K and V",
               .value = share,
               .right = {0.98, 1},
               .claimed = 1,
               .broken = {"what all ranks send", bytes_in_all(64) / kv_bytes()}},
              {.what = "what all ranks send, 64 ranks over 2",
               .value = bytes_in_all(64) / bytes_in_all(2),
               .right = exactly(63),
               .claimed = 1,
               .broken = {"a rank's mean instead", share / (bytes_in_all(2) / 2 / kv_bytes())}}}};
}

CLAIM(C48, GroupedHeadsSendTheirShare) {
  const double all = bytes_sent(recorded_run(config_of(8, 8, 64, 4, 4)), 0);
  const double grouped = bytes_sent(recorded_run(config_of(8, 2, 64, 4, 4)), 0);
  const auto closed_form = [](Index heads_kv) {
    return traffic_of(job_of(32, heads_kv, 65536, 8), 0).forward_bytes;
  };
  return {.verdict = Verdict::holds,
          .claim = "With grouped heads only the kv heads go round the ring.",
          .source = "S1, S3",
          .place = "S1, part two, 12.3; S3, 8B",
          .correct =
              "They do, and the bytes fall by the ratio of the heads: {0} with 2 kv heads "
              "for 8, measured.",
          .figures = {{.what = "bytes sent in a recorded run, 2 kv heads for 8 over 8 for 8",
                       .value = grouped / all,
                       .right = exactly(2.0 / 8),
                       .claimed = 2.0 / 8,
                       .broken = {"K and V repeated for every query head", grouped * 4 / all}},
                      {.what = "by formula, 1 kv head for 32",
                       .value = closed_form(1) / closed_form(32),
                       .right = exactly(1.0 / 32),
                       .claimed = 1.0 / 32,
                       .broken = {"4 kv heads", closed_form(4) / closed_form(32)}}}};
}

CLAIM(C63, ARoundMovesTwoTensors) {
  Problem job{.shape = {1, 1, 1, 8, 4}, .world_size = 2};
  const double round = kv_hop_bytes(job) / job.storage_bytes();
  const double all =
      (traffic_of(job, 0).forward_bytes + traffic_of(job, 1).forward_bytes) / job.storage_bytes();
  return {.verdict = Verdict::wrong,
          .claim =
              "With 8 tokens of width 4 on 2 GPUs a GPU sends 8 values in a round, 16 "
              "with what it receives, and 64 go over all links.",
          .source = "S4",
          .place = "part 4, step 4",
          .correct =
              "K and V of 4 rows are {0} values, of which S4 counts a quarter. The total of "
              "64 is right all the same, because it comes from another formula: {1} values, "
              "in one round. S4's second round only brings the blocks back.",
          .figures = {{.what = "values that a GPU sends in a round",
                       .value = round,
                       .right = exactly(32),
                       .claimed = 8,
                       .broken = {"one row of K and V", round / 4}},
                      {.what = "values that both GPUs send in all",
                       .value = all,
                       .right = exactly(64),
                       .claimed = 64,
                       .broken = {"a second round", 2 * all}}}};
}

CLAIM(C64, UlyssesSendsLessFromThreeRanksOn) {
  const auto ratio = [](Index heads_kv, int n) {
    const Problem job = job_of(32, heads_kv, 65536, n);
    return bytes_of_scheme(job, Scheme::ring) / bytes_of_scheme(job, Scheme::ulysses);
  };
  const double only_kv = bytes_of_scheme(job_of(32, 32, 65536, 8), Scheme::ulysses) / 2;
  return {
      .verdict = Verdict::holds_if,
      .claim = "Dealing out heads (Ulysses) has a lower communication volume than a ring.",
      .source = "S3",
      .place = "Section 11, contemporaneous papers",
      .correct =
          "With as many kv heads as heads a ring sends N / 2 times what Ulysses does: {0} "
          "times with 8 ranks, but the same with 2. Grouped heads favour the ring, because "
          "Ulysses moves Q and the output as well: with 4 kv heads for 32 on 4 ranks the "
          "ring sends {2} of it.",
      .figures = {{.what = "bytes of a ring over Ulysses, 8 ranks, 32 heads",
                   .value = ratio(32, 8),
                   .right = near(4, 1e-9),
                   .claimed_words = "more than 1",
                   .broken = {"Q and output not counted",
                              bytes_of_scheme(job_of(32, 32, 65536, 8), Scheme::ring) / only_kv}},
                  {.what = "2 ranks",
                   .value = ratio(32, 2),
                   .right = near(1, 1e-9),
                   .claimed_words = "more than 1",
                   .supports_words = false,
                   .broken = {"3 ranks", ratio(32, 3)}},
                  {.what = "4 ranks, 4 kv heads for 32",
                   .value = ratio(4, 4),
                   .right = near(4.0 / 9, 1e-9),
                   .claimed_words = "more than 1",
                   .supports_words = false,
                   .broken = {"K and V repeated for every query head", ratio(32, 4)}}}};
}

CLAIM(C65, ABlockOfKeysHasTwoBytesAValue) {
  const Problem job = job_of(1, 1, 65536, 8);
  const double values = kv_values(job.shape, job.max_rows());
  return {.verdict = Verdict::wrong,
          .claim =
              "The 4 in the transfer time 4 c d / B is for sending K and V, each c d bytes in "
              "16 bits.",
          .source = "S3",
          .place = "entry 3",
          .correct =
              "Each is c d values and {0} c d bytes; two tensors of 2-byte values make the "
              "4.",
          .figures = {
              {.what = "bytes of K over c d",
               .value = kv_hop_bytes(job) / 2 / values,
               .right = exactly(2),
               .claimed = 1,
               .broken = {"a byte a value", kv_hop_bytes(job) / 2 / job.storage_bytes() / values}},
              {.what = "bytes of a hop over c d",
               .value = kv_hop_bytes(job) / values,
               .right = exactly(4),
               .claimed = 4,
               .broken = {"K alone", kv_hop_bytes(job) / 2 / values}}}};
}

}  // namespace
}  // namespace ringscope::claims
