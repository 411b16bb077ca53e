// # Online softmax: carry and merge
// > Of all the keys that a row has met, softmax remembers two numbers and a vector. Keys may
// > therefore arrive in pieces, in any order, and from anywhere.
//
// **You know** from lesson 1 that a row of attention divides by a sum over all keys, and from
// lesson 2 that the row's largest score is subtracted before exp. Both seem to need all keys at
// once. **You will see** that neither does: what has been computed for some keys can be carried on
// over more keys, and two such results can be merged into one.
//
// ## Four keys, two at a time
//
// One query has four keys. Their scores and values are:
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_03 {
void lesson_03(Page& page) {
  const std::vector<double> scores = {1, 3, 2, 5};
  const std::vector<double> values = {10, 20, 30, 40};

  // Only the first two keys have arrived. For these, the row keeps
  //
  //     m         = the largest score                3
  //     l         = sum of exp(score - m)            exp(-2) + exp(0)          = 1.135
  //     out_accum = sum of exp(score - m) value      10 exp(-2) + 20 exp(0)    = 21.353
  //
  // and its output so far is out_accum / l = 18.81. Now come scores 2 and 5. The largest score
  // becomes 5, but l and out_accum were measured against 3.
  page.predict("What must the old l and out_accum be multiplied by, to be measured against 5?", "",
               std::exp(3.0 - 5.0));

  // The old keys need not be looked at again, because
  //
  //     exp(score - 5) = exp(score - 3) exp(3 - 5)
  //
  // Every old term is multiplied by the same factor, and so are both sums. The old m is the unit that the sums are
  // measured in, and the factor changes the unit. The *carried state* is m, l and out_accum. The function `carry_on`
  // carries it on by one step; the exercise asks you to write it. A key with the score -inf counts for nothing (masks
  // will use that), and -inf - -inf, which is NaN, must never be formed. In the code row_max is m, and row_sum is l.
  // Here is the example, two keys at a time:
  RowState<double> row;  // m = -inf, l = 0: no keys yet
  std::vector<double> out_accum = {0};
  const std::span<const double> all(scores);
  carry_on<double>(row, out_accum, all.first(2), &values[0]);
  const RowState<double> after_two = row;
  const double accum_after_two = out_accum[0];
  carry_on<double>(row, out_accum, all.last(2), &values[2]);
  Table steps({"keys seen", "m", "l", "out_accum", "out_accum / l"});
  steps.row(2, after_two.row_max, fixed(after_two.row_sum, 3), fixed(accum_after_two, 3),
            fixed(accum_after_two / after_two.row_sum, 3));
  steps.row(4, row.row_max, fixed(row.row_sum, 3), fixed(out_accum[0], 3),
            fixed(out_accum[0] / row.row_sum, 3));
  page.table(steps);
  Drawing rescaling;
  const auto show_sums = [&](const std::string& what, std::size_t keys, double m) {
    std::vector<double> l, out;
    for (std::size_t j = 0; j < keys; ++j) {
      l.push_back(std::exp(scores[j] - m));
      out.push_back(l[j] * values[j]);
    }
    rescaling.heading(what);
    rescaling.strip("l", Drawing::stacked(l, row.row_sum),
                    fixed(std::accumulate(l.begin(), l.end(), 0.0), 3).kept);
    rescaling.strip("out_accum", Drawing::stacked(out, out_accum[0]),
                    fixed(std::accumulate(out.begin(), out.end(), 0.0), 3).kept);
  };
  show_sums("two keys, measured against m = 3", 2, after_two.row_max);
  show_sums("m becomes 5: both times exp(3 - 5)", 2, row.row_max);
  show_sums("two more keys are added", 4, row.row_max);
  for (int j = 0; j < 4; ++j) rescaling.key(j, "key " + std::to_string(j + 1));
  page.picture("rescaling.svg", "Old sums shrink by one factor, and new keys are added", rescaling);

  // The last line must be what softmax over all four scores at once gives.
  std::vector<double> weights(4);
  safe_softmax<double>(scores, weights);
  double at_once = 0;
  for (int j = 0; j < 4; ++j) at_once += weights[j] * values[j];
  page.value("at once", fixed(at_once, 3));

  // The viewer shows such a step with the numbers of a run: `./ringscope view tile.json --panel tile`, keys `>` and `<`, after
  // `./ringscope run --random --mask causal --partition striped --record-tile 2:1 --trace tile.json`.

  // ## Merge
  //
  // There is another way. Suppose two ranks have each seen half of the keys, and neither has the other's state. The
  // two states can still become one: both are brought to the larger m, and added. That is the *merge*.
  page.picture("merge.svg", "Two states become one: each is multiplied by its factor, then added");
  page.region("core/attention/online_softmax.h", "merge");

  // A state that has seen no keys (m = -inf, l = 0) changes nothing, so every row starts with it.
  // Merging gives the same in any order and any grouping, as addition does.
  RowState<double> late;
  std::vector<double> late_accum = {0};
  carry_on<double>(late, late_accum, all.last(2), &values[2]);
  RowState<double> merged = after_two;
  std::vector<double> merged_accum = {accum_after_two};
  merge<double>(merged, merged_accum, late, late_accum);
  page.value("merged", fixed(merged_accum[0] / merged.row_sum, 3));

  // Why one factor there, and two here? New keys are measured against the new m at once, so only the
  // old sums need one. Of two states, either may have the smaller m. Outputs that are already divided by
  // l always need two. Part a is Σ exp(s - lse of a) v over its own keys, and the whole needs
  // Σ exp(s - lse) v. Part a is therefore multiplied by exp(lse of a - lse), and part b by
  // exp(lse of b - lse). Because lse is over all keys, these weights add up to 1.
  const PartOfKeys early = over_keys(0, 2), rest = over_keys(2, 4), whole = over_keys(0, 4);
  const double of_early = std::exp(early.lse - whole.lse), of_rest = std::exp(rest.lse - whole.lse);
  page.value("weights of the outputs of the two halves", numbers({of_early, of_rest}, 3));

  // ## A key without a value
  //
  // gpt-oss learns a number s per head, a **sink**, and adds exp(s) to l in every row. That is a key with
  // score s and value 0, carried on once:
  //-
  RowState<double> with_sink = row;
  std::vector<double> dimmed = out_accum;
  const double sink = 2, nothing = 0;
  carry_on<double>(with_sink, dimmed, {&sink, 1}, &nothing);
  page.value("with a sink of 2", fixed(dimmed[0] / with_sink.row_sum, 3));

  // In out = out_accum / l the sink is in l alone. If s rises, l rises at the rate exp(s), and by the
  // quotient rule out falls at the rate p out, where p = exp(s) / l is the sink's weight. The gradient of
  // s is thus -Σ p (dO · out) over all rows. (Lesson 11's sinks are others.)
  //
  // ## What it costs to remember
  //
  // The state of one row with head_dim 128 is m, l and 128 numbers of out_accum, after any number of
  // keys. Lesson 1 would hold a row of P instead:
  const Guess guess = page.predict(
      "One row, a million keys, floats: how many times larger is its row of P than its state?", "");
  const double state_bytes = (2 + 128) * sizeof(float), row_of_p = 1e6 * sizeof(float);
  page.answer(guess, row_of_p / state_bytes);

  // What is exact in mathematics is not exact on a computer, because every step rounds. Here one row
  // meets 4,096 random keys in float, f32 for short. Their scores rise, so that m changes often.
  // One column carries the state on from piece to piece. In the other, each piece makes a state, and
  // the states are merged. Both are compared with the softmax of the whole row in double, f64.
  Table errors({"keys per piece", "pieces", "error, carried", "error, merged"});
  const Index keys = 4096;
  auto s = random_values(RandomTensor::q, keys), v = random_values(RandomTensor::v, keys);
  for (Index j = 0; j < keys; ++j) s[j] += static_cast<float>(j) / 512;
  const double exact = over_keys(in_f64(s), in_f64(v).data()).out;
  double worst = 0;
  for (Index piece : {4096, 256, 16, 1}) {
    RowState<float> carried, sum;
    std::vector<float> out = {0}, sum_out = {0};
    for (Index first = 0; first < keys; first += piece) {
      const auto some = std::span(s).subspan(first, piece);
      carry_on<float>(carried, out, some, &v[first]);
      RowState<float> own;
      std::vector<float> own_out = {0};
      carry_on<float>(own, own_out, some, &v[first]);
      merge<float>(sum, sum_out, own, own_out);
    }
    const double off = std::abs(double{out[0] / carried.row_sum} - exact);
    const double off_merged = std::abs(double{sum_out[0] / sum.row_sum} - exact);
    errors.row(piece, keys / piece, rounding(off, 1e-6), rounding(off_merged, 1e-6));
    for (const double each : {off, off_merged}) keep_larger(worst, each);
  }
  page.table(errors);

  // The size of the pieces hardly matters, so they may be chosen to fit a cache, or lie on different machines.
  //
  // ## On paper
  page.predict("Outputs 10 and 30 with lse 0 and ln 3: what is their merge?", "",
               (10 + 3 * 30) / 4);
  page.predict("m = 0, l = 3, output 8, dO 2, and a sink of 0 joins: what is its gradient?", "",
               -3);

  // ## Checks
  page.at_most("Two and two carried on give softmax over all four",
               std::abs(out_accum[0] / row.row_sum - at_once), 1e-12);
  page.at_most("Two and two merged give the same",
               std::abs(merged_accum[0] / merged.row_sum - at_once), 1e-12);
  page.at_most("Outputs that are weighted by their lse give it, too",
               std::abs(of_early * early.out + of_rest * rest.out - at_once), 1e-12);
  page.equal("After two keys the output is 18.81", fixed(accum_after_two / after_two.row_sum, 2),
             "18.81");
  page.at_most("In f32, pieces of any size stay within 1e-6", worst, 1e-6);

  // ## Exercise
  //
  // Here your own ring begins, in the folder `my_ring` at the top of the clone, which git ignores.
  // `./ringscope lesson 3 --check` makes `my_ring/03_online_softmax.h` there from a stub. Write
  // `carry_on` in it, also for forbidden keys and scores of 1,000, and check again. `--hint 1` to `3`
  // help, `--take ours` goes on from our version, `--take stub` starts over. With `--check --python` you
  // write in Python, and [given.py](../my_ring/python/given.py) has the names that the following pages
  // show. Steps in C++ share a header, with `dot(a, b)`, `add(a, factor, b)` and:
  page.region("lessons/my_ring/given.h", "states");
}

}  // namespace ringscope::lessons::chapter_03
