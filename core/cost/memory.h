// Predict what a rank holds during one layer's attention, part by part: what RankMemory
// (core/ring/rank_memory.h) counts, also for Ulysses and two-level rings. Nothing grows with rows x
// rows, because a tiled kernel never holds the block of scores in S2's table ((S/N)^2; claim C43).
//
// S0, "Memory Complexity", counts 6 d c values per rank and head: Q, O, and two each of K and V.
// That is right for an output in the storage type (C34), but here it is accumulated in f32. S3,
// entry 4, prints 6 b c h bytes, which are values, and counts other tensors (C35).
#pragma once

#include <string>
#include <vector>

#include "core/ring/problem.h"

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

// Return the parts of what a rank with `rows` rows holds at its peak. Omit parts of 0 bytes.
std::vector<MemoryPart> memory_parts(const Problem& job, double rows);

double total_bytes(const std::vector<MemoryPart>& parts);

// Return the peak of the rank with the most rows, which is what a device must have.
double peak_bytes(const Problem& job);

// Return S0's account of a ring, in values: Q, O, the current KV block and the incoming one.
double ring_values_of_s0(const AttentionShape& shape, double rows);

// Return the bytes of naive attention's score matrix, over batch entries and heads (S0; S1, part
// two, 12.1). S3, entry 4, uses the model's width instead of the number of heads (C36).
double score_matrix_bytes(const AttentionShape& shape, double value_bytes);

}  // namespace ringscope
