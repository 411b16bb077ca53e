// Is the answer right? A run is compared with the oracle: naive attention in f64 on the inputs as
// rounded to the run's dtype, by blocks of rows, so that it works where a seqlen x seqlen matrix
// would not fit.
//
// The tolerance is made from what the same backend does on a single rank, because a ring may add
// rounding but no more than that, whatever its world_size:
//
//     f32:        2 x (error of one rank) + 1e-6 x max(1, largest |reference|)
//     bf16, f16:  2 x (error of one rank) + 2e-3
//
// The largest error of a run is partly luck, so one rank computes twice, the second time with the
// coordinates of every row in reverse order (the same problem, rounded differently); the larger
// error counts. And, because one rank may be wrong as well, the tolerance is never more than a cap:
//
//     c x max(1, B / 1000) x max(1, largest |reference|),   c = 1e-3 (f32), 1e-2 (f16), 5e-2 (bf16)
//
// where B = |scale| x (largest row norm of Q) x (largest row norm of K) bounds every |score|: f32
// loses a digit of a score for every digit that it grows. For out, c x max(1, B / 1000) counts as
// 0.25 at most: an output that is further off says nothing, whatever the scores.
//
// A sample of the query rows takes a share of the time: out, lse and dq are compared at these rows
// alone. dk and dv are not compared then, because every query adds to each of their rows.
#pragma once

#include <cstdint>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/run/backend.h"
#include "core/attention/naive.h"
#include "core/run/run.h"

namespace ringscope {

// How far a tensor is from its reference. An element that is NaN or infinite agrees only with the
// same; one that disagrees makes both errors infinite. A NaN or an infinity that agrees is counted,
// but proves little: it is no comparison.
struct TensorError {
  double max_abs = 0;
  // |x - reference| / max(|reference|, a thousandth of the largest |reference|)
  double max_rel = 0;
  Index compared = 0;    // elements that are finite in the reference
  Index non_finite = 0;  // elements that are NaN in both, or the same infinity in both
};

// `values` against `reference`, element by element.
TensorError compare(const std::vector<double>& reference, const std::vector<float>& values);

struct TensorVerdict {
  std::string_view name;  // out, lse, dq, dk or dv
  TensorError error;
  double tolerance = 0;  // on max_abs
  double one_rank_error = 0;
  double cap = 0;

  bool pass() const { return error.compared > 0 && error.max_abs <= tolerance; }
};

struct Verdict {
  std::vector<TensorVerdict> tensors;
  Index query_rows = 0;  // of each head, compared
  Index seqlen = 0;      // query rows that each head has

  bool is_sample() const { return query_rows < seqlen; }

  bool pass() const;
  // One line on the first tensor that fails; empty when all pass.
  std::string complaint() const;
};

// Draws `rows` of `seqlen` positions without replacement, ascending. Returns none, which stands for
// all of them, where `rows` is not less than `seqlen`. Equal seeds give equal positions.
std::vector<Index> sampled_queries(Index seqlen, Index rows, std::uint64_t seed);

// What outputs of one problem are compared with. It depends on neither partition, scheme nor
// world_size, so one reference serves every way to deal the same problem out.
class Reference {
 public:
  // Computes the oracle, for `queries` alone where they are given (ascending positions), and with
  // `runner` the one-rank runs. `progress` as NaiveOptions'. Throws as the runner does.
  Reference(const RingConfig& config, const AttentionInputs& inputs, const Runner& runner,
            const std::function<void(double)>& progress = {}, std::vector<Index> queries = {});

  Verdict judge(const AttentionOutputs& outputs) const;

 private:
  DType dtype_;
  Index seqlen_;
  std::vector<Index> queries_;  // none: all
  double score_bound_ = 0;      // B
  NaiveResult<double> oracle_;
  std::vector<double> one_rank_errors_;  // in the order of Verdict::tensors
};

// Bytes that a Reference holds at most while it is made.
Index reference_bytes(const RingConfig& config);

// Where the tolerances for `dtype` come from, for people.
std::string tolerance_source(DType dtype);

}  // namespace ringscope
