// # Softmax made safe
// > exp overflows a float at scores that are quite ordinary. One subtraction keeps every row in
// > range.
//
// **You know** from lesson 1 that softmax turns a row of scores into weights: exp of each score,
// divided by the sum. **You will see** that this formula fails in an ordinary float, why
// subtracting one number mends it, and what single number then sums up a whole row.
//
// ## Where exp ends
//
// A float reaches about 3.4 · 10³⁸. exp grows by a factor of 2.72 when its argument grows by 1, so it
// gets there soon. This is softmax as lesson 1 wrote it, in float:
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_02 {
std::vector<float> plain_softmax(const std::vector<float>& scores) {
  std::vector<float> weights;
  float sum = 0;
  for (const float s : scores) weights.push_back(std::exp(s));
  for (const float w : weights) sum += w;
  for (float& w : weights) w /= sum;
  return weights;
}

//-
std::vector<float> safe(std::vector<float> scores) {
  safe_softmax<float>(std::vector(scores), scores);
  return scores;
}
std::string shown(const std::vector<float>& weights) {
  for (const float w : weights)
    if (std::isnan(w)) return "NaN";
  return numbers({weights.begin(), weights.end()}, 3);
}
//+

void lesson_02(Page& page) {
  const Guess guess = page.predict("What is the largest whole score whose exp fits a float?", "");
  int largest = 0;
  while (std::isfinite(std::exp(static_cast<float>(largest + 1)))) ++largest;
  page.answer(guess, largest);

  // One more, and exp is infinite. A score is a sum of d products, divided by √d, which keeps it small on
  // average. If the numbers of q and k are independent, with mean 0 and variance 1, each product has
  // variance 1 · 1, and variances of independent terms add up. A sum of d products thus has variance d,
  // and its size is about √d. Divided by √d it is about 1, whatever d is. In 4,000 random pairs:
  Table sizes({"d", "size of a sum of d products", "√d", "divided by √d"});
  double off = 0;  // largest distance of the last column from 1
  for (const Index d : {16, 64, 256}) {
    const auto q = random_values<double>(RandomTensor::q, 4000 * d);
    const auto k = random_values<double>(RandomTensor::k, 4000 * d);
    double squares = 0;
    for (auto i = q.begin(), j = k.begin(); i != q.end(); i += d, j += d)
      squares += std::pow(std::inner_product(i, i + d, j, 0.0), 2) / 4000;
    const double root = std::sqrt(static_cast<double>(d)), ratio = std::sqrt(squares) / root;
    sizes.row(d, fixed(std::sqrt(squares), 1), root, fixed(ratio, 2));
    keep_larger(off, std::abs(ratio - 1));
  }
  page.table(sizes);

  // Without that division, the largest of many scores would take nearly all of the weight when d is large.
  // But queries and keys are not independent: a query agrees with the key that it looks for. With d = 64
  // and entries of size 4, their score is 64 · 4 · 4 / 8 = 128. Then the formula gives NaN:
  const std::vector<float> small = {1, 2, 3}, large = {126, 127, 128}, close = {0, 88.5, 88.5};
  Table failing({"scores", "exp of the last", "weights by the formula"});
  for (const auto& scores : {small, large, close}) {
    const float last = std::exp(scores[2]);
    failing.row(numbers({scores.begin(), scores.end()}, scores[0] == 0 ? 1 : 0),
                std::isinf(last) ? "infinite" : fmt::format("{:.3g}", last),
                shown(plain_softmax(scores)));
  }
  page.table(failing);

  // Infinity divided by infinity is NaN, "not a number", and whatever is computed with NaN is NaN. The
  // last line is worse. Each exp fits a float, but their sum doesn't, so every weight is a number divided
  // by infinity: 0. The query then gets nothing, and no NaN tells of it.
  //
  // ## Subtract the largest
  //
  // A weight is a ratio, and a ratio does not change when both of its sides are multiplied by the
  // same number. We may therefore multiply every exp by exp(-m), with any m that we like:
  //
  //     exp(s) / Σ exp(s)  =  exp(s - m) / Σ exp(s - m)
  //
  // Take for m the largest score of the row, its *row maximum*. Then the largest term is exp(0) =
  // 1, all others lie between 0 and 1, and the sum is between 1 and the number of keys. Nothing can
  // overflow. The exp of a score far below the maximum becomes 0, which is what its weight would round
  // to. (Below, `safe` calls this function.)
  page.region("core/attention/online_softmax.h", "safe_softmax");

  const Guess same = page.predict(
      "The scores 1, 2, 3 weigh 0.090, 0.245, 0.665. What does 128 weigh beside 126 and 127?", "");
  const std::vector<float> mended = safe(large);
  page.answer(same, mended[2]);
  Drawing bars;
  const std::vector<std::string> names = {"126", "127", "128"};
  std::vector<double> shifted;
  bars.heading("exp(score): beyond what a float can hold");
  for (int i = 0; i < 3; ++i) {
    shifted.push_back(std::exp(large[i] - large[2]));
    bars.strip(names[i], {{0, 1, Drawing::kWrong}}, fmt::format("{}", std::exp(large[i])));
  }
  bars.bars("exp(score - 128): between 0 and 1", names, shifted, 3);
  bars.bars("weights", names, {mended.begin(), mended.end()}, 3);
  page.picture("subtract.svg", "The same three scores without the subtraction, and with it", bars);

  // It weighs the same, because only the distances between scores count.
  //
  // ## Nothing to choose from
  //
  // Later, some keys will be forbidden to some queries. A forbidden key gets the score -∞, since
  // exp(-∞) = 0. If all keys of a row are forbidden, the maximum is -∞ as well, and -∞ - (-∞) is NaN.
  // In the function above `unit` prevents that: it is m, but 0 for such a row.
  const float none = kMinusInfinity<float>;
  Table masked({"scores", "weights"});
  masked.row("1, -∞, 3", shown(safe({1, none, 3})));
  masked.row("-∞, -∞, -∞", shown(safe({none, none, none})));
  page.table(masked);

  // The output of such a row is then 0, everywhere in this project: a query that may attend to nothing
  // gets nothing. NaN comes out only if NaN or infinity went in, or if a score overflowed.
  //
  // ## A row in one number
  //
  // The function computes two numbers for a row: m, and the sum l of exp(score - m). The sum of exp of
  // all scores is exp(m) · l. It may be far out of range, but its logarithm is not. That is called
  // *lse*, for log-sum-exp:
  //
  //     lse = m + log(l)            and every weight is exp(score - lse)
  RowState<double> row;
  std::vector<double> no_output;
  carry_on<double>(row, no_output, std::vector<double>{126, 127, 128}, nullptr);
  const double lse = lse_of(row);
  page.value("m and l", numbers({row.row_max, row.row_sum}, 3));
  page.value("lse", fixed(lse, 3));
  page.value("weight of 128, as exp(128 - lse)", fixed(std::exp(128 - lse), 3));

  // (`carry_on` is the next lesson's subject; here it just finds m and l.) Any weight of the row can now
  // be computed again from its score and lse. The gradients of lesson 9 rely on that. A row without
  // keys has lse = -∞, since l = 0, and -∞ - (-∞) is NaN again. Whoever computes weights from lse, or
  // merges results by it, must therefore treat such rows apart.
  //
  // But m is the largest of all scores, and it seems that the whole row must be there before the first
  // exp, and rows are as long as the text. Lesson 3 shows that this is not so.
  //
  // ## On paper
  page.predict("Scores ln 1, ln 2 and ln 5: what does the last one weigh?", "", 5 / 8.0);
  page.predict("Scores 1,000 + ln 1, 1,000 + ln 2, 1,000 + ln 5: what is lse, less 1,000?", "",
               fixed(std::log(8), 2));
  page.predict("All 16 scores of a row are equal. What are m - lse, and l?", "",
               numbers({-std::log(16), 16}));

  // ## Checks
  page.at_most("A sum of d products is about √d in size", off, 0.05);
  page.equal("Scores 1, 2, 3 weigh 0.090, 0.245, 0.665", shown(plain_softmax(small)),
             "0.090, 0.245, 0.665");
  page.equal("Scores of 126, 127, 128 weigh the same", shown(mended), "0.090, 0.245, 0.665");
  page.at_most("exp(score - lse) is the weight",
               std::abs(std::exp(128 - lse) - static_cast<double>(mended[2])), 1e-6);

  // ## Exercise
  //
  // Write softmax and lse of a row in `lessons/02_safe_softmax/exercise.py`, for any scores and forbidden
  // keys. `./ringscope lesson 2 --check` tries scores of 10,000, and a row of forbidden keys alone.
}

}  // namespace ringscope::lessons::chapter_02
