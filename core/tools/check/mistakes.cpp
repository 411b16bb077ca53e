// The names of the mistakes, what people are told of them, and small things that the check shares.
#include "core/tools/check/mistakes.h"

namespace ringscope {

const MistakeFacts& facts_of(Mistake mistake) {
  static constexpr MistakeFacts kFacts[] = {
      {"rows-of-other-rank",
       "Rows lie at places of another rank or deal. Print the positions that each rank "
       "believes it holds, and compare them with the partition."},
      {"rope-positions",
       "Rotary angles were taken at positions of another deal. Give every rank the global "
       "positions of its own rows, and compare Q after rotation with a single device's."},
      {"merge-without-max",
       "Partial results are merged without bringing them to one row maximum. Check that both"
       " the accumulator and row_sum are multiplied by exp(m_old - m_new)."},
      {"merge-sign",
       "A merge by sigmoids has a sign wrong. It is out - sigmoid(block_lse - lse) x "
       "(out - block_out), and then lse - logsigmoid(lse - block_lse)."},
      {"not-normalised",
       "The output is not divided by the row sum. Make all of V ones: every element of a right "
       "output is then 1."},
      {"lse-in-log2",
       "An lse is in units of log 2, or is taken for one. Look at a row with one key, whose lse is "
       "its score."},
      {"masked-block-nan",
       "A block without an allowed key is divided by its row sum, 0. Leave such blocks out, or "
       "merge them only where the row sum is above 0."},
      {"rounds-each-hop",
       "The accumulator is rounded to 16 bits at every hop. Keep it in f32 until the last "
       "step; the error then no longer grows with the number of ranks."},
      {"missing-block",
       "A KV block is not attended. Log the owner of each block that a rank attends; every "
       "owner has to occur once."},
      {"doubled-block",
       "A KV block is attended twice. Log the owner of each block that a rank attends; every"
       " owner has to occur once."},
      {"own-block-only",
       "Ranks attend their own block alone. Check that the steps after the first are merged "
       "into the output, and that blocks travel at all."},
      {"own-block-unmasked",
       "The own block is attended without the mask. The first step of a ring is the one that "
       "needs a causal kernel; look at which step passes causal=True."},
      {"wrong-zigzag-half",
       "Of the two chunks of a zigzag deal the wrong one is taken. For a block of a lower rank all "
       "queries attend its first chunk; for one of a higher rank the second chunk of queries "
       "attends all of it."},
      {"wrong-neighbour",
       "Blocks come from the other neighbour. Send a rank's number along with its block, and "
       "compare it with (rank - step) mod N at every step."},
      {"k-and-v-of-different-steps",
       "K and V come from different steps. Send them as one block, or wait for both receives; "
       "copying V before it is attended shows whether it is overwritten too early."},
      {"rows-dropped",
       "Rows are left out: they stay zeros, or the last ones, which the ranks don't divide, are "
       "neither attended nor attend. Add up the rows of all ranks."},
      {"scale",
       "Another softmax scale was used. Pass the scale explicitly, and look for a kernel "
       "that multiplies by it or by log2(e) a second time."},
      {"wrong-mask",
       "Another mask was applied than the one that the check was told. Print what each attention "
       "call is given: causal, window, and cu_seqlens with its first 0 and its last end."},
      {"mask-off-by-one",
       "The mask ends one position away. Check a row at the edge by hand: is the key at its "
       "own position allowed, and how many keys does its window hold?"},
      {"causal-in-local-order",
       "The causal mask compares local rows. Compare global positions in every block; a "
       "block of lower positions is allowed whole, one of higher positions not at all."},
      {"kv-head-mapping",
       "Query heads read the wrong key head. Head h reads h / (heads / heads_kv); repeat "
       "each kv head with repeat_interleave, not with repeat."},
      {"first-head-of-group",
       "Of the query heads that share a kv head the first stands for all. Sum the gradients of "
       "repeated heads over the group."},
      {"lse-axes-swapped",
       "An lse of [seqlen, heads] is taken for [heads, seqlen]. Print its shape where two blocks "
       "are merged, with unequal numbers of heads and rows."},
      {"mask-in-dealt-order",
       "A mask compares places in the dealt order. Give it the global positions of the queries and "
       "of the keys, or put both in the order of the sequence first."},
      {"keys-never-rotate",
       "Ranks of a hybrid meet the keys of their own group alone. Log the owner of each block that "
       "a rank attends; the ring between groups has to bring all."},
      {"sink-counted-per-rank",
       "A learned sink is counted with every block. Add exp(sink) to the row sum once, on one rank "
       "or after the last step."},
      {"merge-without-weights",
       "Outputs of blocks are added up, or averaged, as if all weighed the same. Merge each by "
       "exp(block_lse - lse), or carry row_max and row_sum from block to block."},
      {"mean-instead-of-sum",
       "Parts are averaged where they are to be added. Look for an all-reduce with the mean,"
       " or a division by the number of ranks or heads."},
      {"gradient-one-hop-short",
       "dK and dV travel one hop too few. They make N hops, one more than the blocks, and "
       "the last one brings them home; count the sends of the backward pass."},
      {"dk-last-share-only",
       "A travelling gradient is overwritten where a share is to be added. Look for = in place of "
       "+= at the step that receives it."},
      {"delta-missing",
       "dS lacks rowsum(dO * O), the term that the normalisation brings. Compute it from the final "
       "output before the first step of the backward pass."},
      {"unequal-shards",
       "Ranks with unequal numbers of rows have equal weight in the loss. Divide each rank's sum "
       "by the number of all rows, not by its own."},
      {"local-statistics",
       "A step of the backward pass takes its own block's out or lse. Pass every step the merged "
       "out and lse of the whole row, which the weights and rowsum(dO * O) need."},
      {"heads-and-rows-swapped",
       "Heads and rows have changed places: [seqlen, heads] is taken for [heads, seqlen]. Use "
       "unequal numbers of them, so that shapes complain."},
      {"sum-instead-of-mean",
       "Gradients are too large by a number of ranks, heads or tokens. Look for a division that "
       "doesn't happen, or for a sum over ranks that hold the whole already."},
      {"sink-missing",
       "Every row sum of a head has a constant besides its keys, as a learned sink gives, or lacks "
       "the one of your model. Compare with attention that has the sink, or has none; look what "
       "joins the sum."},
      {"sink-in-values",
       "The weight of a learned sink multiplies a value. It joins the row's sum and no value: drop "
       "its column of the weights, after the softmax, before they meet V."},
      {"value-width-of-keys",
       "Rows of V are taken for as wide as those of K. Give V, the output and its gradient strides "
       "of their own, and look where head_dim stands for both."},
      {"wrong-q-offset",
       "Fewer queries than keys stand at other positions than they should. Query i is at seqlen_k "
       "- "
       "seqlen_q + i, unless you say otherwise; look which corner your kernel's mask begins in."},
      {"softcap",
       "Scores are capped by cap x tanh(score / cap), or should be and are not, or by another cap, "
       "or dS lacks its slope. Compare with --softcap and without it."},
      {"index-overflow",
       "Positions wrap or end at 2^15 or 2^16. Look for 16-bit indices, and for a limit on the "
       "rows of a launch."},
      {"overwritten",
       "Half of a tensor holds something else. Look for two tensors in one buffer, and for a copy "
       "that ends in the wrong half."},
      {"wrong-factor",
       "A tensor is right but for a factor. Divide it by the right one, and look where that number "
       "comes from."},
  };
  return kFacts[static_cast<int>(mistake)];
}

CheckedInputs stored_inputs(const Problem& config, const AttentionInputs& inputs) {
  const auto stored = [&](const std::vector<float>& values) {
    return stored_as(config.dtype, {values.begin(), values.end()});
  };
  CheckedInputs all{stored(inputs.q), stored(inputs.k), stored(inputs.v), {}};
  const auto of_out = static_cast<std::size_t>(out_values(config.shape, config.shape.queries()));
  if (config.backward)
    all.dout = inputs.dout.empty() ? std::vector<double>(of_out, 1.0) : stored(inputs.dout);
  return all;
}

NaiveResult<double> oracle_of(const CheckedProblem& problem, const CheckedInputs& inputs,
                              NaiveOptions options) {
  const AttentionShape& shape = problem.shape;
  options.with_bounds = true;
  options.softcap = problem.softcap;
  if (!problem.sink_logits.empty()) options.sink_logits = problem.sink_logits.data();
  return naive_attention<double>(shape, problem.mask.for_seqlen(shape.seqlen),
                                 problem.softmax_scale, inputs.q.data(), inputs.k.data(),
                                 inputs.v.data(),
                                 inputs.dout.empty() ? nullptr : inputs.dout.data(), options);
}

}  // namespace ringscope
