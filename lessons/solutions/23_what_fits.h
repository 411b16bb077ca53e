// Exercise 23, solved.
#pragma once

struct Run {
  double layers, width, kv_width, hidden, heads, words;  // kv_width: all heads of K together
  double weights;
  double tokens;
  int ranks;
  bool recompute = false;
  bool shard = false;
  double logit_pieces = 1;
};

inline double state_bytes(const Run& run) { return 16 * run.weights / (run.shard ? run.ranks : 1); }

inline double activation_bytes(const Run& run) {
  const double rows = run.tokens / run.ranks;
  const double layer =
      rows * (2 * (6 * run.width + 2 * run.kv_width + 3 * run.hidden) + 4 * run.heads);
  return run.recompute ? run.layers * rows * run.width * 2 + layer : run.layers * layer;
}

inline double logit_bytes(const Run& run) {
  return run.tokens / run.ranks * run.words * 4 / run.logit_pieces;
}

inline int fewest_ranks(Run run, double memory) {
  for (run.ranks = 1; run.ranks <= 4096; run.ranks *= 2)
    if (state_bytes(run) + activation_bytes(run) + logit_bytes(run) <= memory) return run.ranks;
  return 0;
}
