// # A context parallel model: only attention talks
// > Deal the rows of a text out once, and leave them where they are from the first layer to the
// > loss. Only attention needs others' rows; and once a step, the weights' gradients are added up.
//
// **You know** how a ring computes attention and its gradients (lessons 6 and 10). **You will see**
// a whole language model around it, each rank with its own rows only; all that its ranks send; and
// two mistakes that raise no error and make wrong numbers.
//
// ## Rows by themselves
//
// A small language model reads bytes and guesses, at each, the next one. A table makes every byte a
// row of numbers, x. Layers add to it. A last product makes 256 scores of each row, whose softmax
// says how likely each byte is to follow. The row's loss is -log of what the right byte got, and
// training lowers the mean over all rows. These are the layers (`begins` is for recordings):
#include "lessons/book/model_tables.h"
#include "lessons/book/page.h"

namespace ringscope::lessons::chapter_16 {
void lesson_16(Page& page) {
  page.region("core/model/model.cpp", "layers");

  // `norm` brings a row to one size, and `mlp` is three matrix products with it. Neither looks at
  // another row, nor do table, scores and loss. Attention does, in its ring. First it computes:
  page.region("core/model/attention_layer.cpp", "projections");

  // So a row need never move. To keep the same rows through the whole model, with a copy of all
  // weights, is *context parallelism*. Whatever grows with the text is split by N. Only two things
  // concern other rows: where a row stands, and the weights, which all rows share.
  //
  // ## Where a row stands
  //
  // `turn` makes attention see the order of the text. **Rotary positions** take the numbers of a
  // query or key in pairs, and turn each pair by its position times a frequency. In a score of two
  // turned rows only their distance is left.
  page.region("core/model/layers.cpp", "angle");

  // `row` is the local row (lesson 8). It is tempting to take it for the position, and on one rank
  // that is even right. Take 16 equal rows on 4 ranks, contiguous, and the query at position 9:
  const Guess guess = page.predict(
      "With local rows for positions, how many of the 16 keys seem to be at distance 0?", "keys");
  const auto turned = [](Index first_position) {  // four rows
    std::vector<float> rows(4 * 8, 1);
    Rotary({{{first_position, 1, 4}, {}}}, 8, 100).turn(1, 1, rows.data());
    return rows;
  };
  const RotaryScores scores = rotary_scores(turned);
  page.answer(guess, scores.at_distance_0[0], 0);
  page.table(scores.table);

  // Every rank believes that the text begins with it. Nothing crashes, but the model is another one
  // for every number of ranks. The cure is `global_position` above, which a rank knows by itself.
  //
  // ## One gradient for all
  //
  // A weight's gradient is a sum over all rows of all ranks. Each rank adds up over its own; then
  // these are added up over the ranks, and all get the result: an *all-reduce*. It is a ring, too.
  // Each of N chunks collects its sum in the first N - 1 hops, as dK and dV did:
  page.region("core/model/replica.cpp", "collect");

  // In the others the whole chunks go round. Then all ranks change their weights alike.
  page.predict("How many numbers does each of four ranks send, for every weight of the model?",
               "numbers", 1.5);

  // That is 2 (N - 1) / N, and never more than 2.
  //
  // ## Divided by whose count?
  //
  // A mean is over all rows. It is tempting to let each rank take the mean over its own, and then
  // the mean of the ranks. S1 divides the sum of the gradients by N, and does so for a summed loss
  // ([claim C44](../claims.md#c44)). Let four ranks `scale` their own rows' losses, and apply a
  // factor `after` the gradients were added up.
  const ModelShape shape = {
      .layers = 2, .width = 32, .num_heads = 4, .num_heads_kv = 2, .head_dim = 8, .hidden = 80};
  const auto off_by = [](const ModelJob& job, const auto& scale, double after) {
    const Windows windows = ring_windows(job);
    const auto one = on_ranks(job, 1, [&](ModelRank& rank) { rank.step(windows); });
    const auto four =
        on_ranks(job, 4, [&](ModelRank& rank) { rank.own_gradients(windows, scale(rank.rows())); });
    return relative_distance(sum_of_gradients(four, after), one[0]->gradients());
  };
  const LossWays ways = loss_ways(shape, off_by);
  page.table(ways.table);

  // The mean of means is right when all ranks have as many rows (16 are 4, 4, 4, 4), and wrong
  // otherwise (10 are 3, 3, 2, 2). An optimizer such as Adam, which divides gradients by their
  // usual size, hides a constant factor, so such a mistake may live long. It is always right to add
  // up the ranks' gradients and to divide by the count of all rows, which every rank knows.
  page.region("core/model/replica.cpp", "step");

  // ## The same model on 1, 2 and 4 ranks
  const ModelJob job{shape, 2, 90};  // two sequences
  const Windows windows = ring_windows(job);
  const auto one = on_ranks(job, 1, [&](ModelRank& rank) { rank.step(windows); });
  const Agreement same = agreement_of(job, windows, *one[0]);
  page.table(same.table);

  // Are these gradients right? If all weights of one kind move a bit in the direction of their
  // gradient, the loss has to rise by the gradient's length.
  const Nudged nudges = nudged(job, windows, *one[0]);
  page.table(nudges.table);

  // ## All that is sent
  //
  // Let KV be a layer's K and V of all rows. In each layer all N ranks send (N - 1) KV forward and
  // (2N - 1) KV backward (lesson 10). Then they send the gradients, with the loss, 2 (N - 1) times.
  const Index kv = 2 * job.batch * job.seqlen * shape.num_heads_kv * shape.head_dim * 4;
  const Index gradients = (one[0]->weights.layout.size() + 1) * 4;
  const SentBytes formula{shape.layers * 3 * kv, shape.layers * 7 * kv, 2 * 3 * gradients};
  const SentBytes counted = sent_in_a_step(job, 4, windows);
  page.table(sent_table(formula, counted));

  // Here the weights weigh most. But KV grows with the text, and weights do not.
  //
  // ## It learns
  //
  // The text says "Of 2 ranks, rank 0 sends to rank 1 and receives from rank 1.", and so on up to
  // nine ranks. A model that knows byte counts alone has the text's entropy as mean loss:
  const TrainingSettings settings{shape, {.rate = 1e-2}, 4, 128};  // four sequences of 128 bytes
  const double entropy = unigram_entropy(ring_text());
  page.value("entropy of single bytes", fixed(entropy, 2));
  const Learning learnt = learning(settings, 40);
  page.table(learnt.table);

  // This is a recorded step of two ranks, with one sequence of 256 bytes:
  page.trace(recorded_step({shape, {}, 1, 256}, {PartitionKind::zigzag, 2}),
             {{"The model's lane: layers forward, loss, layers backward, and the sum."},
              scene("Ranks meet only in a ring: K and V of the second layer.", 0),
              scene("Backward, gradients come home.", 1, -1, {}, Pass::backward)});
  page.picture("step.png", "A training step: ranks meet in rings, and to sum gradients, in green");

  // ## Checks
  page.equal("By local rows four keys seem to be at distance 0", scores.at_distance_0[0], 4);
  page.equal("By global positions one is", scores.at_distance_0[1], 1);
  page.at_most("Loss and gradients agree on all ranks and partitions", same.error, 1e-6);
  page.at_most("Nudging agrees with them", nudges.error, 1e-3);
  page.check("Sums divided by 4 are off by 3/4", std::abs(ways.off[0] - 0.75) < 1e-4);
  page.check("A mean of means wants equal shares", ways.off[4] < 1e-5 && ways.off[5] > 0.01);
  page.at_most("Sums over the count of all want nothing", ways.off[7], 1e-5);
  page.equal("Nothing else is sent", counted.all(), formula.all());
  page.at_most("Whoever trains, losses are the same", learnt.largest_difference, 1e-4);
  page.check("They end far below the entropy", learnt.losses[2].back() < 0.2 * entropy);

  // ## Exercise
  //
  // Texts are padded with bytes that don't count. By what must a rank multiply its gradients if
  // ranks differ in how many of their rows count, and gradients can only be averaged over ranks?
  // `lessons/16_context_parallel_model/exercise.h`; `./ringscope lesson 16 --check` tries it.
}

}  // namespace ringscope::lessons::chapter_16
