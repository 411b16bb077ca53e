// # Naive attention and the memory wall
// > Attention is two matrix products with a softmax between them, and the matrix between them grows
// > with the square of the length of the text.
//
// **You know** how to multiply matrices, and C++. **You will see** attention computed by its
// formula, for three tokens and for thousands, and why the matrix in the middle fits nowhere.
//
// ## Three tokens
//
// A text, cut into S tokens (words, or parts of words), reaches *attention* as three matrices of S rows
// and d columns. Row i of Q, the query, says what token i looks for. Row j of K, the key, says how
// token j can be found. Row j of V, the value, is what token j hands over when it is found. d is called
// head_dim.
//
//     scores = Q Kᵀ / sqrt(d)          S x S    how well query i and key j agree
//     P      = softmax of each row     S x S    weights: positive, each row sums to 1
//     out    = P V                     S x d    averages of the rows of V, weighted by P
//
// Softmax turns the scores of a row into weights: weight j is exp(score j), divided by the sum of
// exp over the row. A score that is larger by 1 weighs 2.72 times as much.
//
// Here is the smallest example: S = 3, d = 1.
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_01 {
void lesson_01(Page& page) {
  const std::vector<double> q = {0, 1, 2};
  const std::vector<double> k = {0, 1, 2};
  const std::vector<double> v = {10, 20, 30};
  page.predict("Token 0 asks with q = 0: its three scores are 0. What is its output?", "", 20);

  // Equal scores make equal weights, and the average of 10, 20 and 30 is 20. Token 1 asks with
  // q = 1, so its scores are 0, 1 and 2. By hand:
  const std::vector<double> e = {std::exp(0), std::exp(1), std::exp(2)};
  const double sum = e[0] + e[1] + e[2];
  const double by_hand = (e[0] * v[0] + e[1] * v[1] + e[2] * v[2]) / sum;
  page.value("weights", numbers({e[0] / sum, e[1] / sum, e[2] / sum}, 3));
  page.value("output of token 1", fixed(by_hand, 2));
  Drawing softmax;
  const std::vector<std::string> keys = {"key 0", "key 1", "key 2"};
  softmax.bars("scores of token 1", keys, {q[1] * k[0], q[1] * k[1], q[1] * k[2]}, 0);
  softmax.bars("exp of each", keys, e, 2);
  softmax.bars("weights: divided by their sum", keys, {e[0] / sum, e[1] / sum, e[2] / sum}, 3);
  softmax.heading("output: values 10, 20, 30 times weights");
  softmax.strip("", Drawing::stacked({e[0] * v[0], e[1] * v[1], e[2] * v[2]}, sum * by_hand),
                fixed(by_hand, 2).kept);
  page.picture("softmax.svg", "From the scores of token 1 to its output", softmax);

  // The project has this formula as a function. It is the yardstick for everything that follows:
  // whatever later lessons do to save memory, the result must be this one. (seqlen is S, and
  // softmax_scale is 1 / sqrt(d), here 1. This mask forbids nothing. dout is for gradients, lesson 9.)
  const AttentionShape tiny{.seqlen = 3, .head_dim = 1};
  const auto result = naive_attention<double>(tiny, Mask{.seqlen = 3}, /*softmax_scale=*/1.0,
                                              q.data(), k.data(), v.data(), /*dout=*/nullptr);
  Table rows({"token", "its scores", "its output"});
  for (int i = 0; i < 3; ++i)
    rows.row(i, numbers({q[i] * k[0], q[i] * k[1], q[i] * k[2]}, 0), fixed(result.out[i], 2));
  page.table(rows);

  // The larger the query, the sharper its choice: token 2 takes most from the last value.
  //
  // ## Where the memory goes
  //
  // This is what the function does with a block of rows, in matrices of the library Eigen. `p`
  // begins as the scores and ends as P. (`allowed_part` is the whole row here, because masks come
  // in lesson 7, and lesson 2 says what the row's maximum and `lse` are for.)
  page.region("core/attention/naive.cpp", "forward");

  // Q, K, V and out have S x d numbers each. With d = 128 and four bytes per number, 65,536 tokens, a
  // book of some 150 pages, need 128 MiB for the four of them. But between the two products lies P,
  // and P is S x S.
  const Index seqlen = 65536, head_dim = 128;
  const Guess guess = page.predict("How much memory does P take for 65,536 tokens?", "GiB");
  const double linear = 4.0 * seqlen * head_dim * sizeof(float);
  const double square = 1.0 * seqlen * seqlen * sizeof(float);
  page.answer(guess, square / 0x1p30);

  // That is one attention. A large model has dozens of layers, and each layer has 32 or more of these
  // side by side, which are called its heads. Texts grow longer as well, and twice the tokens take four
  // times the bytes:
  Table wall({"tokens", "Q, K, V and out", "P", "P is larger"});
  for (Index s = 1024; s <= 1048576; s *= 4)
    wall.row(s, bytes(4.0 * s * head_dim * sizeof(float)), bytes(1.0 * s * s * sizeof(float)),
             fmt::format("{} times", s / (4 * head_dim)));
  page.table(wall);

  // This is the *memory wall*: at a million tokens, the four matrices that matter fit into a
  // laptop, and the one that nobody asked for fits nowhere. The work is quadratic too, but work
  // only takes time. A lack of memory ends the program.
  //
  // ## A first way out
  //
  // Row i of out needs row i of Q, and no other query. Rows can therefore be computed a block at a time, and
  // each block's part of P can be thrown away. The function can do that (d is 64 here, so the scale is
  // 1/8):
  const AttentionShape shape{.seqlen = 2048, .head_dim = 64};
  const AttentionInputs in = random_inputs(shape);
  const auto attend = [&](Index block_rows) {
    return naive_attention<float>(shape, Mask{.seqlen = 2048}, 1 / 8.0, in.q.data(), in.k.data(),
                                  in.v.data(), nullptr, {.block_rows = block_rows});
  };
  const auto in_blocks = attend(64), at_once = attend(2048);
  page.value("64 rows of P at a time take", bytes(64.0 * 2048 * 4));
  page.value("all of P takes", bytes(2048.0 * 2048 * 4));

  // Splitting the queries is easy, then. But each of these rows still needs all keys at once, because
  // a softmax weight is divided by a sum over the whole row. To split the keys as well, we need a
  // softmax that can stop and go on. Lessons 2 and 3 build it.
  //
  // ## On paper
  page.predict("Scores 0 and ln 3, values 8 and 4: what is the output?", "", (8 + 3 * 4) / 4.0);
  page.predict("8,192 tokens, four bytes per number: how much memory does P take?", "MiB",
               8192.0 * 8192 * 4 / 0x1p20);

  // ## Checks
  page.at_most("The function computes token 1 as we did by hand", std::abs(result.out[1] - by_hand),
               1e-12);
  page.equal("Equal scores give the average", result.out[0], 20);
  page.equal("65,536 tokens: Q, K, V and out take 128 MiB", bytes(linear), "128 MiB");
  page.at_most("Rows in blocks give the same result",
               largest_difference(at_once.out, in_blocks.out), 1e-6);

  // ## Exercise
  //
  // Write one row of attention yourself: `lessons/01_naive_attention/exercise.h` has the signature,
  // for one query, S keys and S values. `./ringscope lesson 1 --check` builds it, compares it with
  // the function above, and says what is still wrong.
}

}  // namespace ringscope::lessons::chapter_01
