// A model small enough for sums by hand, the model of lesson 23, and one that never fits.
#include <string>

#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  Run small{2, 4, 1, 8, 1, 10, 100, 8, 2};
  exercise.equal("small: state", state_bytes(small), 1600);
  exercise.equal("small: activations", activation_bytes(small), 2 * 4 * (2 * (24 + 2 + 24) + 4));
  exercise.equal("small: logits", logit_bytes(small), 4 * 10 * 4);
  small.recompute = small.shard = true;
  small.logit_pieces = 4;
  exercise.equal("small, sharded: state", state_bytes(small), 800);
  exercise.equal("small, recomputed: activations", activation_bytes(small), 2 * 4 * 4 * 2 + 416);
  exercise.equal("small, in pieces: logits", logit_bytes(small), 40);

  Run large{32, 4096, 1024, 14336, 32, 128256, 8.03e9, 1048576, 16};
  exercise.near("8B: activations of a rank, GB", activation_bytes(large) / 1e9, 292.3, 0.1);
  exercise.equal("8B: no number of copies fits", fewest_ranks(large, 80e9), 0);
  large.shard = true;
  exercise.equal("8B, sharded", fewest_ranks(large, 80e9), 128);
  large.recompute = true;
  large.logit_pieces = 16;
  exercise.equal("8B, all three", fewest_ranks(large, 80e9), 8);
  large.tokens = 131072;
  exercise.equal("8B, all three, 131,072 tokens", fewest_ranks(large, 80e9), 4);
}
