// Speeds and lengths that were measured elsewhere: nothing of them was measured here, but they must
// not contradict what can be computed.
#include "core/cost/balance.h"
#include "core/cost/memory.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"

namespace ringscope::claims {
namespace {

CLAIM(C81, StripedSpeedupsStayBelowTheirCap) {
  const auto cap = [](int n) {
    const auto ceiling = [&](PartitionKind kind) {
      return balance_of(job_of(1, 1, n * 32768, n, "causal", kind)).ceiling();
    };
    return ceiling(PartitionKind::striped) / ceiling(PartitionKind::contiguous);
  };
  // A gain g of the whole step, of which a share `a` becomes `cap` times faster.
  const auto share = [](double gain, double capped) { return (1 - 1 / gain) / (1 - 1 / capped); };
  return {
      .verdict = Verdict::not_testable,
      .claim =
          "Training steps are 1.41 to 1.45 times faster striped at 256k tokens on 8 A100, and "
          "1.65 times at 786k on 16 TPUv4.",
      .source = "S3",
      .place = "Section 9",
      .correct =
          "No such machines were measured. Balance alone can make attention {0} times faster on 8 "
          "devices and {1} times on 16, so neither figure is impossible; for a whole step to "
          "become 1.45 times faster, attention has to be at least {2} of it, for 1.65 times {3}.",
      .figures = {{.what = "largest gain of attention from balance, 8 devices",
                   .value = cap(8),
                   .right = near(15.0 / 8, 1e-3),
                   .claimed_words = "at least 1.45",
                   .broken = {"16 devices", cap(16)}},
                  {.what = "the same, 16 devices",
                   .value = cap(16),
                   .right = near(31.0 / 16, 1e-3),
                   .claimed_words = "at least 1.65",
                   .broken = {"8 devices", cap(8)}},
                  {.what = "share of attention in a step that gains 1.45 on 8",
                   .value = share(1.45, cap(8)),
                   .right = near(0.665, 0.001),
                   .claimed_words = "below 100 %",
                   .broken = {"2 for 15/8", share(1.45, 2)},
                   .shown = Shown::percent},
                  {.what = "share of attention in a step that gains 1.65 on 16",
                   .value = share(1.65, cap(16)),
                   .right = near(0.814, 0.001),
                   .claimed_words = "below 100 %",
                   .broken = {"2 for 31/16", share(1.65, 2)},
                   .shown = Shown::percent}}};
}

CLAIM(C82, FourMillionTokensFitTheBill) {
  const AttentionShape shape{1, 32, 32, 4'000'000, 128};
  return {.verdict = Verdict::not_testable,
          .claim = "32 A100 with 80 GB train a model of 7 billion parameters on 4 million tokens.",
          .source = "S3",
          .place = "Section 9",
          .correct =
              "Not tried here. The part that can be computed does not speak against it: the "
              "six blocks of one layer's ring take {0} GB of a device (width 4,096). "
              "Weights, optimiser and saved activations come on top.",
          .figures = {{.what = "GB of a device for Q, output, and K and V twice, in 16 bits",
                       .value = 2 * ring_values_of_s0(shape, 4e6 / 32) / 1e9,
                       .right = near(6.144, 1e-9),
                       .claimed_words = "below 80",
                       .broken = {"on one device", 2 * ring_values_of_s0(shape, 4e6) / 1e9}}}};
}

}  // namespace
}  // namespace ringscope::claims
