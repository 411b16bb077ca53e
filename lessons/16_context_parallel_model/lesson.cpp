// # A context parallel model: only attention talks
// > Deal the rows of a text out once, and leave them where they are from the first layer to the
// > loss. Only attention needs others' rows, and every row has to know where it stands.
//
// **You know** how a ring computes attention and its gradients (lessons 6 and 10). **You will see**
// a whole language model around it, each rank with its own rows only; a mistake that raises no error
// and makes wrong numbers; and all that the ranks send.
//
// ## Rows by themselves
//
// A small language model reads bytes and guesses, at each, the next one. A table makes every byte a
// row of numbers, x. Layers add to it. A last product turns each row into 256 scores, whose softmax
// says how likely each byte is to follow. The row's loss is -log of what the right byte got, and
// training lowers the mean over all rows. A layer adds to a row twice:
//
//     x += attention(norm(x))
//     x += mlp(norm(x))
//
#include "lessons/book/model_rank.h"
#include "lessons/book/page.h"

namespace ringscope::lessons::chapter_16 {
void lesson_16(Page& page) {
  // `norm` brings a row to one size. `mlp` widens it by two products, multiplies their results
  // number by number, one of them through SiLU, x / (1 + exp(-x)), and narrows the row again by a
  // third. Neither looks at another row, nor do table, scores and loss. Attention does, in its ring:
  //
  //     q, k, v = three products of the rows, by the weights of query, key and value
  //     q, k    = turn(q), turn(k)               each by its position, see below
  //     out     = ring attention of q, k, v
  //     result  = a product of out, by one more set of weights
  //
  // So a row need never move. To keep the same rows through the whole model, with a copy of all
  // weights, is *context parallelism*. Whatever grows with the text is split by N. Only two things
  // concern other rows: where a row stands, and the weights, which all rows share (lesson 29).
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
  //-
  const auto turned = [](Index first_position) {  // four rows of 8 numbers
    std::vector<float> rows(4 * 8, 1);
    Rotary({{{first_position, 1, 4}, {}}}, 8, 100).turn(1, 1, rows.data());
    return rows;
  };
  Table scores({"positions", "keys of rank 0", "of rank 1", "of rank 2", "of rank 3"});
  int at_distance_0[2] = {};  // how many keys seem to be: local, global
  for (const bool global : {true, false}) {
    std::vector<Cell> cells = {global ? "global" : "local"};
    const std::vector<float> queries = turned(global ? 8 : 0);  // of rank 2; the query is row 1
    for (Index rank = 0; rank < 4; ++rank) {
      const std::vector<float> keys = turned(global ? 4 * rank : 0);
      std::vector<double> score(4);
      for (std::size_t i = 0; i < 32; ++i) score[i / 8] += queries[8 + i % 8] * keys[i] / 8;
      for (const double s : score) at_distance_0[global] += s > 0.999;
      cells.push_back(numbers(score));
    }
    scores.add(cells);
  }
  //+
  page.answer(guess, at_distance_0[0]);
  page.table(scores);

  // Every rank believes that the text begins with its own rows. Nothing crashes, but every number of
  // ranks gives a different model. The cure is `global_position` above, which a rank knows by itself.
  //
  // ## The same model on 1, 2 and 4 ranks
  //
  // Two layers of width 32, on two sequences of 90 bytes, for one training step:
  //-
  const ModelShape shape = {
      .layers = 2, .width = 32, .num_heads = 4, .num_heads_kv = 2, .head_dim = 8, .hidden = 80};
  const ModelJob job{shape, 2, 90};  // two sequences
  Table same({"ranks", "partition", "loss", "largest difference of a gradient"});
  double same_off = 0;  // largest difference from one rank: of the loss (relative) and of gradients
  const auto step = [](ModelRank& rank) { rank.step(); };
  const auto alone = std::move(on_ranks(job, 1, step)[0]);
  same.row(1, "", fixed(alone->loss, 4), "");
  for (const int world_size : {2, 4})
    for (const PartitionKind partition : kAllPartitions) {
      const auto ranks = on_ranks({shape, 2, 90, partition}, world_size, step);
      double error = 0;
      for (const auto& rank : ranks) {
        keep_larger(error, largest_difference(rank->gradients(), alone->gradients()));
        keep_larger(error, std::abs(rank->loss / alone->loss - 1));
      }
      same.row(world_size, std::string(name_of(partition)), fixed(ranks[0]->loss, 4),
               rounding(error, 1e-6));
      keep_larger(same_off, error);
    }
  //+
  page.table(same);

  // ## All that is sent
  //
  // Let KV be a layer's K and V of all rows. In each layer all N ranks send (N - 1) KV forward and
  // (2N - 1) KV backward (lesson 10). Then they add up the gradients of the weights, of which each has a
  // copy, and the loss: these are sent 2 (N - 1) times (lesson 29).
  //-
  const Index kv = 2 * job.batch * job.seqlen * shape.num_heads_kv * shape.head_dim * 4;
  const Index gradients = (ModelWeights(shape).layout.size() + 1) * 4;
  const TrainingSettings training{shape, {}, job.batch, job.seqlen};
  RankCosts counted;  // of all ranks
  for (const RankCosts& rank :
       train_on_threads({training, {PartitionKind::contiguous, 4}, nullptr, 1}, ring_text())
           .ranks) {
    counted.forward_bytes += rank.forward_bytes;
    counted.backward_bytes += rank.backward_bytes;
    counted.reduction_bytes += rank.reduction_bytes;
  }
  const Index forward = shape.layers * 3 * kv, backward = shape.layers * 7 * kv;
  const Index all = forward + backward + 2 * 3 * gradients;
  Table sent({"bytes that four ranks send", "by formula", "counted"});
  sent.row("attention, forward", forward, counted.forward_bytes);
  sent.row("attention, backward", backward, counted.backward_bytes);
  sent.row("gradients of weights, and the loss", 2 * 3 * gradients, counted.reduction_bytes);
  sent.row("everything else", 0, counted.sent_bytes() - all);
  //+
  page.table(sent);

  // Here the weights weigh most. But KV grows with the text, and weights do not.
  //
  // This is a recorded step of two ranks, with one sequence of 256 bytes:
  //-
  const Deal zigzag{PartitionKind::zigzag, 2};
  const TrainingPlan plan{{shape, {}, 1, 256}, zigzag, nullptr, 3, /*recorded_step=*/3};
  //+
  page.trace(*train_on_threads(plan, ring_text()).recording,
             {{"The model's lane: layers forward, loss, layers backward, and the sum."},
              scene("Ranks meet only in a ring: K and V of the second layer.", 0),
              scene("Backward, gradients come home.", 1, -1, {}, Pass::backward)});

  // ## Checks
  page.equal("By local rows four keys seem to be at distance 0", at_distance_0[0], 4);
  page.equal("By global positions one is", at_distance_0[1], 1);
  page.at_most("Loss and gradients agree on all ranks and partitions", same_off, 1e-6);
  page.equal("Nothing else is sent", counted.sent_bytes(), all);

  // ## Exercise
  //
  // Turn a pair of numbers by the position of a local row, for a zigzag rank:
  // `lessons/16_context_parallel_model/exercise.h`. `./ringscope lesson 16 --check` compares the scores
  // of all pairs of rows, on one rank and on several.
}

}  // namespace ringscope::lessons::chapter_16
