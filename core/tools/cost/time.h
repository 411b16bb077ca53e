// Predict how long attention takes, in closed form, from four rates of a machine. Single messages, and
// the schemes without a closed form, are core/tools/sim's business.
#pragma once

#include "core/tools/cost/balance.h"
#include "core/tools/cost/hardware.h"
#include "core/trace/event.h"

namespace ringscope {

struct Rates {
  double forward_flops = 0;  // FLOP/s that the attention kernel reaches: S0's F
  double backward_flops = 0;
  double bytes_per_s = 0;  // of a link in one direction: S0's B
  double latency_s = 0;    // per message, in addition to its bytes

  double flops(Pass pass) const { return pass == Pass::forward ? forward_flops : backward_flops; }
};

// Return a rank's rates. Throw InputError when the table has no rate for `dtype`.
inline Rates rates_of(const Gpu& gpu, const Link& link, DType dtype) {
  const double peak = gpu.peak_flops(dtype);
  return {peak * gpu.forward_share, peak * gpu.backward_share, link.bytes_per_s, link.latency_s};
}

// What kernels and links leave out, as published runs show it (bench/published): every call takes
// some time by itself, and so does merging the results of two blocks, by values of the output. In
// the backward pass both take kBackwardCalls times as long.
struct CallCosts {
  double call_s = 0, merge_s = 0;
};
inline constexpr double kBackwardCalls = 1.3;

// Return a device's costs. Throw InputError when the table has none.
CallCosts calibrated_costs(const Gpu& gpu);

// ---
// How many rows a rank must hold so that computing a step takes longer than moving the next block.
//
// A step computes share c^2 pairs per head and moves a block of c rows, so computation grows with
// c^2 and the hop with c:
//
//   4 d H share c^2 / F  >=  2 d G e c / B + latency
//   c*  =  (F/B) (e/2) (G/H) / share           without latency
//
// For full masks, 2-byte values and G = H this is S0's and S3's c >= F/B (claim C30). A balanced
// causal step has half of the pairs (share 1/2), so it needs 2 F/B. B is one direction, whereas
// S3's and S1's 600 GB/s of an A100 are both together (C33). S1, part two, 7.1 has c >= F e/B,
// because it counts one of the two products (C31). For 2-byte values that is twice too much.
//
// Backward, 10 replaces 4, and the block's gradient, 8 d G c bytes in f32, travels as well.

// Return the seconds of a ring hop of a block of `rows` rows (backward, with its gradient).
double hop_seconds(const Problem& job, const Rates& rates, Pass pass, double rows);

// Return the seconds of an all-to-all in which a rank sends `bytes` in all, one message to each
// other rank. The messages start one after the other and then move side by side.
double all_to_all_seconds(double bytes, int world_size, double bytes_per_s, double latency_s);

// Return the seconds that a rank computes for `pairs` pairs.
double compute_seconds(const Problem& job, const Rates& rates, Pass pass, double pairs);

// Return the least share of c^2 that the slowest rank computes during a hop, or 1 without hops.
double least_share(const Problem& job, const Balance& balance);

// Return c*, the least number of rows per rank at which no hop is exposed, when every step with a
// hop has `share` c^2 pairs. It is infinite for share 0, because no computation hides the hop.
double threshold_rows(const Problem& job, const Rates& rates, Pass pass, double share);

// ---
// The time of one layer's attention, split into computing, waiting for a slower rank, and exposed
// communication. The three add up to the whole, except for rounding.
//
//   ring       A step lasts as long as the slowest rank's computation or the hop beside it,
//              whichever is longer (S0, "Communication Complexity"; S4, part 3, "Wall-Clock Time"):
//                forward   sum over t of max(W(t), H), without H at the last step
//                backward  sum over t of max(W(t), G + H), without G at step 0 and H at the last,
//                          plus the last gradient hop, G, which no computation hides
//              W(t) is the slowest rank's computation; H and G are the hops of a KV block and of
//              its gradient, one after the other on a link. Ranks keep step: the formula does not
//              let a rank run ahead by a step, as double buffering does. Uneven steps that
//              compensate each other therefore come out slower than they are.
//   allgather  All N-1 hops come first and none is hidden, then the slowest rank's whole work (S1,
//              part one, 3.2). The backward pass adds N-1 hops of gradients.
//   ulysses    No all-to-all is hidden, and the work is even.
//
// Adding up gradients and rescaling between steps are left out, because they are none of the three.

// All members are in seconds.
struct PassTime {
  double compute = 0;    // mean over ranks
  double imbalance = 0;  // waiting for the slowest rank
  double exposed = 0;    // communication during which nothing is computed
  double wall = 0;  // total: what the simulation in step takes (core/tools/sim), but for rounding
  double total() const { return wall; }
};

struct LayerTime {
  PassTime forward, backward;  // backward: zeros when it is not computed
  double total() const { return forward.total() + backward.total(); }
  double imbalance() const { return forward.imbalance + backward.imbalance; }
  double exposed() const { return forward.exposed + backward.exposed; }
};

// Return the time of one layer by ring, all-gather or Ulysses. `balance` is balance_of(job).
LayerTime layer_time(const Problem& job, const Balance& balance, const Rates& rates);

}  // namespace ringscope
