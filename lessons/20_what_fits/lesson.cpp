// # What fits? A million tokens on sixteen GPUs
// > Memory comes as four bills: weights, optimizer, activations and logits. Each of them can be
// > divided or computed again, and only then does a long text fit.
//
// **You know** context parallelism (lesson 14), that a layer recomputes attention's weights in the
// backward pass (9), and that sums need f32 (17). **You will see** what training a model of eight
// billion weights on a million tokens takes on each of 16 GPUs of 80 GB, what to change first, and
// what the model itself needs so that such a text makes sense to it.
//
// ## Four bills
//
// The model has 32 layers of width 4,096, with 32 query heads and 8 KV heads of 128 numbers, an
// MLP of width 14,336, and a vocabulary of 128,256. Embedding and head have weights of their own:
#include "core/tools/cost/model_step.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_20 {
void lesson_20(Page& page) {
  const double layers = 32, width = 4096, kv = 8 * 128, hidden = 14336, vocabulary = 128256;
  const AttentionShape heads{1, 32, 8, 1048576, 128};
  const double weights = model_weights(heads, {4096, 14336, 128256}, 32) + vocabulary * width;
  const double ranks = 16, rows = 1048576 / ranks, GB = 1e9;
  page.value("weights", fixed(weights / 1e9, 2), "billion");

  // **Weights and optimizer.** AdamW keeps for each weight its value and gradient in bf16, and in f32
  // its exact value and two moments: 2 + 2 + 4 + 4 + 4 bytes. (The gradient was summed in f32, and
  // rounded once, at the end. If several passes are added up, it stays in f32: 18 bytes, lesson 17.)
  //
  // **Activations.** Backward needs what forward computed. These *activations* are, for each token
  // and layer: the inputs of both norms and what the norms give, Q and out (4,096 numbers each), K
  // and V, and three times the MLP's width; and lse, in f32.
  const double state = 16 * weights;
  const double layer = rows * (2 * (6 * width + 2 * kv + 3 * hidden) + 4 * 32);
  page.predict("65,536 tokens per rank, all 32 layers: how much?", "GB", layers * layer / GB);

  // **Logits.** At the end each token has a score for each of the 128,256 tokens of the vocabulary, in
  // f32, and the scores' gradient overwrites them. Then there are the ring's own buffers, for the layer
  // at hand. For each row they have 12 bytes for each of 4,096 columns (Q and dO in bf16, out and dQ in
  // f32), and 18 for each of 2,048. These are three blocks of K and V in bf16: the two buffers of lesson
  // 6, and the rank's own block, which backward begins with again. And they are three gradient blocks in
  // f32: one is summed while one leaves and one arrives. With m, l, lse and delta, 20 bytes per head,
  // that is 5.7 GB:
  const double logits = rows * vocabulary * 4;
  const Problem ring{.shape = heads, .dtype = DType::bf16, .world_size = 16, .backward = true};
  const double attention = peak_bytes(ring);

  // ## What to change first
  //
  // Start with the largest bill. **Recomputation of whole layers** keeps only a layer's input, and
  // computes the layer once more before its backward pass. Only one layer's activations exist at a time:
  const double kept = layers * rows * width * 2;
  // Then the optimizer: each rank updates a sixteenth of the weights and keeps only that part of
  // the state (**sharding**). It gathers a layer's weights from the others when it needs them: 0.4 GB, which
  // the table leaves out. Then the logits: the loss is a sum over tokens, so 16 pieces of them can be made
  // one after the other.
  page.picture("alive.svg", "When each bill is alive, in a step that computes layers again");
  Table steps(
      {"each GPU has, in GB", "weights, optimizer", "activations", "logits", "all", "fits"});
  const double memory = find_gpu("H100").memory_bytes;
  std::vector<double> all;
  Drawing bars;
  bars.strip("an H100", {{0, memory / GB, Drawing::kQuiet}}, fixed(memory / GB, 0).kept);
  const auto plan = [&](const char* name, double of_state, double of_layers, double of_logits) {
    all.push_back(of_state + of_layers + of_logits + attention);
    steps.row(name, fixed(of_state / GB, 1), fixed((of_layers + attention) / GB, 1),
              fixed(of_logits / GB, 1), fixed(all.back() / GB, 1),
              all.back() < memory ? "yes" : "no");
    bars.heading(name);
    bars.strip("", Drawing::stacked({of_state / GB, (of_layers + attention) / GB, of_logits / GB}),
               fixed(all.back() / GB, 0).kept);
  };
  plan("as it is", state, layers * layer, logits);
  plan("+ layers computed again", state, kept + layer, logits);
  plan("+ state sharded over 16", state / ranks, kept + layer, logits);
  plan("+ logits in 16 pieces", state / ranks, kept + layer, logits / 16);
  for (const int bill : {0, 1, 2})
    bars.key(bill, std::vector{"weights, optimizer", "activations", "logits"}[bill]);
  page.table(steps);
  page.picture("bills.svg", "What each GPU has to hold, in GB", bars);

  page.value("Lines 2 to 4: inputs, one layer, the ring's buffers",
             numbers({kept / GB, layer / GB, attention / GB}, 1), "GB");

  // (The column of activations includes the ring's buffers. One layer's Q, K, V and out are counted
  // twice, because they are held twice. Libraries and fragmentation take memory too, which is not counted
  // here: leave a fifth free for them.)
  //
  // ## What breaks if only the ring is longer?
  //
  // More ranks divide activations and logits, but not the weights: they are copies (lesson 14). On
  // 128 ranks without sharding each has an eighth of these activations, but still 128 GB of state.
  // No number of ranks makes that fit. Shard it, or split the model by TP or PP (lesson 15).
  //
  // ## How long it takes
  //
  // A causal layer's attention takes 2 S² operations for each of 4,096 columns. Backward takes 2.5
  // times as many (lesson 9), and recomputation repeats forward: 4.5 times in all. A weight takes 2
  // operations per token, 8 with backward and recomputation. On 16 H100s, at 0.65 of the peak,
  // which attention reaches forward (backward reaches a little less):
  const double tokens = 1048576;
  const double of_attention = 4.5 * layers * 2 * tokens * tokens * width;
  const double of_weights = 8 * weights * tokens;
  const Gpu gpu = find_gpu("H100");
  const double flops = ranks * gpu.peak_flops(DType::bf16) * gpu.forward_share;
  page.value("a step", fixed((of_attention + of_weights) / flops, 0), "s");
  page.value("of it attention", percent(of_attention / (of_attention + of_weights), 0));

  // People therefore put many shorter documents into one sequence, each attending only itself (lesson 11's
  // `documents`). That is *packing*. No row is padding, and with documents of 8,192 tokens:
  page.predict("How many times fewer pairs than with one document of 1,048,576 tokens?", "times",
               tokens / 8192);

  // But then ranks differ in work, if some hold the long documents and some the short ones.
  //
  // ## Will the model understand it?
  //
  // Memory isn't everything. A head sees positions because pairs of numbers in Q and K are turned: pair
  // i of 64 turns by p · base^(-i/64) at position p (RoPE). If training had 8,192 tokens and base
  // 10,000, slow pairs have never made a full turn, and later positions are new to them:
  const double pi = std::acos(-1.0), trained = 8192, base = 1e4;
  int unseen = 0;
  for (int i = 0; i < 64; ++i) unseen += trained * std::pow(base, -i / 64.0) < 2 * pi;
  page.value("pairs of 64 that have never made a full turn", unseen);

  // One remedy divides all positions by 128. Another raises the base until the slowest pair turns at
  // 1,048,576 no further than it used to at 8,192, and leaves the fast ones nearly as they were:
  const double new_base = base * std::pow(tokens / trained, 64.0 / 63);
  page.value("such a base", static_cast<Index>(new_base));

  // Either way the model is trained on some long texts afterwards. The ring doesn't mind: positions
  // are known to each rank, and K is turned before it travels.

  // ## On paper
  page.predict("70 billion weights, copied: how much state has each rank?", "GB", 16 * 70);
  const auto bills = [&](double n) {  // of 131,072 tokens on n ranks, with all three changes
    const double share = 131072 / n / rows;
    return state / n + share * (kept + layer + logits / 16);
  };
  int fewest = 1;
  while (bills(fewest) > memory) fewest *= 2;
  page.predict("All three changes, 131,072 tokens: do 1, 2, 4 or 8 ranks suffice?", "ranks",
               fewest);

  // ## With the program
  //
  // The plan of this model has the four bills in detail, and says whether they fit:
  //
  //     ./ringscope plan --model llama3-8b --world-size 16 --seqlen 1048576 --mask causal --backward --gpu H100 --link NVLink4 --recompute layer --chunks 16
  page.choose("Which of these makes it fit?", {"`--world-size 128`", "`--zero 1`"},
              state > memory && state * (4 + 12 / ranks) / 16 < memory ? "b" : "a");

  // ## Checks
  page.equal("The model has 8.03 billion weights", fixed(weights / 1e9, 2), "8.03");
  page.check("Two plans fit, and only the last leaves a fifth free",
             all[1] > memory && all[2] < memory && all[2] > 0.8 * memory && all[3] < 0.8 * memory);
  page.check("Copies of the state never fit",
             state > memory && fixed(state / GB, 0).shown == "128");
  page.at_most("The ring's buffers have 12, 18 and 20 bytes, and less than 1 MiB of scratch",
               attention - rows * (12 * width + 18 * 2 * kv + 20 * 32), 0x1p20);
  page.at_most(
      "With the new base the slowest pair turns as far as before",
      std::abs(tokens * std::pow(new_base, -63 / 64.0) / (trained * std::pow(base, -63 / 64.0)) -
               1),
      1e-12);
}

}  // namespace ringscope::lessons::chapter_20
