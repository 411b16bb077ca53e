// # Blocks: splitting Q, splitting K and V
// > Rows of Q can be split because they never meet, and rows of K and V because their results can be
// > merged. Attention is thus a grid of tiles, and only one tile has to exist at a time.
//
// **You know** from lesson 3 that a row carries m, l and its unnormalised output from one piece of the
// keys to the next. **You will see** the same with matrices: attention cut into blocks in both
// directions, what each cut costs, and how little memory is still needed.
//
// ## Two ways to cut
//
// The scores have a row for every query and a column for every key. If the queries are cut, the
// pieces are independent: each computes its own rows of the output. If the keys are cut, each piece
// contributes a state to every row, as in lesson 3. A rectangle of scores, some queries by some
// keys, is called a *tile*.
//
// Along a row of tiles the state is carried on. Down a column, tiles have nothing to do with each other.
// As a program, it is two loops around the `carry_on` of lesson 3. The outer one takes a block of
// queries, the inner one the blocks of keys. Only one tile of scores exists at a time:
//
//     for each block of queries
//         for each block of keys
//             compute the scores of the tile
//             for each query: carry its state on over the tile
//
// When a row has met all of its keys, and not before, it is divided by its l. In a ring more keys come
// later, so the loop itself (`attend` in the exercise) must leave the states as they are.
#include "core/attention/blockwise.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_04 {
//-
constexpr Index kTokens = 768, kDim = 64;

// Attend one head in tiles of query_rows by key_rows, which divide the sequence, and count.
struct Cut {
  Index query_rows, key_rows;
};
struct Count {
  Index kv_rows_read = 0, rescaled = 0;
};
static std::vector<float> attend_in_tiles(const AttentionShape& shape, const AttentionInputs& in,
                                          Cut cut, Count& count) {
  const Index tokens = shape.seqlen, d = shape.head_dim;
  const float root = std::sqrt(static_cast<float>(d));
  std::vector<float> out(tokens * d), tile(cut.query_rows * cut.key_rows);
  for (Index q = 0; q < tokens; q += cut.query_rows) {
    std::vector<RowState<float>> state(cut.query_rows);
    for (Index k = 0; k < tokens; k += cut.key_rows, count.kv_rows_read += cut.key_rows)
      for (Index i = 0; i < cut.query_rows; ++i, ++count.rescaled) {
        const std::span<float> scores(&tile[i * cut.key_rows], cut.key_rows);
        for (Index j = 0; j < cut.key_rows; ++j) {
          const float* const key = &in.k[(k + j) * d];
          scores[j] = std::inner_product(key, key + d, &in.q[(q + i) * d], 0.0f) / root;
        }
        carry_on<float>(state[i], std::span(&out[(q + i) * d], d), scores, &in.v[k * d]);
      }
    for (Index i = 0; i < cut.query_rows * d; ++i) out[q * d + i] /= state[i / d].row_sum;
  }
  return out;
}
//+

