// # Windows, prefixes, documents, grouped heads
// > Real models forbid more pairs than a causal mask does, and share keys between heads. The first
// > changes which ranks have work, the second how much must travel.
//
// **You know** the causal mask, and that the best way to deal out tokens depends on it.
// **You will see** three more masks, what they have in common, which partition suits which, and why
// models with few heads of K and V are easier to put on a ring.
//
// ## Three more masks
//
// - **Window**: a token sees only its neighbourhood, itself and the W - 1 tokens before it (and,
//   unless the mask is causal as well, as many after it). It is far less work for long texts.
// - **Prefix**: the first P tokens, such as a question, all see each other; what follows is causal.
// - **Documents**: training data is packed, several short texts in one sequence, and none of them
//   may see another.
//
// They combine: a pair is allowed when all parts allow it. Below, each line is a query and each
// column a key:
#include <cmath>

#include "core/run/run.h"
#include "core/trace/summary.h"
#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_11 {
namespace {

//-
Problem ring_of_8(PartitionKind partition, const char* mask) {
  return {.shape = {.num_heads = 1, .num_heads_kv = 1, .seqlen = 8192, .head_dim = 64},
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = 8};
}
//+

}  // namespace

void lesson_11(Page& page) {
  page.print(drawn_masks({"causal+window:3", "prefix:4", "causal+documents:3,5"}, 8));

  // ## One interval a row
  //
  // Look at any line: its crosses have no gaps. The keys that a query may attend are one
  // *interval*, from a first key to a last, and as you go down, neither end ever moves left. That
  // holds for all these masks, and so for their combinations. This function is all that the project
  // knows of masks:
  page.region("core/problem/mask.h", "allowed_keys");

  // Two numbers a row tell at once whether a tile is empty, full or in between, and how many pairs
  // it has. The pairs need not be looked at one by one.
  //
  // ## Who has work now?
  //
  // 8,192 tokens on eight ranks, 1,024 each, in whole pieces, and a causal window of 1,024: each
  // token sees itself and 1,023 before it.
  const Guess guess = page.predict(
      "Of the eight blocks that come by, how many does rank 5 have work with?", "blocks");
  const Problem windowed = ring_of_8(PartitionKind::contiguous, "causal+window:1024");
  int blocks = 0;
  for (int step = 0; step < 8; ++step) blocks += predicted_pairs(windowed, 5, step) > 0;
  page.answer(guess, blocks, 0);

  // It has work with its own and the one before. The other six pass through, for nothing. For other
  // ways to deal, each cell shows how many of the 64 meetings of rank and block have work, and the
  // balance ceiling (lesson 7):
  //-
  Table suits({"mask", "contiguous", "striped", "zigzag"});
  const char* eight_texts = "causal+documents:1024,1024,1024,1024,1024,1024,1024,1024";
  const char* few_texts = "causal+documents:700,4000,300,3192";
  for (const auto& [name, mask] : {std::pair{"causal", "causal"},
                                   {"causal, window 1,024", "causal+window:1024"},
                                   {"causal, prefix 4,096", "prefix:4096"},
                                   {"documents, one a rank", eight_texts},
                                   {"documents of uneven length", few_texts}}) {
    std::vector<Cell> cells = {name};
    for (const auto kind :
         {PartitionKind::contiguous, PartitionKind::striped, PartitionKind::zigzag})
      cells.push_back(meetings(ring_of_8(kind, mask)).text());
    suits.add(cells);
  }
  //+
  page.table(suits);

  // No partition wins everywhere. Striped is level whatever the mask, because a rank's tokens are a
  // fair sample of the text; the price is that every rank meets every block. Whole pieces keep
  // together what belongs together: with a window or with documents, most meetings are empty, and
  // one could leave those hops out. Zigzag was made for the plain causal mask, and is best at that.
  // The ceiling is for ranks that begin every step together. Given buffers, ranks run ahead, and
  // only the totals bound them. With a document a rank, zigzag's totals are equal. Simulated with
  // hops that take no time, its ranks are busy for this share of the time:
  const Problem uneven = ring_of_8(PartitionKind::zigzag, eight_texts);
  const Cell two = percent(busy_share(uneven, 2)), eight = percent(busy_share(uneven, 8));
  page.value("two buffers a rank", two);
  page.value("eight buffers a rank", eight);

  // ## Fewer heads of K and V
  //
  // Models have many heads, each with its own Q, K and V. In many newer ones, several query heads
  // share a head of K and V: *grouped heads*. Say that 32 heads of Q share 8 of K and V. Every
  // query head still computes its own scores, so the work is the same.
  page.predict("By what factor do the bytes of a hop shrink?", "times", 4, 0);

  // Scores have 32 heads and blocks have 8. That moves the balance of computing and sending by
  // four, at no cost to the ring. The gradients dK and dV (lesson 10) are sums over the group's
  // query heads.
  Problem config = ring_of_8(PartitionKind::striped, "causal+documents:700,1000,348");
  config.shape = {.num_heads = 8, .num_heads_kv = 2, .seqlen = 2048, .head_dim = 64};
  config.world_size = 4;
  const AttentionInputs in = random_inputs(config.shape);
  RingRun run = run_on_threads(config, in);
  const double error = largest_difference(run.outputs.out, exact_attention(config, in).out);
  page.value("documents and grouped heads, largest error", rounding(error, 3e-6));
  //-
  const double hop = static_cast<double>(summarize(run.recording).ranks[0].bytes_sent) / 3;
  const std::vector<StoryStep> story = {
      scene("Three documents, dealt out like cards over four ranks.", Figure::timeline),
      scene("The mask in local rows: three triangles along the diagonal, in every meeting.",
            Figure::mask, 1),
      scene("Eight query heads compute. Only two heads of K and V travel.", 1, 2, Lane::send)};
  //+
  page.ring_trace(std::move(run.recording), story);
  page.picture("masks.png", "Three documents, striped: every rank has a bit of each");

  // ## Checks
  page.equal("Rank 5 has work with two blocks", blocks, 2);
  page.equal("A window in whole pieces: 15 meetings have work", meetings(windowed).with_work, 15);
  page.equal("A document a rank: nobody needs anybody",
             meetings(ring_of_8(PartitionKind::contiguous, eight_texts)).with_work, 8);
  page.check("Eight buffers beat the ceiling", two.shown == "66.7 %" && eight.shown == "100.0 %");
  page.check("Striped is level for uneven documents",
             meetings(ring_of_8(PartitionKind::striped, few_texts)).balance_ceiling > 0.99);
  page.equal("A hop moves two heads of K and V, not eight", hop, 2.0 * 2 * 512 * 64 * 4);
  page.at_most("The output is exact up to rounding", error, 3e-6);

  // ## Exercise
  //
  // Write the interval of a query for a causal window inside documents, and the number of blocks that
  // a rank must meet under a causal window: `lessons/11_other_masks/exercise.h`.
  // `./ringscope lesson 11 --check` counts.
}

}  // namespace ringscope::lessons::chapter_11
