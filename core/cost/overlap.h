// How many rows a rank must hold so that computing a step takes longer than moving the next block.
//
// A step computes share c^2 pairs a head and moves a block of c rows, so both times grow with c,
// one with its square:
//
//   4 d H share c^2 / F  >=  2 d G e c / B + latency
//   c*  =  (F/B) (e/2) (G/H) / share           without latency
//
// For full masks, 2-byte values and as many kv heads this is S0's and S3's c >= F/B (claim C30). A
// balanced causal step has half of the pairs (share 1/2): 2 F/B. B is one way: S3's and S1's 600
// GB/s of an A100 are both directions together (C33). S1, part two, 7.1 has c >= F e/B, from one of
// the two products (C31); for 2-byte values twice too much.
//
// Backward, 10 in place of 4, and the gradient of the block, 8 d G c bytes in f32, travels as well.
#pragma once

#include "core/cost/balance.h"
#include "core/cost/rates.h"

namespace ringscope {

// Seconds that a ring hop of a block of `rows` rows takes; backward the block's and its gradient's.
double hop_seconds(const Job& job, const Rates& rates, Pass pass, double rows);

// Seconds of an all-to-all in which a rank sends `bytes` in all, as messages to each other rank:
// one after the other they start, side by side they move.
double all_to_all_seconds(double bytes, int world_size, double bytes_per_s, double latency_s);

// Seconds that a rank computes for `pairs` pairs.
double compute_seconds(const Job& job, const Rates& rates, Pass pass, double pairs);

// The least share of c^2 that the slowest rank computes beside a hop; 1 without hops.
double least_share(const Job& job, const Balance& balance);

// c*: the least number of rows a rank at which no hop is exposed, when every step beside a hop has
// `share` c^2 pairs. Infinite for share 0: what is moved beside nothing can't be hidden.
double threshold_rows(const Job& job, const Rates& rates, Pass pass, double share);

}  // namespace ringscope
