// Tests speeds and lengths that were measured elsewhere. Nothing of them was measured here, but
// they must not contradict what can be computed.
#include "core/cost/amounts.h"
#include "core/cost/balance.h"
#include "core/cost/time.h"
#include "tests/claims/claim.h"
#include "tests/claims/jobs.h"
#include "tests/claims/predicted_page.h"

namespace ringscope::claims {
namespace {

CLAIM(C81, StripedSpeedupsStayBelowTheirCap, not_testable, "S3", "Section 9") {
  const auto cap = [](int n) {
    const auto ceiling = [&](PartitionKind kind) {
      return balance_of(job_of(1, 1, n * 32768, n, "causal", kind)).ceiling();
    };
    return ceiling(kStriped) / ceiling(kContiguous);
  };
  // Return the share of a step that must become `cap` times faster for a gain g of the whole step.
  const auto share = [](double gain, double capped) { return (1 - 1 / gain) / (1 - 1 / capped); };
  const auto predicted = [](std::size_t row) { return striped_speedups()[row].in_tiles; };
  return {
      "Training steps are 1.41 to 1.45 times faster striped at 256k tokens on 8 A100, and 1.65 "
      "times at 786k on 16 TPUv4.",
      "No such machines were measured. The paper's tables add what S3 leaves out: half of the "
      "devices split the model, so the rings have 4 and 8 ranks. There balance alone can make "
      "attention {0} and {1} times faster, so neither figure is impossible; for a whole step to "
      "become 1.45 times faster, attention has to be at least {2} of it, for 1.65 times {3}. "
      "Simulated with the paper's tiles the steps of its 3B model become {4} and {5} times faster "
      "([predicted.md](predicted.md)).",
      {Figure("largest gain of attention from balance, ring of 4", cap(4), near(7.0 / 4, 1e-3),
              {"ring of all 8 devices", cap(8)}, "at least 1.45"),
       Figure("the same, ring of 8", cap(8), near(15.0 / 8, 1e-3),
              {"ring of all 16 devices", cap(16)}, "at least 1.65"),
       Figure("share of attention in a step that gains 1.45, ring of 4", share(1.45, cap(4)),
              near(0.724, 0.001), {"ring of 8", share(1.45, cap(8))}, "below 100 %",
              Shown::percent),
       Figure("share of attention in a step that gains 1.65, ring of 8", share(1.65, cap(8)),
              near(0.844, 0.001), {"ring of 16", share(1.65, cap(16))}, "below 100 %",
              Shown::percent),
       Figure("predicted gain of a step, 3B, 8 A100, 262,144 tokens", predicted(4),
              near(1.62, 0.01), {"16,384 tokens", predicted(0)}, "1.45"),
       Figure("predicted gain of a step, 3B, 16 TPUv4, 786,432 tokens", predicted(9),
              near(1.80, 0.01), {"131,072 tokens", predicted(6)}, "1.65")}};
}

CLAIM(C82, FourMillionTokensFitTheBill, not_testable, "S3", "Section 9") {
  const AttentionShape shape{1, 32, 32, 4'000'000, 128};
  return {"32 A100 with 80 GB train a model of 7 billion parameters on 4 million tokens.",
          "Not tried here. The part that can be computed does not speak against it: the six blocks "
          "of one layer's ring take {0} GB of a device (width 4,096). Weights, optimiser and saved "
          "activations come on top.",
          {Figure("GB of a device for Q, output, and K and V twice, in 16 bits",
                  2 * ring_values_of_s0(shape, 4e6 / 32) / 1e9, near(6.144, 1e-9),
                  {"on one device", 2 * ring_values_of_s0(shape, 4e6) / 1e9}, "below 80")}};
}

CLAIM(C87, EightMillionTokensFitAndHide, not_testable, "S3",
      "Section 9, Key quantitative results") {
  const double rows = 8e6 / 1024, width = 8192;
  const AttentionShape shape{1, 64, 64, 8'000'000, 128};
  const Gpu tpu = find_gpu("TPUv4");
  const Problem job = job_of(64, 64, 8'000'000, 1024);
  const auto threshold = [&](double bytes_per_s) {
    return threshold_rows(job, peak(tpu.peak_flops(DType::bf16), bytes_per_s), Pass::forward, 1);
  };
  const double one_link = find_link("TPUv4-ICI").bytes_per_s;
  return {
      "1,024 TPUv4 train a model of 65 billion parameters on 8 million tokens.",
      "Not tried here. What can be computed does not speak against it: a chip has 7,813 tokens, "
      "whose six blocks of one layer's ring take {0} GB (width 8,192), and over one link hops hide "
      "from {1} tokens on (a step's slowest ranks compute whole blocks; were they balanced, it "
      "would be twice that, and not enough).",
      {Figure("GB of a chip for Q, output, and K and V twice, in 16 bits",
              2 * ring_values_of_s0(shape, rows) / 1e9, near(12 * rows * width / 1e9, 1e-9),
              {"on 16 chips", 2 * ring_values_of_s0(shape, 64 * rows) / 1e9}, "below 32"),
       Figure("tokens a chip from which hops hide, one link of 50 GB/s", threshold(one_link),
              near(5500, 1), {"both directions counted", threshold(2 * one_link)}, "below 7,813")}};
}

}  // namespace
}  // namespace ringscope::claims
