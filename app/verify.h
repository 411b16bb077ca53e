// Is the answer right? A run is compared with the oracle: naive attention in f64 on the inputs as
// rounded to the run's dtype, by blocks of rows, so that it works where a seqlen x seqlen matrix
// would not fit.
//
// The tolerance is made from what the same kernel does on a single rank, because a ring may add
// rounding but no more than that, whatever its world_size:
//
//     f32:        2 x (error of one rank) + 1e-6
//     bf16, f16:  2 x (error of one rank) + 2e-3
//
// and, because one rank may be wrong as well, never more than a cap of 1e-3 (f32), 1e-2 (f16) or
// 5e-2 (bf16) times the largest value of the tensor (or 1, if that is more).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/attention/naive.h"
#include "core/ring/run.h"

namespace ringscope {

// How far a tensor is from its reference. An element that is NaN or infinite agrees only with the
// same; one that disagrees makes both errors infinite.
struct TensorError {
  double max_abs = 0;
  // |x - reference| / max(|reference|, a thousandth of the largest |reference|)
  double max_rel = 0;
};

// `values` against `reference`, element by element.
TensorError compare(const std::vector<double>& reference, const std::vector<float>& values);

struct TensorVerdict {
  std::string_view name;  // out, lse, dq, dk or dv
  TensorError error;
  double tolerance = 0;  // on max_abs
  double one_rank_error = 0;
  double cap = 0;

  bool pass() const { return error.max_abs <= tolerance; }
};

struct Verdict {
  std::vector<TensorVerdict> tensors;

  bool pass() const;
  // One line on the first tensor that fails; empty when all pass.
  std::string complaint() const;
};

// What outputs of one problem are compared with. It depends on neither partition, scheme nor
// world_size, so one reference serves every way to deal the same problem out.
class Reference {
 public:
  // Computes the oracle and the one-rank run. `progress` as NaiveOptions'. Throws as run_on_threads
  // does.
  Reference(const RingConfig& config, const AttentionInputs& inputs,
            const std::function<void(double)>& progress = {});

  Verdict judge(const AttentionOutputs& outputs) const;

 private:
  DType dtype_;
  NaiveResult<double> oracle_;
  std::vector<double> one_rank_errors_;  // in the order of Verdict::tensors
};

// Bytes that a Reference holds at most while it is made.
Index reference_bytes(const RingConfig& config);

// Where the tolerances for `dtype` come from, for people.
std::string tolerance_source(DType dtype);

}  // namespace ringscope
