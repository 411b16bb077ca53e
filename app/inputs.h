// Q, K, V and dO, from wherever the options say. First their sizes alone, from files' headers and
// lengths, so that what cannot be is refused before anything is read or allocated; then the values.
#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "core/ring/run.h"

namespace ringscope {

// What is known of the inputs before they are read.
struct InputPlan {
  AttentionShape shape;
  bool all_f64 = false;            // every file holds float64, so outputs do too
  std::vector<std::string> files;  // to be read
};

// Throws InputError naming flag, file, value and what would be accepted.
InputPlan plan_inputs(const RunOptions& options);

// Reads or makes the values. Throws as plan_inputs, and RunError when reading fails.
AttentionInputs load_inputs(const RunOptions& options, const InputPlan& plan);

// One line for each tensor that holds NaN or infinite values, or finite ones that overflow in
// `dtype`. They are computed with as IEEE 754 says.
std::vector<std::string> non_finite_report(const AttentionInputs& inputs, DType dtype);

}  // namespace ringscope
