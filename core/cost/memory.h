// What a rank holds during one layer's attention, part by part: the account of RankMemory
// (core/ring/rank_memory.h), with Ulysses and the two-level ring added. Nothing grows with rows x
// rows: a tiled kernel never holds the block of scores that S2's table ((S/N)^2) counts (claim
// C43).
//
// S0, "Memory Complexity", comes to 6 d c values a rank and head: Q, O, and K and V twice. That is
// right for an output kept in the storage type (C34); here the output is summed up in f32. S3,
// entry 4, prints 6 b c h bytes, which are values, and lets the 6 stand for other things (C35).
#pragma once

#include <string>
#include <vector>

#include "core/cost/job.h"

namespace ringscope {

struct MemoryPart {
  std::string name;
  double bytes = 0;
  std::string formula;  // in the letters of kMemoryLetters
};

inline constexpr const char* kMemoryLetters =
    "b batch, c rows of a rank, S seqlen, N world_size, H heads, G kv heads, d head_dim, e bytes "
    "of "
    "a stored value, L layers";

// What a rank with `rows` rows holds at most, by part; parts of 0 bytes are left out.
std::vector<MemoryPart> memory_parts(const Job& job, double rows);

double total_bytes(const std::vector<MemoryPart>& parts);

// Of the rank with the most rows: what a device must have.
double peak_bytes(const Job& job);

// S0's account of a ring, in values: Q, O, the KV block at hand and the incoming one.
double ring_values_of_s0(const AttentionShape& shape, double rows);

// The matrix of scores that naive attention holds, over batch entries and heads (S0; S1, part two,
// 12.1). S3, entry 4, puts the model's width where the number of heads belongs (C36).
double score_matrix_bytes(const AttentionShape& shape, double value_bytes);

}  // namespace ringscope
