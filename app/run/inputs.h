// Q, K, V and dO, from wherever the options say. First their sizes alone, from files' headers and
// lengths, so that what cannot be is refused before anything is read or allocated; then the values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/command_line/options.h"
#include "core/run/rows.h"

namespace ringscope {

// What is known of the inputs before they are read.
struct InputPlan {
  AttentionShape shape;
  bool all_f64 = false;            // every file holds float64, so outputs do too
  std::vector<std::string> files;  // to be read
};

// Throws InputError naming flag, file, value and what would be accepted.
InputPlan plan_inputs(const RunOptions& options);

// The values, and a line about each file with NaN or infinite ones, or with finite ones that are
// too large for the run's dtype. They are computed with as IEEE 754 says. Without remarks, every
// value is finite.
struct LoadedInputs {
  AttentionInputs tensors;
  std::vector<std::string> remarks;
};

// Reads or makes the values. Throws as plan_inputs, and RunError when memory does not suffice.
LoadedInputs load_inputs(const RunOptions& options, const InputPlan& plan);

// For ranks that make their own rows instead: whether they can, as nothing but a text is read.
bool can_be_generated(const RunOptions& options);
// The bytes of --text that are tokens; "" for --random. Throws InputError that names the file.
std::string text_of(const RunOptions& options, const InputPlan& plan);
// The rows of --random, or of --text, whose text_of is `text`.
std::unique_ptr<RowSource> generated_rows(const RunOptions& options, const AttentionShape& shape,
                                          std::string text);
// Q, K and V of the whole sequence.
AttentionInputs whole_inputs(RowSource& rows, const AttentionShape& shape);

}  // namespace ringscope
