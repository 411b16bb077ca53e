// # A context parallel model: one attention, one gradient
// > Deal the rows of a text out once, and leave them where they are from the first layer to the loss.
// > Only attention needs the rows of others. The gradients of the weights need one sum over all ranks.
//
// **You know** how a ring computes attention and its gradients (lessons 6 and 9), and grouped heads (10).
// **You will see** a whole language model around it, and mistakes that raise no error.
//
// ## Rows by themselves
//
// A small language model reads bytes and guesses, at each, the next one. A table turns every byte into
// a row of numbers, x, and layers add to it. A last product turns each row into 256 scores, whose
// softmax says how likely each byte is to follow. The row's loss is -log of the probability that the
// right byte got, and training lowers the mean over all rows. A layer adds to a row twice:
//
//     x += attention(norm(x))
//     x += mlp(norm(x))
#include "lessons/book/model_rank.h"

namespace ringscope::lessons::chapter_14 {
void lesson_14(Page& page) {
  // `norm` scales a row to a standard size, and `mlp` is three products and a SiLU, x / (1 + exp(-x)).
  // Neither looks at other rows, nor do the table, the scores and the loss. Attention does: three
  // products make q, k and v of each row, `turn` tells q and k their position, the ring computes the
  // output, and a fourth product follows.
  //
  // A row need never move. To keep the same rows through the whole model, with a copy of all weights, is
  // *context parallelism*. It divides by N whatever grows with the text.
  //
  // ## Where a row stands
  //
  // `turn` makes attention see the order of the text. **RoPE**, rotary positions, takes the numbers of a
  // query or key in pairs, and turns each pair by its position times a frequency. In a score of two
  // turned rows only their distance is left.
  page.region("core/training/layers.cpp", "angle");

  // `row` is the local row (lesson 8). On one rank it is the position, so it is tempting to use it. Take 16
  // equal rows on 4 ranks, contiguous, and the query at position 9:
  const Guess guess = page.predict(
      "With local rows for positions, how many of the 16 keys seem to be at distance 0?", "keys");
  //-
  Table scores({"positions", "keys of rank 0", "of rank 1", "of rank 2", "of rank 3"});
  int at_distance_0[2] = {};  // how many keys seem to be: local, global
  for (const bool global : {true, false}) {
    std::vector<Cell> cells = {global ? "global" : "local"};
    const std::vector<float> queries =
        turned_rows(global ? 8 : 0);  // of rank 2; the query is row 1
    for (Index rank = 0; rank < 4; ++rank) {
      const std::vector<float> keys = turned_rows(global ? 4 * rank : 0);
      std::vector<double> score(4);
      for (std::size_t i = 0; i < 32; ++i) score[i / 8] += queries[8 + i % 8] * keys[i] / 8;
      for (const double s : score) at_distance_0[global] += s > 0.999;
      cells.push_back(numbers(score));
    }
    scores.add(cells);
  }
  page.answer(guess, at_distance_0[0]);
  page.table(scores);

  // Every rank believes that the text begins with its own rows, and each number of ranks gives a
  // different model. The cure is `global_position` above, which a rank knows by itself.
  //
  // ## A sum over all ranks
  //
  // Every row uses every weight, so a weight's gradient is a sum over all rows of all ranks. Each rank
  // adds up its own rows. Then an *all-reduce* adds these sums up and gives the result to all ranks,
  // which then change their weights alike. It is a ring, too: each of N chunks collects its sum in the
  // first N - 1 hops, as dK and dV did, and in N - 1 more hops the finished sums go round.
  page.predict("How many numbers does each of four ranks send, for every weight of the model?",
               "numbers", 1.5);

  // That is 2 (N - 1) / N, and never more than 2. Besides, only attention sends. If KV is K and V of all
  // rows of a layer, all ranks send (N - 1) KV forward and (2N - 1) KV backward (lesson 9). Take two
  // sequences of 90 bytes, and two layers with 2 heads of 8 numbers in K and V. KV is 2 · 180 · 16 · 4
  // = 23,040 bytes, and attention sends 2 · (3 + 7) KV:
  //-
  const ModelShape shape = small_model();
  const Index kv = 2 * 2 * 90 * shape.num_heads_kv * shape.head_dim * 4;
  const Index of_attention = shape.layers * (3 + 7) * kv,
              of_weights = 2 * 3 * (ModelWeights(shape).layout.size() + 1) * 4;
  Index all = 0;  // bytes of all ranks
  for (const RankCosts& rank :
       train_on_threads({{shape, {}, 2, 90}, {{}, 4}, nullptr, 1}, ring_text()).ranks)
    all += rank.sent_bytes();
  page.value("four ranks send for attention, by formula", of_attention, "bytes");
  page.value("for the gradients of the weights, and the loss", of_weights, "bytes");
  page.value("everything, counted", all, "bytes");

  // This is a step of two ranks with one sequence of 256 bytes:
  page.trace(
      *train_on_threads({{shape, {}, 1, 256}, {{}, 2}, nullptr, 3, 3}, ring_text()).recording,
      {{"The model's lane: layers forward, loss, layers backward, and the sum."},
       scene("Ranks meet only in a ring: K and V of the second layer.", 0),
       scene("Backward, gradients come home.", 1, -1, {}, Pass::backward)});

  // ## Divided by whose count?
  //
  // It is tempting to take the mean of each rank's own rows, and then the mean of the ranks. How far is
  // that from the gradient of one rank?
  Table ways({"loss", "a rank takes", "over the ranks", "off by, 16 rows", "off by, 10 rows"});
  std::vector<double> off_by;  // [way, 16 rows or 10]: relative errors of the gradients
  const auto add = [&](std::vector<Cell> cells, LossKind kind, const auto& scale, double after) {
    for (const Index rows : {16, 10}) {
      off_by.push_back(error_of_gradients(shape, rows, kind, scale, after));
      cells.push_back(percent(off_by.back()));
    }
    ways.add(cells);
  };
  const auto as_is = [](double, double) { return 1.0; };
  const auto by_own = [](double own, double) { return 1 / own; };
  const auto by_all = [](double, double everyone) { return 1 / everyone; };
  add({"sum", "the sum of its rows", "mean"}, LossKind::sum, as_is, 0.25);
  add({"sum", "the sum of its rows", "sum"}, LossKind::sum, as_is, 1);
  add({"mean", "the mean of its rows", "mean"}, LossKind::mean, by_own, 0.25);
  add({"mean", "the sum of its rows, over the count of all", "sum"}, LossKind::mean, by_all, 1);
  page.table(ways);

  // The mean of means is right when all ranks have the same number of rows (16 are 4, 4, 4, 4), and
  // wrong otherwise (10 are 3, 3, 2, 2). An optimizer such as Adam hides a constant factor (lesson 15).
  // Always right: add up the ranks' gradients and, for a mean, divide by the count of all rows. The loss
  // itself is off as well. Let ten losses fall from 3.4 to 1.0, on 3, 3, 2 and 2 rows:
  const std::vector<double> falling = {3.4, 2.9, 2.5, 2.2, 2.0, 1.8, 1.6, 1.4, 1.2, 1.0};
  const double mean = mean_of(falling), means = mean_of_means(falling, {3, 3, 2, 2});
  page.value("their mean, and the mean of the ranks' means", numbers({mean, means}));

  // ## How to debug a loss
  //
  // The loss is wrong on four ranks only, or it doesn't fall as it should. Compare tensor by tensor:
  // out, dQ, dK and dV, as `./ringscope check` does, then the weights' gradients. The first four of
  // these causes change the loss, and unequal counts are the prime suspect. The others change gradients:
  //
  // - **Positions** count from the rank's first row, or follow another deal. The first rows of the text
  //   are right (`lesson zoo rope-positions`).
  // - **Labels.** A row's label is the next byte of the text, which may lie on the next rank. Shift the text
  //   before it is dealt out. Shifted afterwards, N - 1 rows of a contiguous deal have a wrong label.
  // - **Document edges** and windows get lost on the way to the kernel. Rows that see all of their keys
  //   anyway are right (`lesson zoo wrong-mask`, [accelerate#4177](https://github.com/huggingface/accelerate/pull/4177)).
  // - **Unequal counts.** Each rank divides by its own count: see above, and `lesson zoo unequal-shards`.
  // - **A factor.** A mean stands for a sum, or a sum for a mean. The gradients of all weights are off by
  //   N or 1/N. (In `lesson zoo mean-instead-of-sum` only dK and dV are.)
  // - **The way home.** dK and dV stop a hop short: dQ is right, and their sum over all rows is, too (zoo:
  //   `gradient-one-hop-short`). Or a rank's share replaces the sum instead of joining it: only the last
  //   rank's part is left, and the sum over all rows is wrong as well (`dk-last-share-only`).
  // - **Copied heads.** Their gradients are not added up (lesson 10), which is wrong on one rank, too.
  //
  // ## It learns
  //
  // The text says "Of 2 ranks, rank 0 sends to rank 1 and receives from rank 1.", and so on up to
  // nine ranks. The model learns it alike on one, two and four ranks:
  const TrainingSettings settings{shape, {.rate = 1e-2}, 4, 128};  // four sequences of 128 bytes
  Table learnt({"step", "loss on 1 rank", "on 2", "on 4"});
  std::vector<double> losses[3];  // by step
  double apart = 0;               // largest difference from one rank, relative
  for (const int which : {0, 1, 2})
    train_on_threads({settings, {PartitionKind::zigzag, 1 << which}, nullptr, 40}, ring_text(),
                     [&](const StepReport& report, const TrainingRank&) {
                       losses[which].push_back(report.loss);
                       keep_larger(apart, std::abs(report.loss / losses[0][report.step - 1] - 1));
                     });
  for (const std::size_t i : {0, 9, 19, 29, 39})
    learnt.row(i + 1, fixed(losses[0][i], 2), fixed(losses[1][i], 2), fixed(losses[2][i], 2));
  page.table(learnt);

  // Your ring (lesson 9) trains such a model, too, on threads in seconds, and on four processes (lesson 13)
  // in a minute. Its losses are those of the project's ring:
  //
  //     ./ringscope train --text README.md --steps 10
  //     ./ringscope train --text README.md --steps 10 --backend my_ring
  //     ./ringscope mpirun 4 train --text README.md --steps 10 --backend my_ring
  //
  // ## On paper
  page.predict("8 ranks add up 1,000 numbers: how many does each send?", "", 2 * 7 * 125);

  // ## Checks
  page.check("By local rows four keys seem to be at distance 0, by positions one",
             at_distance_0[0] == 4 && at_distance_0[1] == 1);
  page.equal("Nothing else is sent", all, of_attention + of_weights);
  page.check("A mean of means needs equal shares", off_by[4] < 1e-5 && off_by[5] > 0.01);
  page.at_most("Sums over the count of all need no condition", off_by[7], 1e-5);
  page.at_most("Losses are the same on one, two and four ranks", apart, 1e-4);

  // ## Exercise
  //
  // Label the rows of a rank, and take the mean loss over all ranks:
  // `lessons/14_context_parallel_model/exercise.py`. `./ringscope lesson 14 --check` deals rows in three ways.
}

}  // namespace ringscope::lessons::chapter_14
