// The four numbers that a machine comes down to in the closed forms.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/cost/balance.h"
#include "core/cost/hardware.h"
#include "core/trace/event.h"

namespace ringscope {

struct Rates {
  double forward_flops = 0;  // FLOP/s that the attention kernel reaches: S0's F
  double backward_flops = 0;
  double bytes_per_s = 0;  // of a link, one way: S0's B
  double latency_s = 0;    // of a message, besides its bytes

  double flops(Pass pass) const { return pass == Pass::forward ? forward_flops : backward_flops; }
};

// Throws InputError when the table has no rate for `dtype`.
inline Rates rates_of(const Gpu& gpu, const Link& link, DType dtype) {
  const double peak = gpu.peak_flops(dtype);
  return {peak * gpu.forward_share, peak * gpu.backward_share, link.bytes_per_s, link.latency_s};
}

// ---
// How the speed of code is measured here: processor time of calls in turn, of which the fastest
// counts, on as many threads at once as will run it, of which the slowest counts.

// Processor seconds of the calling thread so far.
double thread_cpu_seconds();
// Of all threads of this process.
double process_cpu_seconds();

// Processor seconds of each call, the mean of a few in turn, as a run has many of them, and of all
// such means that fit into `budget` seconds the fastest: what other programs take of the machine
// meanwhile is not its speed.
std::vector<double> fastest_of(double budget, const std::vector<std::function<void()>>& calls);

// `measure`, which returns numbers and does not throw, on all benches at once, a thread each. Of
// every number the largest: it is the slowest thread that the others would wait for.
template <class Bench, class Measure>
std::vector<double> slowest_thread(const std::vector<std::unique_ptr<Bench>>& benches,
                                   const Measure& measure) {
  std::vector<std::vector<double>> numbers(benches.size());
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < benches.size(); ++i)
    workers.emplace_back([&, i] { numbers[i] = measure(*benches[i]); });
  for (std::jthread& worker : workers) worker.join();
  std::vector<double> slowest = numbers[0];
  for (const auto& mine : numbers)
    for (std::size_t k = 0; k < mine.size(); ++k) slowest[k] = std::max(slowest[k], mine[k]);
  return slowest;
}

// ---
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

// ---
// How long one layer's attention takes, and what of that is computing, waiting for a slower rank,
// and exposed communication. The three add up to the whole, but for rounding.
//
//   ring       every step lasts as long as the slowest rank's computation or the hop beside it,
//              whichever is longer (S0, "Communication Complexity"; S4, part 3, "Wall-Clock Time"):
//                forward   sum over t of max(W(t), H), without H at the last step
//                backward  sum over t of max(W(t), G + H), without G at step 0 and H at the last,
//                          plus the last hop of a gradient, G, beside which nothing is left to do
//              W(t): slowest rank's pairs; H, G: hops of a KV block and of its gradient, one after
//              the other on a link. Ranks keep step: that double buffering lets a rank run ahead by
//              a step is not used, so uneven steps that make up for each other come out slower
//              than they are.
//   allgather  all N-1 hops first, none hidden; then the slowest rank's whole work (S1, part one,
//              3.2); backward also N-1 hops of gradients.
//   two_level  see two_level_time() below, with links between nodes as inside them.
//   ulysses    all-to-alls, none hidden, and even work.
//
// Left out, because it is none of the three: adding up gradients and rescaling between steps.

// Seconds.
struct PassTime {
  double compute = 0;    // of the mean rank
  double imbalance = 0;  // waiting for the slowest one
  double exposed = 0;    // communication beside which nothing is computed
  double wall = 0;       // all of it: step after step, as the simulation adds it up (core/sim)
  double total() const { return wall; }
};

struct LayerTime {
  PassTime forward, backward;  // backward: zeros without it
  double total() const { return forward.total() + backward.total(); }
  double compute() const { return forward.compute + backward.compute; }
  double imbalance() const { return forward.imbalance + backward.imbalance; }
  double exposed() const { return forward.exposed + backward.exposed; }
};

// `balance`: balance_of(job).
LayerTime layer_time(const Job& job, const Balance& balance, const Rates& rates);

// ---
// Who holds what, when, in a ring of nodes whose every step is a ring of the ranks inside a node
// (core/sim/two_level.h): M nodes of G ranks, rank (n, g) = n G + g, step (o, i) = o G + i.

struct TwoLevelSchedule {
  int rank = 0;
  int nodes = 1;
  int ranks_a_node = 1;

  constexpr int node() const { return rank / ranks_a_node; }
  constexpr int place() const { return rank % ranks_a_node; }
  constexpr int next_here() const { return at(node(), place() + 1); }
  constexpr int previous_here() const { return at(node(), place() + ranks_a_node - 1); }
  constexpr int next_node() const { return at(node() + 1, place()); }
  constexpr int previous_node() const { return at(node() + nodes - 1, place()); }
  // 0 <= outer < nodes, 0 <= inner < ranks_a_node.
  constexpr int owner(int outer, int inner) const {
    return at(node() + nodes - outer, place() + ranks_a_node - inner);
  }

 private:
  constexpr int at(int node, int place) const {
    return node % nodes * ranks_a_node + place % ranks_a_node;
  }
};

// ---
// The closed form of a two-level ring (core/sim/two_level.h) whose ranks keep step: M nodes of G
// equal ranks, links of one kind inside nodes and of another between them.
//
//   forward   sum over o of max(sum over i of max(W(o, i), H here), H between)
//             without H here at the last i and H between at the last o
//   backward  the same with G + H in place of H, without G at the first i and the first o; then the
//             last sum's hop to its owner's node and the one to its owner: G between, G here
//
// W(o, i): slowest rank's pairs; H, G: hops of a KV block and of its gradient (above, which
// this is for M = 1 and for G = 1). With links alike it is never better than the flat ring; it is
// where a hop between nodes is longer than a step, but not than G of them.

// `balance`: balance_of(job). `rates`: of a rank, and of the links inside nodes; `between`: of
// those between nodes, as a message gets them when all ranks send one.
LayerTime two_level_time(const Job& job, const Balance& balance, const Rates& rates,
                         const Link& between);

}  // namespace ringscope
