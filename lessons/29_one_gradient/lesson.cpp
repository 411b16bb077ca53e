// # One gradient for all: sums, means and whose count
// > A weight is used by all rows, so its gradient is a sum over all ranks. What each rank divides by, and
// > when, decides whether the model trains as on one rank.
//
// **You know** a model whose rows are dealt out, with a copy of all weights on every rank (lesson 16).
// **You will see** how the ranks' gradients become one, a mistake that raises no error, and a model that
// learns the same on one, two and four ranks.
//
// ## A sum over all ranks
//
// A weight's gradient is a sum over all rows of all ranks. Each rank adds up over its own; then
// these are added up over the ranks, and all get the result: an *all-reduce*. It is a ring, too.
// Each of N chunks collects its sum in the first N - 1 hops, as dK and dV did. In the others the
// whole sums go round:
//
//     for step = 0 to N - 2
//         send a chunk on, receive another, and add this rank's part to it
//     for step = N - 1 to 2N - 3
//         send a complete chunk on, and receive another
//
// Then all ranks change their weights alike.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lessons/book/model_rank.h"
#include "lessons/book/page.h"

namespace ringscope::lessons::chapter_29 {
void lesson_29(Page& page) {
  page.predict("How many numbers does each of four ranks send, for every weight of the model?",
               "numbers", 1.5);

  // That is 2 (N - 1) / N, and never more than 2.
  //
  // ## Divided by whose count?
  //
  // A mean is over all rows. It is tempting to let each rank take the mean over its own, and then
  // the mean of the ranks. S1 divides the sum of the gradients by N, and does so for a summed loss
  // ([claim C44](../claims.md#c44)). Let four ranks scale their own rows' losses, and apply a
  // factor after the gradients were added up. How far is that from one rank's gradient?
  //-
  const ModelShape shape = {
      .layers = 2, .width = 32, .num_heads = 4, .num_heads_kv = 2, .head_dim = 8, .hidden = 80};
  const auto length_of = [](const std::vector<double>& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  };
  Table ways({"loss", "a rank takes", "over the ranks", "off by, 16 rows", "off by, 10 rows"});
  std::vector<double> off_by;  // [way, 16 rows or 10]: relative errors of the gradients
  // Ranks multiply their losses by scale(own rows, all rows); `after` multiplies the sum.
  const auto add = [&](std::vector<Cell> cells, LossKind kind, const auto& scale, double after) {
    for (const Index rows : {16, 10}) {
      const ModelJob job{shape, 1, rows, PartitionKind::contiguous, kind};
      const auto one = on_ranks(job, 1, [](ModelRank& rank) { rank.step(); });
      const auto four = on_ranks(job, 4, [&](ModelRank& rank) {
        rank.own_gradients(scale(static_cast<double>(rank.rows), static_cast<double>(rows)));
      });
      const std::vector<double> right = one[0]->gradients();
      std::vector<double> off(right.size());
      for (const auto& rank : four) {
        const std::vector<double> own = rank->gradients();
        for (std::size_t i = 0; i < off.size(); ++i) off[i] += after * own[i];
      }
      for (std::size_t i = 0; i < off.size(); ++i) off[i] -= right[i];
      off_by.push_back(length_of(off) / length_of(right));
      cells.push_back(percent(off_by.back()));
    }
    ways.add(cells);
  };
  const auto as_is = [](double, double) { return 1.0; };
  const auto by_own = [](double own, double) { return 1 / own; };
  const auto by_all = [](double, double all) { return 1 / all; };
  add({"sum", "the sum of its rows", "mean (S1)"}, LossKind::sum, as_is, 0.25);
  add({"sum", "the sum of its rows", "sum"}, LossKind::sum, as_is, 1);
  add({"mean", "the mean of its rows", "mean"}, LossKind::mean, by_own, 0.25);
  add({"mean", "the sum of its rows, over the count of all", "sum"}, LossKind::mean, by_all, 1);
  //+
  page.table(ways);

  // The mean of means is right when all ranks have equally many rows (16 are 4, 4, 4, 4), and wrong
  // otherwise (10 are 3, 3, 2, 2). An optimizer such as Adam, which divides gradients by their
  // usual size, hides a constant factor, so such a mistake may live long. It is always right to add
  // up the ranks' gradients and to divide by the count of all rows, which every rank knows.
  //
  // ## Is it the right one?
  //
  // If all weights of one kind move a bit in the direction of their gradient, the loss has to rise by
  // the gradient's length times the distance moved. Measured so, and by the backward pass:
  //-
  constexpr double kNudge = 1.0 / 256;
  Table nudges({"weights", "by nudging", "length of the gradient"});
  double nudges_off = 0;  // largest relative error
  on_ranks({shape, 2, 90}, 1, [&](ModelRank& rank) {
    rank.step();
    ParameterStore& store = rank.replica.store();
    for (const NamedParameter& parameter : rank.weights.layout.all()) {
      if (parameter.name.starts_with("layer.1")) continue;
      const Parameter& place = parameter.place;
      const float* const gradient = store.gradients() + place.offset;
      const std::vector<double> direction(gradient, gradient + place.size());
      float* const values = store.values() + place.offset;
      const std::vector<float> before(values, values + place.size());
      const double length = length_of(direction);
      double rise = 0;
      for (const int sign : {-1, 1}) {
        for (std::size_t i = 0; i < before.size(); ++i)
          values[i] = before[i] + static_cast<float>(sign * kNudge * direction[i] / length);
        rise += sign * rank.replica.model().loss(store, rank.own_bytes());
      }
      std::copy(before.begin(), before.end(), values);
      const double slope = rise / static_cast<double>(rank.rows) / (2 * kNudge);
      nudges.row(parameter.name, fixed(slope, 3), fixed(length, 3));
      keep_larger(nudges_off, std::abs(slope / length - 1));
    }
  });
  //+
  page.table(nudges);

  // ## The loss is right, and the gradients are not
  //
  // If that happens on four ranks and not on one, these come first:
  //
  // - **A factor.** Gradients were averaged and should be added, or the other way round. Divide them by
  //   those of one rank: every weight gives the same number, N or 1/N. (`lesson zoo mean-instead-of-sum`
  //   is the same inside the ring: there dK and dV alone are N times too small.)
  // - **Unequal shares.** Each rank divided by its own count. Give all ranks equally many rows that count, and
  //   the error is gone. (In `lesson zoo unequal-shards` dQ is off by a factor that differs by rank.)
  // - **The way home.** dK and dV stop a hop short. Out and dQ are right, and a rank's dK is its
  //   neighbour's (`lesson zoo gradient-one-hop-short`).
  // - **Copies.** Copied heads of K and V were not added up (lesson 28): dK and dV are too small.
  //
  // So compare tensor by tensor: out, dQ, dK and dV, as `./ringscope check` does, and then the weights.
  //
  // ## It learns
  //
  // The text says "Of 2 ranks, rank 0 sends to rank 1 and receives from rank 1.", and so on up to
  // nine ranks. A model that knows byte counts alone has the text's entropy as mean loss:
  const TrainingSettings settings{shape, {.rate = 1e-2}, 4, 128};  // four sequences of 128 bytes
  const double entropy = unigram_entropy(ring_text());
  page.value("entropy of single bytes", fixed(entropy, 2));
  //-
  Table learnt({"step", "loss on 1 rank", "on 2", "on 4"});
  std::vector<double> losses[3];  // by step
  double apart = 0;               // largest difference from one rank, relative
  for (const int which : {0, 1, 2})
    train_on_threads({settings, {PartitionKind::zigzag, 1 << which}, nullptr, 40}, ring_text(),
                     [&](const StepReport& report, const TrainingRank&) {
                       losses[which].push_back(report.loss);
                     });
  const auto& [one, two, four] = losses;
  for (std::size_t i = 0; i < one.size(); ++i) {
    keep_larger(apart, std::abs(two[i] / one[i] - 1));
    keep_larger(apart, std::abs(four[i] / one[i] - 1));
    if (i == 0 || i % 10 == 9)
      learnt.row(i + 1, fixed(one[i], 2), fixed(two[i], 2), fixed(four[i], 2));
  }
  //+
  page.table(learnt);

  // ## Checks
  page.at_most("Nudging agrees with the gradients", nudges_off, 1e-3);
  page.check("Sums divided by 4 are off by 3/4", std::abs(off_by[0] - 0.75) < 1e-4);
  page.check("A mean of means needs equal shares", off_by[4] < 1e-5 && off_by[5] > 0.01);
  page.at_most("Sums over the count of all need no condition", off_by[7], 1e-5);
  page.at_most("Losses are the same on one, two and four ranks", apart, 1e-4);
  page.check("They end far below the entropy", losses[2].back() < 0.2 * entropy);

  // ## Exercise
  //
  // Texts are padded with bytes that don't count. By what must a rank multiply its gradients if
  // ranks differ in how many of their rows count, and gradients can only be averaged over ranks?
  // `lessons/29_one_gradient/exercise.h`; `./ringscope lesson 29 --check` tries it.
}

}  // namespace ringscope::lessons::chapter_29
