// The flat ring, step by step: both passes of account.job(), into account.result.
//
// With K buffers, as core/ring runs it; r+1 stands for the rank after r. Of a hop both halves are
// waited for, because a communicator tells the end of an exchange, not of a message:
//
//   block of step t is there    done[r][t]  = max(ended into r, ended into r+1)
//   hop to step t, r to r+1     begins at max over both ranks of done[.][t-1] and the end of
//                               attend[.][t-K], and when the link is free
//   attend[r][t]                begins at max(done[r][t], end of attend[r][t-1])
//
// Backward, the gradient of step t's block moves on after attend[r][t] and after it was added to the
// sum that has come from rank r-1:
//
//   summed[r][t]                max(end of attend[r][t], both halves of the gradient hop before)
//   gradient hop, r to r+1      begins at max over both ranks of summed[.][t], and when the link is
//                               free: hops of a link run in the order in which ranks ask for them,
//                               blocks up to step t+K-1 before the gradient of step t
//   attend[r][t]                begins at max(done[r][t], summed[r][t-1])
//
// (so with more buffers gradients may have to wait for blocks that nobody needs yet), and a rank
// ends with the gradient hop that brings its own one home. It begins its backward pass when it has
// ended its forward pass.
#pragma once

#include "core/sim/account.h"

namespace ringscope {

// All ranks begin a step together. It lasts as long as the slowest computation or the hops beside
// it: of gradients, all of one step ago, and then of blocks, each as long as the slowest link.
// `with_path`: result.path too.
void simulate_ring_in_step(Account& account, bool with_path);

// As many as account.job().kv_buffers.
void simulate_ring_with_buffers(Account& account, bool with_path);

}  // namespace ringscope
