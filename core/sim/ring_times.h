// Computes the times of whole passes, by one function per scheme and pace. simulate.cpp chooses
// among them.
#pragma once

#include "core/sim/account.h"
#include "core/sim/two_level.h"

namespace ringscope {

// ---
// The flat ring, step by step: both passes of account.job(), written to account.result.
//
// With K buffers this is the ring of core/ring; r+1 stands for the rank after r. A rank waits for
// both halves of a hop, because a communicator reports the end of an exchange, not of a message:
//
//   block of step t is there    done[r][t]  = max(ended into r, ended into r+1)
//   hop to step t, r to r+1     begins at max over both ranks of done[.][t-1] and the end of
//                               attend[.][t-K], and when the link is free
//   attend[r][t]                begins at max(done[r][t], end of attend[r][t-1])
//
// Backward, the gradient of step t's block moves on after attend[r][t] and after it is added to the
// sum that came from rank r-1:
//
//   summed[r][t]                max(end of attend[r][t], both halves of the gradient hop before)
//   gradient hop, r to r+1      begins at max over both ranks of summed[.][t], and when the link is
//                               free: hops of a link run in the order in which ranks ask for them,
//                               blocks up to step t+K-1 before the gradient of step t
//   attend[r][t]                begins at max(done[r][t], summed[r][t-1])
//
// With more buffers, gradients may therefore wait for blocks that nobody needs yet. A rank's
// backward pass begins when its forward pass ends, and ends with the gradient hop that brings its
// own one home.

// Simulate ranks that all begin a step together. A step lasts as long as the slowest computation or
// the hops beside it: the gradients of one step ago, then blocks, each as long as on the slowest
// link. `with_path` also fills result.path.
void simulate_ring_in_step(Account& account, bool with_path);

// Simulate a ring whose ranks hold account.job().kv_buffers KV blocks.
void simulate_ring_with_buffers(Account& account, bool with_path);

// ---
// The all-gather of core/ring/allgather.cpp, hop by hop: both passes of account.job(), written to
// account.result. Every rank gathers all blocks and then computes alone. Each hop comes after both
// halves of the one before. Backward, gradients follow, each hop after the last one's are added.

// Simulate an all-gather. With `in_step` all ranks begin each hop together and also end computing
// together; otherwise each goes on when it can. `with_path` also fills result.path.
void simulate_allgather(Account& account, bool in_step, bool with_path);

// ---
// The two-level ring (two_level.h), step by step. Both passes go into account.result.

void simulate_two_level_in_step(Account& account, TwoLevelHops& hops, bool with_path);

// Simulate ranks with account.job().kv_buffers KV buffers on each level.
void simulate_two_level_with_buffers(Account& account, TwoLevelHops& hops, bool with_path);

}  // namespace ringscope
