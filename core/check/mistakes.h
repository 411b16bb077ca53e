// The mistakes that context-parallel attention is made with, by name, and a ring that makes them.
// Whoever looks for a mistake in given numbers (diagnosis.cpp) shares the names with this ring and
// nothing else, so that each can test the other.
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
#include "core/run/rows.h"

namespace ringscope {

enum class Mistake {
  rows_of_other_rank,      // a rank's rows are those of another rank's chunk, or of another deal
  rope_positions,          // rotary angles of the positions of another deal
  merge_without_max,       // partial results are merged as if they had one row maximum
  rounds_each_hop,         // the accumulator is rounded to 16 bits at every hop
  missing_block,           // a KV block is not attended
  doubled_block,           // a KV block is attended twice
  scale,                   // another softmax scale
  mask_off_by_one,         // an end of the mask is one position away
  causal_in_local_order,   // the causal mask compares local rows instead of positions
  kv_head_mapping,         // query head h reads kv head h mod G instead of h / group
  gradient_one_hop_short,  // dK and dV stop one hop before their owner
  mean_instead_of_sum,     // parts are averaged where they are to be added
  // A check names none of those that follow; lessons/zoo.md says what each is known by.
  window_dropped,    // the mask's window is not applied
  rows_dropped,      // the rows that the number of ranks doesn't divide are left out
  masked_block_nan,  // a block without an allowed key is divided by its sum of weights, 0
  unequal_shards,    // ranks with unequal numbers of rows have equal weight in the loss
  lse_in_log2,       // blocks' lse is in units of log 2, and is merged as a natural logarithm
  wrong_neighbour,   // blocks come from the next rank, and are taken for those of the rank before
  stale_values       // V of the next step's block has already replaced this step's
};

// What there is to know of a mistake: its name, in how many ways make_mistake() can make it, and for
// people, if a check names it, a sentence on what it does and one on how to verify it.
struct MistakeFacts {
  std::string_view name;
  int variants;
  const char* explanation;
};
const MistakeFacts& facts_of(Mistake mistake);

inline constexpr auto kAllMistakes = [] {
  std::array<Mistake, static_cast<std::size_t>(Mistake::stale_values) + 1> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Mistake>(i);
  return all;
}();

inline std::string_view name_of(Mistake mistake) { return facts_of(mistake).name; }

// An attention problem whose answer is in question, and the partition that computed it.
struct CheckedProblem {
  AttentionShape shape;
  MaskSpec mask;
  double softmax_scale = 1;
  Partition partition;
};

// Tensors as in naive.h. An empty dout stands for a forward pass alone.
struct CheckedInputs {
  std::vector<double> q, k, v, dout;
};

// Return the problem of `config`, and the inputs as its dtype stores them; dO is ones if none is
// given, and empty without a backward pass.
inline CheckedProblem checked_problem(const Problem& config) {
  return {config.shape, config.mask, config.scale(), config.partition_of_sequence()};
}
CheckedInputs stored_inputs(const Problem& config, const AttentionInputs& inputs);

// Return naive attention in f64.
NaiveResult<double> oracle_of(const CheckedProblem& problem, const CheckedInputs& inputs,
                              const NaiveOptions& options);

// Return the largest norm of the rows of `width` values that are finite throughout.
double largest_row_norm(const std::vector<double>& values, Index width);

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
  return std::all_of(values.begin(), values.end(),
                     [&](double x) { return !std::isfinite(x) || stored_as(dtype, x) == x; });
}

// How the two halves of a rotary pair lie in a row: (x, x + D/2) or (2x, 2x + 1).
enum class RopePairs { halves, neighbours };

// Turn a row of `head_dim` values by the rotary angles of `position`, which may be negative and
// then turns back: pair x by position / base^(2x / head_dim).
void rotate_row(double* row, Index head_dim, double position, double base, RopePairs pairs);

// What a mistaken ring does. The rank that a mistake strikes is -1 for all ranks.
struct MistakenRing {
  std::optional<Mistake> mistake;  // none: a correct ring
  int rank = -1;
  int owner = 0;                    // missing_block, doubled_block
  int variant = 0;                  // of the ways to make the mistake, from 0
  double factor = 2;                // scale
  DType hop_dtype = DType::bf16;    // rounds_each_hop
  DType weight_dtype = DType::f32;  // of softmax weights in products, as tensor cores take them
  double rope_base = 10000;
};

// Return what a ring of problem.partition's ranks computes in f64 while it makes the mistake:
// out, lse, and the gradients if there is a dout. rope_positions takes q and k as turned by their
// true positions and turns them on to wrong ones.
NaiveResult<double> make_mistake(const CheckedProblem& problem, const CheckedInputs& inputs,
                                 const MistakenRing& ring);

}  // namespace ringscope
