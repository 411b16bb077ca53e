// # Windows, prefixes, documents
// > Real models forbid more pairs than a causal mask does. Most masks are intervals of keys, and they
// > change which ranks have work.
//
// **You know** the causal mask, and that the best way to deal out tokens depends on it.
// **You will see** three more masks, what they have in common, which partition suits which, and when
// a rank may run ahead of the others.
//
// ## Three more masks
//
// - **Window**: a token sees only its neighbourhood, itself and the W - 1 tokens before it (and,
//   unless the mask is causal as well, as many after it). It is far less work for long texts, and
//   through L layers a token still hears from L (W - 1) tokens back.
// - **Prefix**: the first tokens, such as a question, all see each other; what follows is causal.
// - **Documents**: training data is packed, several short texts in one sequence, and none of them
//   may see another.
//
// They combine: a pair is allowed when all parts allow it. Below, each line is a query and each
// column a key:
#include "lessons/11_other_masks/counted.h"

namespace ringscope::lessons::chapter_11 {
void lesson_11(Page& page) {
  //-
  const char* const masks[] = {"causal+window:3", "prefix:4", "causal+documents:3,5"};
  const int width = 2 * 8 + 6;
  std::string drawn;
  for (const char* const spelling : masks) drawn += fmt::format("{:{}}", spelling, width);
  for (Index i = 0; i < 8; ++i) {
    drawn += '\n';
    for (const char* const spelling : masks) {
      const MaskSpec spec = MaskSpec::parse(spelling);
      std::string line;
      for (Index j = 0; j < 8; ++j) line += spec.for_seqlen(8).allows(i, j) ? "x " : "· ";
      drawn += line + std::string(width - 2 * 8, ' ');
    }
    drawn.erase(drawn.find_last_not_of(' ') + 1);
  }
  page.print(drawn);
  //-
  const Mask both = MaskSpec::parse("causal+window:2+documents:3,3").for_seqlen(6);
  page.draw(
      "Two documents of 3 tokens, causal, with a window of 2: draw the 6 x 6 mask, # where a pair "
      "is allowed.",
      drawing_of(6, 6, [&](Index i, Index j) { return both.allows(i, j); }));

  // ## One interval per row
  //
  // Look at any line: its crosses have no gaps. The keys that a query may attend are one *interval*, from
  // a first key to a last, and as you go down, neither end ever moves left. That holds for these masks and
  // their combinations. A function that returns both ends (`allowed_keys` in `core/problem/mask.h`) is all
  // that the project needs of them. (Its other two, `sink:K` and `ranges:FILE`, have several intervals.)
  //
  // Two numbers per row tell at once whether a tile is empty, full or mixed, and how many pairs it has.
  //
  // ## Who has work now?
  //
  // Take 8,192 tokens on eight ranks, 1,024 each, in whole pieces, and a causal window of 1,024:
  // each token sees itself and 1,023 before it.
  const Guess guess = page.predict(
      "Of the eight blocks that come by, how many does rank 5 have work with?", "blocks");
  const Problem windowed = ring_job(1, 8192, 8, "causal+window:1024", PartitionKind::contiguous);
  int blocks = 0;
  for (int step = 0; step < 8; ++step) blocks += predicted_pairs(windowed, 5, step) > 0;
  page.answer(guess, blocks);

  // It has work with its own and the one before. The other six pass through, for nothing; below you
  // will see that they need not come at all. For three ways to deal, each cell shows how many of the 64
  // meetings of rank and block have work, and the balance ceiling (lesson 7):
  //-
  const char* eight_texts = "causal+documents:1024,1024,1024,1024,1024,1024,1024,1024";
  const char* few_texts = "causal+documents:700,4000,300,3192";
  std::string short_texts = "causal+documents:8";
  for (int text = 1; text < 1024; ++text) short_texts += ",8";
  page.table(by_deal({{"causal", "causal"},
                      {"causal, window 1,024", "causal+window:1024"},
                      {"prefix 4,096", "prefix:4096"},
                      {"documents, one per rank", eight_texts},
                      {"documents of 700, 4,000, 300 and 3,192", few_texts},
                      {"1,024 documents of 8", short_texts}},
                     [](const Problem& job) { return meetings(job).text(); }));

  // No partition wins everywhere. Striped is level under most masks, because a rank's tokens are a fair
  // sample of the text; the price is that every rank meets every block. It is not level when the mask
  // itself goes in stripes: of 1,024 documents of 8 tokens, rank 0 has every first token and rank 7
  // every last one, which sees 8 keys. With documents of L tokens, where L is a multiple of N, the
  // ceiling is (L + 1) / (L + N), here 56 %. Whole pieces keep together what belongs together: with a
  // window or with documents, most meetings are empty. Zigzag was made for the plain causal mask, and
  // is best at that.
  //
  // The ceiling holds for ranks that begin every step together. A rank with more buffers may run ahead
  // of the others, and then only its total counts. With eight equal documents, dealt out in zigzag,
  // ranks have the same work in all steps together, but not in each. Simulated with hops that take no
  // time, they are busy for this share of the time:
  //-
  const Problem one_each = ring_job(1, 8192, 8, eight_texts, PartitionKind::zigzag);
  const Cell two = percent(busy_share(one_each, 2)), eight = percent(busy_share(one_each, 8));
  page.value("two buffers per rank", two);
  page.value("eight buffers per rank", eight);

  // ## Send only what is needed
  //
  // A block need not go further than the last rank that attends any of it, and not with rows that
  // nobody further on attends. All ranks can work out which rows these are: the keys that a rank's
  // queries may attend are intervals, so what must reach it of a block is a few intervals too, and
  // their ends follow from the mask and the deal. Nothing has to be asked or announced.
  //
  // For whole pieces of c rows and a causal window of W, a query looks back to the W - 1 rows before it.
  // A block then makes (W - 1) / c hops, rounded up, if there are enough ranks after it. It gets shorter
  // from hop to hop, and sends W - 1 rows in all of them together.
  //-
  const RowsSent windowed_rows(windowed);
  //+
  page.predict(
      "A ring that sends everything passes on 8 x 7 x 1,024 = 57,344 rows. How many are needed "
      "under the window of 1,024?",
      "rows", windowed_rows.ring);

  // Rank 7's block has nobody after it; each of the other seven sends 1,023 rows over one hop. A wider
  // window, of 1,536, reaches two ranks, and the second of them needs half as many:
  page.picture("travels.svg", "A block gets shorter from hop to hop",
               block_of_rank_2("causal+window:1536"));

  // How `ringscope run` and `simulate` decide: if more than a quarter of the rows would travel the last
  // hop unused, only needed rows are sent; otherwise everything, as with `--hops all`. Each cell of the
  // table has two numbers of rows. The first is what a ring passes on if it sends what is needed, in a few
  // parts. The second is the fewest: each row goes straight to each rank that needs it
  // (`--scheme groupcast`).
  page.table(by_deal({{"causal", "causal"},
                      {"causal, window 1,024", "causal+window:1024"},
                      {"documents, one per rank", eight_texts},
                      {"documents of 700, 4,000, 300 and 3,192", few_texts}},
                     [](const Problem& job) { return RowsSent(job).text(); }));

  // Striped ranks need nearly everything under all of these masks. Zigzag ranks need few rows under a
  // window, but the ring must still make all of its hops. Rank r has chunks r and 2N - 1 - r. The
  // chunks that come next in the text, and look back to these, lie on rank r + 1 and on rank r - 1. The
  // ring reaches rank r - 1 last of all, after N - 1 hops; a cast goes there directly.
  //
  // ## In a run
  //
  // These are three documents of unequal length, striped over four ranks, beside the formulas in f64:
  const Problem config =
      ring_job(1, 2048, 4, "causal+documents:700,1000,348", PartitionKind::striped);
  const AttentionInputs in = random_inputs(config.shape);
  RingRun run = run_on_threads(config, in);
  const double error = largest_difference(run.outputs.out, exact_attention(config, in).out);
  page.value("largest error", rounding(error, 3e-6));
  page.trace(ideal_timeline(run.recording),
             {scene("Three documents, dealt out like cards over four ranks.", Figure::timeline),
              scene("The mask in local rows: three triangles along the diagonal, in every meeting.",
                    Figure::mask, 1)});

  // ## Checks
  page.equal("Seven blocks send 1,023 rows over one hop", windowed_rows.ring, 7 * 1023);
  page.equal("A window of c rows takes ceil((W - 1) / c) hops", windowed_rows.hops, 1);
  page.check("Eight buffers beat the ceiling", two.shown == "66.7 %" && eight.shown == "100.0 %");
  page.equal(
      "Striped ranks share short documents badly",
      fixed(meetings(ring_job(1, 8192, 8, short_texts, PartitionKind::striped)).balance_ceiling, 4),
      fixed(9.0 / 16, 4));
  page.at_most("The output is exact up to rounding", error, 3e-6);

  // ## Exercise
  //
  // Write the interval of a query for a causal window inside documents, and the number of blocks that
  // a rank must meet under a causal window: `lessons/11_other_masks/exercise.py`.
  // `./ringscope lesson 11 --check` counts.
}

}  // namespace ringscope::lessons::chapter_11
