// What the ranks of a job tell each other before they begin: the terms, which must be equal on all
// ranks, and the facts that only rank 0 knows.
#pragma once

#include <string>

#include "app/command_line/commands.h"
#include "core/problem/shape.h"
#include "core/process/agreement.h"

namespace ringscope {

// Return everything that decides the result or who sends what when, by flag. What concerns rank 0
// alone is left out: files, and the sample of a trained model.
Terms terms_of(const Command& command);

// What rank 0 read from files, or decided because only its own outputs count.
struct JobFacts {
  AttentionShape shape;
  bool is_scattered = false;  // rank 0 sends each rank its rows; else each makes its own
  bool gathers_outputs = false;
  std::string text;  // of --text
};

std::string to_bytes(const JobFacts& facts);
// Throw RunError when `bytes` are not the to_bytes() of any facts.
JobFacts job_facts_from(const std::string& bytes);

}  // namespace ringscope
