// Speeds and lengths that were measured elsewhere: nothing of them was measured here, but they must
// not contradict what can be computed.
#include "core/cost/amounts.h"
#include "core/cost/balance.h"
#include "core/cost/time.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"
#include "tests/claims/striped_paper.h"

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
  const auto predicted = [](std::size_t row) { return striped_speedups()[row].in_tiles; };
  return {
      .verdict = Verdict::not_testable,
      .claim =
          "Training steps are 1.41 to 1.45 times faster striped at 256k tokens on 8 A100, and "
          "1.65 times at 786k on 16 TPUv4.",
      .source = "S3",
      .place = "Section 9",
      .correct =
          "No such machines were measured. The paper's tables add what S3 leaves out: half of the "
          "devices split the model, so the rings have 4 and 8 ranks. There balance alone can make "
          "attention {0} and {1} times faster, so neither figure is impossible; for a whole step "
          "to "
          "become 1.45 times faster, attention has to be at least {2} of it, for 1.65 times {3}. "
          "Simulated with the paper's tiles the steps of its 3B model become {4} and {5} times "
          "faster ([predicted.md](predicted.md)).",
      .figures = {{.what = "largest gain of attention from balance, ring of 4",
                   .value = cap(4),
                   .right = near(7.0 / 4, 1e-3),
                   .claimed_words = "at least 1.45",
                   .broken = {"ring of all 8 devices", cap(8)}},
                  {.what = "the same, ring of 8",
                   .value = cap(8),
                   .right = near(15.0 / 8, 1e-3),
                   .claimed_words = "at least 1.65",
                   .broken = {"ring of all 16 devices", cap(16)}},
                  {.what = "share of attention in a step that gains 1.45, ring of 4",
                   .value = share(1.45, cap(4)),
                   .right = near(0.724, 0.001),
                   .claimed_words = "below 100 %",
                   .broken = {"ring of 8", share(1.45, cap(8))},
                   .shown = Shown::percent},
                  {.what = "share of attention in a step that gains 1.65, ring of 8",
                   .value = share(1.65, cap(8)),
                   .right = near(0.844, 0.001),
                   .claimed_words = "below 100 %",
                   .broken = {"ring of 16", share(1.65, cap(16))},
                   .shown = Shown::percent},
                  {.what = "predicted gain of a step, 3B, 8 A100, 262,144 tokens",
                   .value = predicted(4),
                   .right = near(1.62, 0.01),
                   .claimed_words = "1.45",
                   .broken = {"16,384 tokens", predicted(0)}},
                  {.what = "predicted gain of a step, 3B, 16 TPUv4, 786,432 tokens",
                   .value = predicted(9),
                   .right = near(1.80, 0.01),
                   .claimed_words = "1.65",
                   .broken = {"131,072 tokens", predicted(6)}}}};
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

CLAIM(C87, EightMillionTokensFitAndHide) {
  const double rows = 8e6 / 1024, width = 8192;
  const AttentionShape shape{1, 64, 64, 8'000'000, 128};
  const Gpu tpu = find_gpu("TPUv4");
  const Problem job = job_of(64, 64, 8'000'000, 1024);
  const auto threshold = [&](double bytes_per_s) {
    return threshold_rows(job, peak(tpu.peak_flops(DType::bf16), bytes_per_s), Pass::forward, 1);
  };
  const double one_link = find_link("TPUv4-ICI").bytes_per_s;
  return {
      .verdict = Verdict::not_testable,
      .claim = "1,024 TPUv4 train a model of 65 billion parameters on 8 million tokens.",
      .source = "S3",
      .place = "Section 9, Key quantitative results",
      .correct =
          "Not tried here. What can be computed does not speak against it: a chip has 7,813 "
          "tokens, whose six blocks of one layer's ring take {0} GB (width 8,192), and over one "
          "link hops hide from {1} tokens on (a step's slowest ranks compute whole blocks; were "
          "they balanced, it would be twice that, and not enough).",
      .figures = {{.what = "GB of a chip for Q, output, and K and V twice, in 16 bits",
                   .value = 2 * ring_values_of_s0(shape, rows) / 1e9,
                   .right = near(12 * rows * width / 1e9, 1e-9),
                   .claimed_words = "below 32",
                   .broken = {"on 16 chips", 2 * ring_values_of_s0(shape, 64 * rows) / 1e9}},
                  {.what = "tokens a chip from which hops hide, one link of 50 GB/s",
                   .value = threshold(one_link),
                   .right = near(5500, 1),
                   .claimed_words = "below 7,813",
                   .broken = {"both directions counted", threshold(2 * one_link)}}}};
}

}  // namespace
}  // namespace ringscope::claims