void lesson_04(Page& page) {
  // Tiles of 48 queries by 256 keys, against the function of lesson 1:
  const AttentionShape shape{.seqlen = kTokens, .head_dim = kDim};
  const AttentionInputs in = random_inputs(shape);
  const auto naive = naive_attention<float>(shape, Mask{.seqlen = kTokens}, 1 / 8.0, in.q.data(),
                                            in.k.data(), in.v.data(), nullptr);
  Count count;
  const std::vector<float> tiled = attend_in_tiles(shape, in, {48, 256}, count);
  page.value("largest difference", rounding(largest_difference(tiled, naive.out), 1e-5));

  // A smaller walk, of six queries and six keys in tiles of two by three, at its third tile:
  Drawing walk;
  walk.heading("scores, by the number of their tile");
  for (int q = 0; q < 6; ++q) {
    const auto cell = [q](int k) {
      const int tile = q / 2 * 2 + k / 3 + 1;
      return std::pair(tile < 3 ? 2 : tile == 3 ? 1 : Drawing::kQuiet, tile);
    };
    const char* const kept[] = {"out", "m, l, out", ""};
    walk.strip("query " + std::to_string(q), Drawing::cells(6, cell), kept[q / 2]);
  }
  walk.key(2, "thrown away");
  walk.key(1, "held now");
  walk.key(Drawing::kQuiet, "to come");
  page.picture("walk.svg", "One tile of scores exists. Rows above it are finished", walk);

  // ## What a cut costs
  //
  // No score is computed twice, whatever the cut. But blocks of K and V are fetched from slow
  // memory more than once, and stay in a cache until their tile is done.
  page.predict("768 keys, and 768 queries in blocks of 48. How often is each row of K, V fetched?",
               "times", static_cast<double>(count.kv_rows_read) / kTokens);

  // It is fetched once for each block of queries. Taller tiles fetch K and V less often, while
  // their width makes no difference to that. Wide tiles take memory for their scores. Narrow ones
  // rescale more often: a row's state gets a factor (lesson 3) for every piece of the keys.
  Table cuts({"tile", "a row of K, V is fetched", "a state is rescaled", "scores held", "error"});
  double worst = 0;
  for (const Cut cut : {Cut{768, 768}, Cut{48, 256}, Cut{48, 16}, Cut{1, 256}, Cut{1, 1}}) {
    Count counted;
    const auto out = attend_in_tiles(shape, in, cut, counted);
    const double error = largest_difference(out, naive.out);
    keep_larger(worst, error);
    const Index fetched = counted.kv_rows_read / kTokens;
    cuts.row(fmt::format("{} x {}", cut.query_rows, cut.key_rows), fmt::format("{} x", fetched),
             fmt::format("{} x", counted.rescaled / kTokens),
             bytes(4.0 * static_cast<double>(cut.query_rows * cut.key_rows)),
             rounding(error, 1e-5));
  }
  page.table(cuts);

  // The first line is lesson 1 again. The last fetches every key once for every query. A fast
  // kernel, which is a function for the heavy work, lies in between: its tile fits into a fast memory,
  // such as a cache, and it uses each fetched key for many queries.
  //
  // ## The project's kernel
  //
  // The function that all later lessons run on a CPU takes one *KV block*, some rows of K together with
  // the same rows of V. It carries the state on over the block, so calling it block after block, in any
  // order, is attention over all of them. Its outer loop takes tiles of keys: each call fetches a key
  // once, and a query once per tile. (`region` says who may attend whom.)
  page.region("core/attention/blockwise.h", "attend_block");

  // Its tiles are 48 x 256, whatever the sequence. How much memory does it work in?
  const Guess held = page.predict(
      "For 1,024 tokens and head_dim 64 its scratch is 192 KiB. For 1,048,576 tokens?", "KiB");
  const double scratch =
      static_cast<double>(BlockwiseScratch::bytes({.head_dim = kDim}, /*backward=*/false));
  page.answer(held, scratch / 1024);

  // It is the same, because it depends on tile sizes and head_dim, not on the sequence. The memory
  // wall of lesson 1 is gone. What is left is linear: Q, K, V and the output themselves.
  Table memory({"tokens", "Q, K, V and out", "P (lesson 1)", "scratch (now)"});
  for (const double s : {1024.0, 65536.0, 1048576.0})
    memory.row(static_cast<Index>(s), bytes(16 * s * kDim), bytes(4 * s * s), bytes(scratch));
  page.table(memory);

  // Yet linear growth is still growth. At ten million tokens, with 32 heads and many layers, even these
  // four are more than one machine holds, and the work would take it days. Tiles, however, can be
  // computed anywhere. In lesson 5 they go to many machines.
  //
  // ## On paper
  page.predict("1,024 queries and keys in tiles of 64 x 128: how many tiles?", "", 16 * 8);
  page.predict("How often is each row of K and V fetched then?", "times", 1024 / 64);

  // ## Checks
  page.at_most("All cuts give the result of lesson 1", worst, 1e-5);
  page.equal("The scratch is 192 KiB", bytes(scratch), "192 KiB");

  // ## Exercise
  //
  // All cuts above were into whole tiles. In `my_ring/04_blocks.h`, write the loop over the tiles of any
  // number of queries and keys. It calls your `carry_on` of lesson 3, which is included before it.
  // `./ringscope lesson 4 --check` tries numbers that are no multiples of a tile's sides, too. You need
  // these names of `given.h`, and of a rank only `scores`, which computes one tile:
  page.region("lessons/my_ring/given.h", "rows_and_blocks");
  page.region("lessons/my_ring/given.h", "scores");
}

}  // namespace ringscope::lessons::chapter_04
