// The mistakes that context-parallel attention is made with, by name, and a ring that makes them. One
// table (hypotheses.h) says what a ring with a mistake gives; make_mistake() carries a row of it out
// on all rows, and a check tries all of it on a sample of rows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "core/attention/naive.h"
#include "core/base/dtype.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/problem/shape.h"
#include "core/ring/problem.h"
#include "core/threads/rows.h"

namespace ringscope {

enum class Mistake {
  rows_of_other_rank,  // rows lie at places of other rows: another rank's, or another deal's
  rope_positions,      // rotary angles of the positions of another deal
  merge_without_max,   // partial results are merged as if they had one row maximum
  merge_sign,          // the sigmoid of a merge has the wrong sign
  not_normalised,      // out is not divided by the row sum
  lse_in_log2,         // an lse in units of log 2 where a natural one belongs, or the other way
  masked_block_nan,    // a block without an allowed key is divided by its sum of weights, 0
  rounds_each_hop,     // the accumulator is rounded to 16 bits at every hop
  missing_block,       // a KV block is not attended
  doubled_block,       // a KV block is attended twice
  own_block_only,      // no block but the rank's own is attended
  own_block_unmasked,  // the rank's own block is attended without the mask
  wrong_zigzag_half,   // of a zigzag deal's two chunks the wrong one is attended, or attends
  wrong_neighbour,     // blocks come from the next rank, and are taken for those of the other
  k_and_v_of_different_steps,  // V is that of the step before or after
  rows_dropped,                // rows are zeros, or are neither attended nor attend
  scale,                       // another softmax scale
  wrong_mask,                  // another mask
  mask_off_by_one,             // an end of the mask is one position away
  causal_in_local_order,       // the causal mask compares local rows instead of positions
  kv_head_mapping,             // query head h reads kv head h mod G instead of h / group
  first_head_of_group,         // of the query heads that share a kv head the first stands for all
  lse_axes_swapped,            // blocks are merged by lse of [seqlen, heads] for [heads, seqlen]
  mask_in_dealt_order,         // the mask of a query is that of its place among the ranks' rows
  keys_never_rotate,           // the ranks of a hybrid meet the keys of their own group alone
  sink_counted_per_rank,       // a learned sink is counted with every block
  merge_without_weights,  // blocks' outputs are added up, or averaged, as if all weighed the same
  // Those that follow are made in the backward pass.
  mean_instead_of_sum,     // parts are averaged where they are to be added
  gradient_one_hop_short,  // dK and dV stop one hop before their owner
  dk_last_share_only,      // dK, or dK and dV, hold the last rank's share instead of the sum
  delta_missing,           // dS lacks rowsum(dO * O)
  unequal_shards,          // ranks with unequal numbers of rows have equal weight in the loss
  local_statistics,        // every step takes the out or lse of its own block for those of all
  heads_and_rows_swapped,  // [seqlen, heads] taken for [heads, seqlen]
  sum_instead_of_mean,     // gradients are too large by a number of ranks, heads or tokens
  // Those that no ring makes when it is asked to.
  sink_missing,  // a constant in every sum of a head is there without the other side's knowing of it
  sink_in_values,       // the weight of a learned sink multiplies a value
  value_width_of_keys,  // rows of V are taken for as wide as those of K
  wrong_q_offset,       // fewer queries than keys stand at other positions
  softcap,              // scores are capped
  index_overflow,       // positions are counted in 16 bits
  overwritten,          // half of a tensor holds something else
  wrong_factor          // a factor of a whole tensor that has no name
};

// For people: a mistake's name, a sentence on what it does, and one on how to verify it.
struct MistakeFacts {
  std::string_view name;
  const char* explanation;
};
const MistakeFacts& facts_of(Mistake mistake);

// The mistakes that a ring makes when it is asked to.
inline constexpr auto kRingMistakes = [] {
  std::array<Mistake, static_cast<std::size_t>(Mistake::sum_instead_of_mean) + 1> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Mistake>(i);
  return all;
}();

inline std::string_view name_of(Mistake mistake) { return facts_of(mistake).name; }

// Return whether a ring makes the mistake in its backward pass alone when it is asked to.
constexpr bool is_of_gradients(Mistake mistake) {
  return mistake >= Mistake::mean_instead_of_sum || mistake == Mistake::first_head_of_group;
}

// An attention problem whose answer is in question, and the partition that computed it.
struct CheckedProblem {
  AttentionShape shape;
  MaskSpec mask;
  double softmax_scale = 1;
  Partitions partition;
  std::vector<float> sink_logits = {};  // as in Problem, and the next one
  double softcap = 0;
};

// Tensors as in naive.h. An empty dout stands for a forward pass alone.
struct CheckedInputs {
  std::vector<double> q, k, v, dout;
};

// Return the problem of `config`, and the inputs as its dtype stores them; dO is ones if none is
// given, and empty without a backward pass.
inline CheckedProblem checked_problem(const Problem& config) {
  return {config.shape,        config.mask,        config.scale(),
          config.partitions(), config.sink_logits, config.softcap};
}
CheckedInputs stored_inputs(const Problem& config, const AttentionInputs& inputs);

// Return naive attention in f64, with the bounds of its rows. With options.queries, those rows alone,
// one after the other.
NaiveResult<double> oracle_of(const CheckedProblem& problem, const CheckedInputs& inputs,
                              NaiveOptions options);

// Return a value, or values, as `dtype` stores them.
inline double stored_as(DType dtype, double value) {
  return static_cast<double>(round_to(dtype, static_cast<float>(value)));
}

inline std::vector<double> stored_as(DType dtype, std::vector<double> values) {
  for (double& x : values) x = stored_as(dtype, x);
  return values;
}

// Return whether `dtype` holds every value that is finite.
inline bool is_stored_in(DType dtype, const std::vector<double>& values) {
  return std::ranges::all_of(
      values, [&](double x) { return !std::isfinite(x) || stored_as(dtype, x) == x; });
}

// A ring that makes a mistake, on all ranks (-1) or on one.
struct MistakenRing {
  std::optional<Mistake> mistake;  // none: a correct ring
  int rank = -1;
};

// Return what a ring of problem.partition's ranks computes in f64 while it makes the mistake in the
// first way that the table has for it: out, lse, and the gradients if there is a dout. A problem that
// can't show the mistake, such as one without groups of heads, gives what is right.
NaiveResult<double> make_mistake(const CheckedProblem& problem, const CheckedInputs& inputs,
                                 const MistakenRing& ring);

}  // namespace ringscope
