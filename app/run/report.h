// A run's numbers, as a table for people or as one JSON object for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/run/backend.h"
#include "core/attention/naive.h"
#include "core/base/fields.h"
#include "core/threads/run.h"
#include "core/tools/check/row_tolerance.h"
#include "core/trace/summary.h"

namespace ringscope {

// ---
// Verifies a run against the oracle: naive attention in f64 on the inputs as rounded to the run's
// dtype. The oracle works by blocks of rows, so that it works where a seqlen x seqlen matrix would
// not fit.
//
// Every row has a tolerance, which derives from the error of the same backend on a single rank and
// from what the row is made of. run.md has the formulas and their reasons (Verification).
//
// A sample of the query rows takes a fraction of the time. Then out, lse and dq are compared at
// these rows alone, and dk and dv are not compared, because every query adds to each of their rows.

// The distance of a tensor from its reference. A NaN or infinite element agrees only with the same
// value; one that disagrees makes both errors infinite. One that agrees is counted in non_finite
// and not in compared, because it proves little; except for -inf, the lse of a row without keys.
struct TensorError {
  double max_abs = 0;
  double rms = 0;  // root mean square of the finite elements' errors
  // |x - reference| / max(|reference|, a thousandth of the largest |reference|)
  double max_rel = 0;
  Index compared = 0;    // elements that are finite in the reference, or -inf in both
  Index non_finite = 0;  // elements that are NaN in both, or +inf in both
};

// Compare `values` with `reference`, element by element.
TensorError compare(const std::vector<double>& reference, const std::vector<float>& values);

struct TensorVerdict {
  Tensor tensor = Tensor::out;
  TensorError error{};
  WorstRow worst{};
  double one_rank_error = 0;
  double rms_tolerance = 0;  // infinite in f32

  bool pass() const { return error.compared > 0 && worst.passes() && error.rms <= rms_tolerance; }
};

struct Verdict {
  std::vector<TensorVerdict> tensors;
  Index query_rows = 0;  // compared, of each head
  Index seqlen = 0;      // query rows that each head has

  bool is_sample() const { return query_rows < seqlen; }

  bool pass() const;
  // Return one line on the first tensor that fails, or "" when all pass.
  std::string complaint() const;
};

// Draw `rows` of `seqlen` positions without replacement, ascending. Return none, which stands for
// all of them, if `rows` is not less than `seqlen`. Equal seeds give equal positions.
std::vector<Index> sampled_queries(Index seqlen, Index rows, std::uint64_t seed);

// The reference of one problem. It depends on neither partition, scheme nor world_size, so it
// serves every way to run that problem.
class Reference {
 public:
  // Compute the oracle, only for `queries` (ascending positions) if any are given, and the one-rank
  // runs with `runner`. `progress` is that of NaiveOptions. Throw as the runner does.
  Reference(const Problem& config, const AttentionInputs& inputs, const Runner& runner,
            const std::function<void(double)>& progress = {}, std::vector<Index> queries = {});

  Verdict judge(const AttentionOutputs& outputs) const;

 private:
  // What a tensor is judged by.
  struct Limits {
    Tensor tensor;
    std::vector<double> tolerances;  // by row
    double one_rank_error = 0, rms_tolerance = 0;
  };
  std::vector<float> rows_of(const AttentionOutputs& outputs, Tensor tensor) const;
  double largest_of_row(Tensor tensor, Index at) const;

  AttentionShape shape_;
  std::vector<Index> queries_;  // none: all
  NaiveResult<double> oracle_;
  std::vector<Limits> limits_;
};

// Return the most bytes that a Reference holds while it is made.
Index reference_bytes(const Problem& config);

// Explain for people where the tolerances for `dtype` come from.
std::string tolerance_source(DType dtype);

// ---
// The report.

// All numbers of a run.
struct Report {
  Problem config;
  std::string backend;
  std::string engine_notes;
  RunSummary summary;
  double wall_s = 0;
  std::vector<Fields> ranks = {};
  Index peak_bytes = 0;      // measured, of the rank with most
  Index dropped_events = 0;  // of all ranks
  double predicted_balance_ceiling = 1;
  std::string largest_loss;  // "" if there is none
  std::optional<Verdict> verdict;
};

Report make_report(const Problem& config, const RingRun& run, std::optional<Verdict> verdict);

// Return a table with one row per rank and the lines below it; the text ends with a newline.
std::string report_text(const Report& report);

// Return one JSON object and a newline. Numbers that JSON lacks (NaN, infinities) are null.
std::string report_json(const Report& report);

}  // namespace ringscope
