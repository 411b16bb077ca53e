// What the ranks of a job tell each other before they begin: that all of them were asked for the
// same, and what rank 0 alone knows.
#pragma once

#include <string>

#include "app/command_line/options.h"
#include "core/problem/shape.h"
#include "core/process/agreement.h"

namespace ringscope {

// Everything that decides the result or who sends what when, named as people ask for it. What is
// rank 0's alone is not in it: files, and the sample of a model that was trained.
Terms terms_of(const Command& command);

// What rank 0 found out from files, or decided because only its own outputs count.
struct JobFacts {
  AttentionShape shape;
  bool is_scattered = false;  // rank 0 hands rows out; else every rank makes its own
  bool gathers_outputs = false;
  std::string text;  // of --text
};

std::string to_bytes(const JobFacts& facts);
// Throws RunError when `bytes` are not to_bytes of anything.
JobFacts job_facts_from(const std::string& bytes);

}  // namespace ringscope
