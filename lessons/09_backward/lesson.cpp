// # Backward: gradients that travel with their block
// > Training needs to know how the loss changes with Q, K and V. The gradients of queries stay at
// > home. That of a KV block is added up while the block travels.
//
// **You know** the forward ring, whatever the mask and partition. **You will see** what little it must
// leave behind for the backward pass, how each rank computes its part alone, and how the parts come
// together.
//
// ## Four products
//
// Training sums up how wrong a model is in one number, the loss, and asks how the loss changes if a
// number of the output changes a bit. That is the output's gradient, dO, which has one number for each
// number of out. The backward pass turns it into dQ, dK and dV; so far we only had the forward pass.
// With P, the weights of lesson 1, the rules of differentiation give (∘ multiplies number by number):
//
//     dV = Pᵀ dO             how much each value was used
//     dP = dO Vᵀ             how much each weight matters
//     dS = P ∘ (dP - delta)  how much each score matters
//     dQ = scale dS K        dK = scale dSᵀ Q
//
// *delta* is one number per row. The third line needs a reason. A weight is a quotient, Pⱼ = wⱼ / l
// with wⱼ = exp(sⱼ) and l = Σ wⱼ. If sᵢ rises, wᵢ and l both rise at the rate wᵢ. By the quotient
// rule
//
//     Pᵢ changes by  (wᵢ l - wᵢ wᵢ) / l²  =  Pᵢ (1 - Pᵢ)
//     Pⱼ changes by  (0 · l - wⱼ wᵢ) / l²  =  Pᵢ (0 - Pⱼ)       every other j
//
// A change of Pⱼ changes the loss dPⱼ times as much. Altogether, sᵢ changes it by Pᵢ (dPᵢ - Σⱼ Pⱼ dPⱼ),
// and delta is that sum: the mean of the row's dP, weighted by P.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_09 {
void lesson_09(Page& page) {
  // ## Nothing large is kept
  //
  // P has S × S numbers, and lesson 4 went to some length not to have it anywhere. It need not be
  // kept: a weight is exp(score - lse), and lse is one number per row (lesson 2). Backward computes
  // scores a second time, tile by tile, which is called *recomputation*.
  //
  // delta seems to need a whole row of dP, with all keys on all ranks. But the weighted mean of dO·v over
  // the keys is dO times the weighted mean of the v, and that is out, which the rank has. For query i:
  //
  //     delta = Σⱼ Pᵢⱼ (dOᵢ · vⱼ)  =  dOᵢ · outᵢ
  //
  // Take the four keys of lesson 3, with scores 1, 3, 2, 5 and values 10, 20, 30, 40, and dO = 1. The
  // last column moves each score a little up and down, and divides the change of out by the score's:
  Table four({"score", "P = exp(score - lse)", "dP = v", "dS = P (dP - out)", "by nudging"});
  double delta = 0, sum = 0, off = 0;  // sum: of dS; off: the largest difference from nudging
  const PartOfKeys whole = over_keys(0, 4);
  for (std::size_t j = 0; j < 4; ++j) {
    std::vector<double> up = kFourScores, down = kFourScores;
    up[j] += 1e-4, down[j] -= 1e-4;
    const double p = std::exp(kFourScores[j] - whole.lse), ds = p * (kFourValues[j] - whole.out);
    const double slope = (over_keys(0, 4, up).out - over_keys(0, 4, down).out) / 2e-4;
    four.row(kFourScores[j], fixed(p, 3), kFourValues[j], fixed(ds, 3), fixed(slope, 3));
    delta += p * kFourValues[j];
    sum += ds;
    keep_larger(off, std::abs(slope - ds));
  }
  page.table(four);

  // out and delta are both 36.88. The last key gains what the others lose: a row of dS sums up to 0.
  // Keys 1 and 2 may lie on another rank than 3 and 4. No line of the table needs another line: what
  // all keys have in common is in lse and out, which don't change any more. A rank with its rows of
  // Q, out, lse and dO can therefore work on any KV block alone, in any order.
  //
  // A row without any key has lse = -∞ and out = 0. All its scores are -∞, too, and exp(-∞ - (-∞)) is
  // NaN. P is therefore set to 0 for such a row: its dQ is 0, and it adds nothing to dK and
  // dV. (The kernels here subtract 0 in place of -∞, and exp(-∞ - 0) is 0.)
  page.predict("Forward takes two matrix products per block, Q Kᵀ and P V. How many does backward?",
               "products", 5);

  // It takes the four products above (dV, dP, dQ, dK), and computes Q Kᵀ again: five in place of
  // two, or 2.5 times the work.
  //
  // ## Who gets what from whom
  //
  // A row of dQ is a sum over keys: a rank meets all blocks and adds it up at home. A row of dK or dV
  // is a sum over queries, which lie on all ranks. But its block visits each of them. The gradient thus
  // travels along: every rank adds its own part and passes both on.
  page.predict("Four ranks: a block makes 3 hops. How many does its gradient make?", "hops", 4);

  page.picture("home.svg", "The gradient of rank 0's block, one step behind it, and its hop home");

  // After 3 hops all four have added their parts. The block is not needed any more, but its owner, one
  // hop further, needs the gradient. Each rank computes its part while the sum of those before is on
  // its way, so that nobody waits for it. Only the last hop, the one home, has no computing to hide
  // behind. Each step meets the same pairs as in the forward pass, so a balanced deal is balanced in
  // both passes.
  //
  // ## In numbers
  //
  // The table compares a ring of four with the formulas above, in double precision on a single rank:
  Problem config = ring_job(2, 2048, 4, "causal", PartitionKind::zigzag);
  config.backward = true;
  const AttentionInputs in = random_inputs(config.shape);
  RingRun run = run_on_threads(config, in);
  const auto exact = exact_attention(config, in, true);
  Table errors({"gradient", "largest error of the ring, in f32"});
  double worst = 0;
  const auto compare = [&](const char* name, const auto& ours, const auto& right) {
    const double error = largest_difference(ours, right);
    errors.row(name, rounding(error, 1e-5));
    keep_larger(worst, error);
  };
  compare("dQ", run.outputs.dq, exact.dq);
  compare("dK", run.outputs.dk, exact.dk);
  compare("dV", run.outputs.dv, exact.dv);
  page.table(errors);

  // ## What it costs on the wire
  //
  // A rank of N has c = S/N rows of G KV heads, d numbers each. In each layer it sends
  //
  //     forward      (N-1) · 2 c G d · e                     K and V, e bytes per number
  //     backward     (N-1) · 2 c G d · e  +  N · 2 c G d · 4     the same again, and dK and dV
  //
  // dK and dV are sums over ranks, so they are f32 whatever e is. With N = 4 and f32, backward sends 7
  // blocks where forward sends 3. In bf16 it sends 3 + 2 · 4 = 11.
  //-
  const double block = 2.0 * 512 * 2 * 64 * 4;  // 2 c G d e
  double sent[2] = {};                          // by rank 1, in each pass
  for (const TraceEvent& event : run.recording.events[1])
    if (event.lane == Lane::send)
      sent[event.pass == Pass::backward] += static_cast<double>(event.bytes);
  page.value("rank 1 sends, forward", bytes(sent[0]));
  page.value("rank 1 sends, backward", bytes(sent[1]));
  page.trace(ideal_timeline(run.recording),
             {scene("Forward, then backward. Backward's slices are about 2.5 times as long.",
                    Figure::timeline),
              scene("Its gradient can follow only when rank 1 has computed its part.", 1, 2, {},
                    Pass::backward),
              scene("The last step sends no block, but it sends gradients: home to their owners.",
                    3, -1, Lane::send, Pass::backward)});

  // ## Checks
  page.equal("out is 36.88", fixed(whole.out, 2), "36.88");
  page.at_most("and so is delta", std::abs(delta - whole.out), 1e-12);
  page.at_most("A row of dS sums up to 0", std::abs(sum), 1e-12);
  page.at_most("Nudging the scores gives dS", off, 1e-6);
  page.at_most("dQ, dK and dV are exact up to rounding", worst, 1e-5);
  page.equal("Forward, (N-1) blocks are sent", sent[0], 3 * block);
  page.equal("Backward, (N-1) blocks and N gradients", sent[1], 3 * block + 4 * block);

  // ## Exercise
  //
  // Write your ring's backward pass, of a block and of the ring: `my_ring/09_backward.h`.
  // `./ringscope lesson 9 --check` compares dQ, dK and dV with those of attention at once. Then add
  // `--backward` to lesson 7's run of your ring, and perhaps `--partition zigzag`. Compare your code with
  // the project's: `attend_backward` in `core/reference/attention.h`, `backward` in `core/reference/ring.h`.
}

}  // namespace ringscope::lessons::chapter_09
