// # Rank groups: split in four ways at once
// > Heads, rows, layers and batches can all be dealt out at the same time. A rank's number says
// > which part it has, and whom it must talk to.
//
// **You know** from lesson 14 a model whose rows are dealt out, with all of its weights on every
// rank. **You will see** three other ways to split it, one number that stands for all four, why
// some ranks should be neighbours, and a ring of ranks that have half of the heads each.
//
// ## Four axes
//
// The weights of a large model alone are too much for one rank, however few rows it has. A
// model is therefore split along up to four axes:
//
// - **TP**, *tensor parallel*: a rank has some of the heads, and their columns of the weights
// - **CP**, context parallel: some of the rows, as in all lessons so far
// - **PP**, pipeline: some of the layers; it passes its rows on to the next stage
// - **DP**, data: some of the sequences of a batch
//
// TP, CP, PP and DP also stand for the numbers of parts. Their product is the number of ranks, and a
// rank has an index along each axis: tp, cp, pp, dp. These four are like the digits of the rank's
// number, and tp is the last digit, which counts fastest:
//
//     rank = ((dp · PP + pp) · CP + cp) · TP + tp
#include <fmt/ranges.h>

#include "core/training/rank_groups.h"
#include "lessons/book/model_rank.h"

namespace ringscope::lessons::chapter_15 {
void lesson_15(Page& page) {
  const Guess index = page.predict("TP 2, CP 4, PP 2, DP 2: what is rank 21's index along CP?", "");

  // To get the indices back, divide the number by TP, the quotient by CP, and the next one by PP. The
  // remainders are tp, cp and pp, and the last quotient is dp.
  page.region("core/training/rank_groups.cpp", "indices");
  const RankGroups world({{2, 4, 2, 2}}, 32);  // TP, CP, PP, DP
  const PerAxis own = world.indices(21);
  page.answer(index, own[Axis::context]);

  // ## Groups
  //
  // Ranks that differ along one axis alone are a *rank group* of that axis. They have different
  // parts of the same thing, so they must talk. Rank 21 is in four groups:
  Table groups({"axis", "index of rank 21", "its group", "from one to the next"});
  const auto listed = [](const std::vector<int>& ranks) {
    return fmt::format("{}", fmt::join(ranks, ", "));
  };
  for (const Axis axis : kAllAxes) {
    const std::vector<int> group = world.members(21, axis);
    groups.row(std::string(name_of(axis)), own[axis], listed(group), group[1] - group[0]);
  }
  page.table(groups);
  Drawing grid;
  for (int node = 0; node < 4; ++node)
    grid.strip(fmt::format("node {}", node), Drawing::cells(8, [&](int place) {
                 const int rank = 8 * node + place;
                 int color = rank == 21 ? 6 : Drawing::kQuiet;
                 for (const Axis axis : kAllAxes)
                   if (rank != 21 && std::ranges::count(world.members(21, axis), rank) > 0)
                     color = static_cast<int>(axis);
                 return std::pair(color, rank);
               }));
  grid.key(6, "rank 21");
  for (const Axis axis : kAllAxes)
    grid.key(static_cast<int>(axis), std::string(name_of(axis)) + " group");
  page.picture("groups.svg", "Rank 21 and the ranks that it talks to, in nodes of eight", grid);

  // The distance from one member to the next is the product of the sizes of all axes that count
  // faster. Now let a node have eight ranks.
  page.predict("How many of the 16 pipeline groups lie on one node?", "groups",
               placement(world, Axis::pipeline, 8).inside);

  // ## Who needs the fast links
  //
  // Inside a node GPUs are joined by NVLink4, say, and nodes by InfiniBand NDR, which carries a ninth
  // of that, and therefore it matters who sends how much. A model has 32 layers of 4,096 numbers per row,
  // each with 32 query heads, 8 KV heads and an MLP of 14,336. With 32,768 tokens in f32 a rank sends this
  // in one training step. (x is what attention or MLP reads, y what it adds to, dx the gradient of x.)
  GroupJob job = {.shape = {1, 32, 8, 32768, 128}, .width = 4096, .layers = 32};
  job.sizes = world.sizes();
  const auto with_mlp = [](GroupTraffic all) {  // which sums y and dx as attention does
    all.tensor = {2 * all.tensor.times, 2 * all.tensor.bytes};
    all.gradients.bytes *= 1 + 3 * 14336 / (2 * (32 + 8) * 128.0);  // by the number of weights
    return all;
  };
  const GroupTraffic sent = with_mlp(group_traffic(job));
  Table talks(
      {"group", "what is sent", "times", "bytes", "meanwhile the rank", "groups on one node"});
  const auto row = [&](const char* who, const char* what, const Talk& talk, const char* meanwhile,
                       const std::vector<Axis>& axes) {
    const GroupPlacement lie = placement(world, axes, 8);
    talks.row(who, what, talk.times, bytes(talk.bytes), meanwhile,
              fmt::format("{} of {}", lie.inside, lie.inside + lie.crossing));
  };
  row("tensor", "sums of y, of dx", sent.tensor, "waits", {Axis::tensor});
  row("context", "hops of K, V, dK, dV", sent.context, "attends", {Axis::context});
  row("pipeline", "rows, or their dx", sent.pipeline, "computes other sequences", {Axis::pipeline});
  row("context × data", "a sum of gradients", sent.gradients, "computes earlier layers",
      kGradientAxes);
  page.table(talks);

  // Within the layers TP sends the most, and its sums can't hide, because what follows needs all of y. TP is
  // therefore the innermost axis. CP comes next: it also talks in every layer, but its hops travel while the rank
  // attends (lesson 12). PP and DP may be far apart, since what they send waits for nobody. If TP were
  // outermost, its groups would lie as those of data do above: all 16 across two nodes.
  //
  // ## Heads and rows at once
  //
  // Take TP 2 and CP 2, on four ranks. Each pair with the same heads forms a ring, so there are two
  // rings, which know nothing of each other. The output projection turns a rank's heads into a share
  // of y, for its rows, and the shares of a TP group add up to y. It is the attention of lesson 14 with
  // fewer heads and two sums over the TP group, one of them in the backward pass. The MLP is split by
  // its inner numbers and needs the same two sums:
  //
  //     forward      y  += sum of the group's layer(x)
  //     backward     dx  = sum of the group's dx
  //
  // `./ringscope train` splits a model over three of the axes; `--world-size` is CP:
  //
  //     ./ringscope train --text README.md --steps 3 --tensor 2 --world-size 2 --data 2
  //
  // It prints the losses of one rank. Lesson 14's model, three steps on one rank and on eight such ranks:
  //-
  const auto loss_of = [](const Deal& deal) {
    double loss = 0;
    train_on_threads({{small_model(), {}, 4, 64}, deal, nullptr, 3}, ring_text(),
                     [&](const StepReport& step, const TrainingRank&) { loss = step.loss; });
    return loss;
  };
  const double alone = loss_of({}), in_groups = loss_of({.world_size = 2, .tensor = 2, .data = 2});
  page.value("loss in step 3", numbers({alone, in_groups}, 3));

  // ## What grows and what shrinks
  page.predict("TP twice as large, CP half: by what factor does a block of the ring grow?", "", 1);

  // A block has half the heads, but twice the rows, so its size stays the same. There are fewer hops,
  // though, and larger sums. For one of the layers above, each of 32 ranks sends:
  Table ways({"TP", "CP", "block of a hop", "the ring", "sums over TP", "together"});
  job.layers = 1;
  std::vector<double> blocks, together;
  for (const int tensor : {1, 2, 4, 8}) {
    job.sizes = {{tensor, 32 / tensor, 1, 1}};
    const GroupTraffic each = with_mlp(group_traffic(job));
    blocks.push_back(ring_block_bytes(job));
    together.push_back(each.context.bytes + each.tensor.bytes);
    ways.row(tensor, 32 / tensor, bytes(blocks.back()), bytes(each.context.bytes),
             bytes(each.tensor.bytes), bytes(together.back()));
  }
  page.table(ways);

  // TP 2 sends the least; TP 1 has no sum to wait for. TP 16 is missing, because its groups would not
  // lie on a node of eight, and because K and V have only 8 heads here (lesson 10).
  //
  // ## Whose gradients are added up
  //
  // A rank's weights are also on all ranks with the same tp and pp. These have other rows or other
  // sequences, so gradients are added up over CP and DP together:
  const std::vector<int> same_weights = world.members(21, kGradientAxes);
  page.value("with the weights of rank 21", listed(same_weights));

  // Over DP alone, a gradient would be that of a quarter of the rows, and ranks of a CP group, whose
  // weights should be equal, would drift apart. (`./ringscope plan --tensor 2` shows other sizes.)
  //
  // ## On paper
  const RankGroups small({{4, 2, 2, 1}}, 16);
  page.predict("TP 4, CP 2, PP 2: which ranks are in the context group of rank 6?", "",
               listed(small.members(6, Axis::context)));
  page.predict("How many ranks have the same weights as rank 6?", "ranks",
               small.members(6, kGradientAxes).size());

  // ## Checks
  page.check("Data's 16 groups are each on two nodes",
             placement(world, Axis::data, 8) == GroupPlacement{0, 16});
  page.equal("NVLink4 is nine times as fast",
             find_link("NVLink4").bytes_per_s / find_link("InfiniBand-NDR").bytes_per_s, 9);
  page.check("Within the layers TP sends the most", sent.tensor.bytes > sent.context.bytes);
  page.check("Blocks keep their size", blocks == std::vector<double>(4, blocks[0]));
  page.check("TP 2 sends the least", *std::ranges::min_element(together) == together[1]);
  page.equal("No group of TP 16 lies on one node",
             placement(RankGroups({{16, 2, 1, 1}}, 32), Axis::tensor, 8).inside, 0);
  page.at_most("In groups ranks learn what one learns", std::abs(in_groups / alone - 1), 1e-4);

  // ## Exercise
  //
  // Compute a rank's index along an axis, and its group: `lessons/15_rank_groups/exercise.py`.
  // `./ringscope lesson 15 --check` asks all members of a group for it.
}

}  // namespace ringscope::lessons::chapter_15
