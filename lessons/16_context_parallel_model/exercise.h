// Exercise 16: whose count?
//
// Short texts are filled up to one length with bytes that nobody should learn. Their rows have no
// loss: they don't count. So ranks have unequally many rows that count, and some may have none.
//
// Each rank computes the loss of its own rows as a library does that knows nothing of other ranks,
// and the gradients of it:
//
//   Kind::mean    the mean over its own rows that count; with none of them, gradients are 0
//   Kind::sum     the sum over them
//
// Then the gradients are averaged over the ranks (added up, and divided by world_size), for that is
// all that the library can do.
//
// Return what a rank must multiply its gradients with before that, so that what comes out are the
// gradients of the mean (or sum) over all ranks' rows that count. If none counts anywhere, they are
// 0. Never return NaN or infinity: they would spoil even gradients that are 0.
#pragma once

enum class Kind { mean, sum };

// own_count: of the rank's rows that count; all_count: of all ranks' together.
inline double factor(Kind kind, long own_count, long all_count, int world_size) {
  return 1;  // not yet right, unless it is the mean, and all ranks have as many rows that count
}
