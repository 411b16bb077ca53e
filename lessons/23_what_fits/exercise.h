// Exercise 23: the four bills of a training run, for each GPU: weights and optimizer, which one
// function counts together, activations, and logits.
#pragma once

struct Run {
  double layers, width, kv_width, hidden, heads, words;  // kv_width: all heads of K together
  double weights;
  double tokens;  // of the whole text, split evenly over the ranks
  int ranks;
  bool recompute = false;   // keep layers' inputs only, and compute one layer at a time again
  bool shard = false;       // weights and optimizer are divided by the ranks
  double logit_pieces = 1;  // as many pieces of the logits are made one after the other
};

// 16 bytes a weight.
inline double state_bytes(const Run& run) {
  return 16 * run.weights;  // not yet right: what if it is sharded?
}

// bf16: for each token and layer 6 numbers of `width`, 2 of kv_width, 3 of `hidden`; lse, f32, is a
// number a head. A layer's input is `width` bf16 numbers.
inline double activation_bytes(const Run& run) {
  return run.tokens * run.layers * run.width;  // not yet right
}

// An f32 for each token and word.
inline double logit_bytes(const Run& run) {
  return run.tokens * run.words;  // not yet right
}

// Return the fewest ranks, a power of two up to 4096, whose three bills together are at most
// `memory`, or 0 if there are none. Ignore run.ranks.
inline int fewest_ranks(Run run, double memory) {
  return run.ranks;  // not yet right
}
