// Judges given attention outputs: exact to f32's rounding, as good as 16 bits can be, or wrong. Each
// row has a tolerance, which comes from the format and from what the row is made of alone, because the
// code that made the outputs is not here to be run on a single rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tools/check/mistakes.h"
#include "core/tools/check/row_tolerance.h"

namespace ringscope {

struct Suspect {
  Mistake mistake = Mistake::scale;
  int rank = -1;  // the one whose rows it explains; -1: several
  // What it explains: 1 - (distance of the numbers to the mistake's / to the right ones). A guess has
  // less than half of that, and 0 where nothing is explained.
  double confidence = 0;
  std::string how;     // "the block of owner 2 is missing", a clause for people
  std::string mask{};  // of a wrong mask: the one that fits

  bool is_sure() const;
};

// Whatever leaves more than rounding, or can't be told from another mistake, is a guess.
inline constexpr double kSure = 0.5;
inline bool Suspect::is_sure() const { return confidence >= kSure; }

struct DiagnosisOptions {
  int threads = 1;
  DType dtype = DType::f32;  // of the given numbers' computation
  std::vector<double> rope_bases = {10000};
  std::vector<Index> rows;  // ascending positions of the query rows to look at; empty: all
  std::function<void(double)> progress = {};  // share of the search done; by any thread
};

enum class CheckResult { exact, rounding, wrong };

constexpr std::string_view name_of(CheckResult result) {
  constexpr std::string_view names[] = {"exact", "rounding", "wrong"};
  return names[static_cast<int>(result)];
}

// A tensor's distance from the oracle. A NaN or infinity agrees with the same value alone; one that
// disagrees makes the distances infinite.
struct TensorCheck {
  Tensor tensor = Tensor::out;
  double max_abs = 0, rms = 0, right_rms = 0;
  WorstRow worst{};
  double rms_tolerance = 0;
  bool is_exact = true;  // to the rounding of f32, in every row
  Index disagreeing_non_finite = 0;
  Index wrong_rows = 0, first_wrong_row = -1, last_wrong_row = -1;  // by position, of all heads
  std::vector<int> wrong_ranks{};                                   // that hold them
  // The largest error as a multiple of what rounding in f32 explains, and the 16-bit type in which
  // the tensor is right, if all its values are stored in one.
  double times_f32 = 0;
  std::optional<DType> right_in{};

  std::string_view name() const { return name_of(tensor); }
  bool passes() const { return is_exact || (worst.passes() && rms <= rms_tolerance); }
};

// Where a tensor is wrong: the root mean squares of its errors.
struct ErrorMap {
  std::string tensor;
  std::vector<std::vector<double>> by_rank_and_chunk;  // a rank's lower and upper half of rows
  std::vector<double> by_head;                         // heads of all batch entries
};

struct CheckVerdict {
  CheckResult result = CheckResult::exact;
  std::vector<TensorCheck> tensors;
  std::vector<ErrorMap> maps;     // of the same
  std::vector<Suspect> suspects;  // only if wrong
};

// Judge `mine` by the tolerances of app/check/check.md, and look for the mistake if it is wrong.
// Tensors that `mine` lacks are empty.
CheckVerdict check_outputs(const CheckedProblem& problem, const CheckedInputs& inputs,
                           const NaiveResult<double>& oracle, const NaiveResult<double>& mine,
                           const DiagnosisOptions& options);

// Return a map's numbers as a table for people, after an empty line.
std::string map_text(const ErrorMap& map);

}  // namespace ringscope
