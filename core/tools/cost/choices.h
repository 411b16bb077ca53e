// Find what fits into a given memory: the largest seqlen, the smallest world_size, and the best way
// to run a job (claim C52: N ranks hold about N times the context of one).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/ring/problem.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"

namespace ringscope {

// Return the most bytes that a rank of a job holds. It must not fall as seqlen grows. peak_bytes()
// counts attention alone; with a model around it, model_memory_parts() in model_step.h adds the rest.
using MemoryOf = std::function<double(const Problem& job)>;

// Return why `job` can't run with `memory_bytes` per rank, for its scheme's sake (why_refused()) or the
// memory's. Return none when it can.
std::optional<std::string> obstacle(const Problem& job, double memory_bytes,
                                    const MemoryOf& memory_of = peak_bytes);

// Return the largest seqlen, up to kMaxSeqlen, that fits into a rank's memory when all else stays
// equal but for documents and slices, which allow all pairs then; or 0 when not even one position fits.
Index largest_seqlen(const Problem& job, double memory_bytes,
                     const MemoryOf& memory_of = peak_bytes);

// Return the smallest world_size that fits when all else stays equal. It divides the heads
// (Ulysses, so that all ranks hold as much) or is a multiple of the nodes (two-level rings), of a
// group (hybrid) or of the grid's rows (mesh). Return none when nothing fits.
std::optional<int> smallest_world_size(const Problem& job, double memory_bytes,
                                       const MemoryOf& memory_of = peak_bytes);

// ---
// Compare every partition and scheme for a job, and pick the best of them.

struct Choice {
  Problem job;
  Balance balance;
  LayerTime time;
  double peak_bytes = 0;                // of the rank that holds most
  std::optional<std::string> obstacle;  // why it can't run
};

// Return `job` in all partitions as a ring, then as an all-gather, and once with Ulysses. Under Ulysses
// every rank computes on the whole sequence, so the partition makes no difference and is contiguous. If
// the partition of `job` is none of the fixed ones, it comes last as a ring and as an all-gather.
std::vector<Problem> all_ways(const Problem& job);

// Judge one of them by the closed forms. `balance` is that of the job, counted pair by pair, or in whole
// tiles.
Choice judge(const Problem& job, const Balance& balance, const Rates& rates, double memory_bytes,
             const MemoryOf& memory_of = peak_bytes);

// Return the index of the first choice, in the order of all_ways(), that can run and takes at
// most 1 % longer than the fastest. That order prefers contiguous rows and few partial tiles (C25).
// Return none when no choice can run.
std::optional<std::size_t> best_choice(const std::vector<Choice>& choices);

}  // namespace ringscope
