// The table of schemes. A new one is a file of its own and a place in both lists, in the order in which
// the program offers them.
#pragma once

#include "core/ring/rank_memory.h"
#include "core/ring/schemes.h"

namespace ringscope {

extern const Scheme kRing, kBidirectional, kMultiRing, kPassQ, kAllgather, kUlysses, kHybrid,
    kTwoLevel, kMesh, kGroupcast, kTree;

inline constexpr const Scheme* kSchemes[] = {&kRing,      &kBidirectional, &kMultiRing, &kPassQ,
                                             &kAllgather, &kUlysses,       &kHybrid,    &kTwoLevel,
                                             &kMesh,      &kGroupcast,     &kTree};

// The loop of a scheme that has one alone.
template <ForwardLoop& forward, BackwardLoop& backward>
Loop only_loop(const RingProblem& /*problem*/) {
  return {forward, backward};
}

// Return what is held of the largest share of the heads, of `shares` in all, without any buffers: the first
// share where whole kv heads are shared out, otherwise one of a kv head with the fewest members.
Extras extras_of_share(const AttentionShape& shape, Index shares);

// Return how many buffers blocks need that rotate through them beside the own one, which stays.
constexpr int buffers_of_turns(int steps) { return steps < 3 ? steps - 1 : 2; }

// Return the divisors of `n`, as in "1, 2, 4".
std::string divisors_text(int n);

}  // namespace ringscope
