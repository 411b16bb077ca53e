// Finds the mistake behind wrong attention outputs by trying: each known mistake is made in f64 for
// a sample of the rows, and the one whose numbers are nearest to the given ones is the likely one.
// How sure that is, is the share of the error that the mistake explains.
#pragma once

#include <string>
#include <vector>

#include "core/check/mistakes.h"

namespace ringscope {

struct Suspect {
  Mistake mistake = Mistake::scale;
  int rank = -1;          // the one whose rows it explains; -1: several
  double confidence = 0;  // 1 - (distance of the numbers to the mistake's / to the right ones)
  std::string how;        // "the block of owner 2 is missing", a clause for people
};

struct DiagnosisOptions {
  int threads = 1;
  DType dtype = DType::f32;  // of the given numbers' computation
  std::vector<double> rope_bases = {10000};
  std::vector<double> q_unrotated, k_unrotated;  // they choose among the bases
};

// Return the mistakes that explain how `mine` differs from `oracle`, the likeliest first, each kind
// once. Tensors that `mine` lacks are empty. `wrong` names the tensors that don't pass: out, lse,
// dq, dk or dv. When out or lse is among them, the gradients are left aside, because they follow.
std::vector<Suspect> diagnose(const CheckedProblem& problem, const CheckedInputs& inputs,
                              const NaiveResult<double>& oracle, const NaiveResult<double>& mine,
                              const std::vector<std::string>& wrong,
                              const DiagnosisOptions& options);

// Return the suspicion that the accumulator was rounded at every hop, or none. It sees this in
// outputs whose every element is as near to the oracle as 16 bits can be: the roundings of the hops
// leave a pattern that the rounding of the result alone does not have.
std::vector<Suspect> find_hop_rounding(const CheckedProblem& problem, const CheckedInputs& inputs,
                                       const NaiveResult<double>& oracle,
                                       const NaiveResult<double>& mine,
                                       const DiagnosisOptions& options);

// Return, by rank and step, the share of the squared error of a sample of out's rows that lies in
// the direction in which the step's block moves the output.
std::vector<std::vector<double>> error_by_step(const CheckedProblem& problem,
                                               const CheckedInputs& inputs,
                                               const NaiveResult<double>& oracle,
                                               const NaiveResult<double>& mine,
                                               const DiagnosisOptions& options);

}  // namespace ringscope
