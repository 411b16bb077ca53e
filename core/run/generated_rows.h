// Rows drawn from N(0, 1) by their global position: what a rank gets does not depend on how the
// sequence is dealt out, and nobody has to hold more than he asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem/shape.h"
#include "core/run/rows.h"

namespace ringscope {

// Element i of a tensor in C order is normal(seed, tensor, i) as f32. dO is ones.
class RandomRows : public RowSource {
 public:
  RandomRows(const AttentionShape& shape, std::uint64_t seed) : shape_(shape), seed_(seed) {}
  void get(const RowsOfHead& piece, float* to) override;

 private:
  AttentionShape shape_;
  std::uint64_t seed_;
};

// ---
// A text as attention inputs: every byte is a token, and equal words really attend to each other.
//
// The feature of a byte is the sum of two vectors of uniform random numbers, one drawn for the
// byte, one for the prefix of its word up to and including that byte (a word is a run of letters,
// digits and underscores; any other byte is a word of its own). So the last byte of a word has the
// same feature wherever the word stands. Words that begin alike share features up to where they
// part. Otherwise equal bytes score about a quarter of equal words, and different ones 0 on
// average, with a deviation of about 8 / sqrt(head_dim).
//
//   K  the feature of seed (K, kv head), in two parts: the last dimensions as they are, the first
//      ones turned by rotary angles of the token's position (pair i of R by
//      position / 10000^(i / R)). The parts are scaled so that at the default softmax scale a
//      feature scores 8 against itself by the last ones, at any distance, and by the first ones up
//      to 2 more, which fades with the distance.
//   Q  the same for the query head's kv head, plus a quarter of a feature of the query head's own.
//   V  the feature of seed (V, kv head), without positions, of unit variance.

// Bytes in the file `path`. Throws InputError that names it: can't be opened, a directory or
// another thing without a length, empty.
Index text_length(const std::string& path);

// The first `length` bytes of `path`. Throws InputError as text_length, when there are fewer, and
// when reading fails.
std::string read_text(const std::string& path, Index length);

// Q, K and V of a text, row by row: a rank that holds the text's bytes makes its own rows. dO is
// ones.
class TextRows : public RowSource {
 public:
  // `text` holds shape.batch windows of shape.seqlen tokens, one after the other. Positions and
  // words begin anew with every window.
  TextRows(const AttentionShape& shape, std::string text);

  // Cheapest in the order of for_each_piece: the words of one window at a time are known.
  void get(const RowsOfHead& piece, float* to) override;

 private:
  void turn_to(Index window);
  std::string_view bytes_of_window() const;
  // Sets feature_ to the row of `tensor` at `position` of the window.
  void make_feature(Tensor tensor, Index head, Index position);

  AttentionShape shape_;
  std::string text_;
  Index window_ = -1;
  std::vector<std::uint64_t> hashes_;  // of the window's bytes
  std::vector<double> feature_, own_;
};

}  // namespace ringscope
