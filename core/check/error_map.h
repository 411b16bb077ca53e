// Where outputs are wrong: by the rank and chunk that hold a row, by head, and by the ring step
// whose block the error points to.
#pragma once

#include <string>
#include <vector>

#include "core/check/verdict.h"

namespace ringscope {

// Root mean squares of a tensor's errors.
struct ErrorMap {
  std::string tensor;
  std::vector<std::vector<double>> by_rank_and_chunk;  // a rank's lower and upper half of rows
  std::vector<double> by_head;                         // heads of all batch entries
  // The same by rank and chunk (a row each) and head (a column), over the tolerance.
  std::vector<std::vector<double>> cells;
  // Of out alone: the share of a rank's squared error that lies in the direction in which the block
  // of a step moves the output. A block that is missing or doubled has 1.
  std::vector<std::vector<double>> by_rank_and_step;
};

std::vector<ErrorMap> error_maps(const CheckedProblem& problem, const CheckedInputs& inputs,
                                 const NaiveResult<double>& oracle, const NaiveResult<double>& mine,
                                 const CheckVerdict& verdict, const DiagnosisOptions& options);

}  // namespace ringscope
