// Generated input rows, random or from a text. A row depends only on its global position and not on
// the partition, so a rank generates and holds no more than its own rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem/shape.h"
#include "core/threads/rows.h"

namespace ringscope {

// Element i of a tensor in C order is normal(seed, tensor, i) as f32. dO is all ones.
class RandomRows : public RowSource {
 public:
  RandomRows(const AttentionShape& shape, std::uint64_t seed) : shape_(shape), seed_(seed) {}
  void get(const RowsOfHead& piece, float* to) override;

 private:
  AttentionShape shape_;
  std::uint64_t seed_;
};

// Return Q, K and V of a seed.
inline AttentionInputs random_inputs(const AttentionShape& shape, std::uint64_t seed = 0) {
  RandomRows rows(shape, seed);
  return whole_inputs(rows, shape);
}

// ---
// Attention inputs from a text. Every byte is a token, and equal words really attend to each other.
//
// The feature of a byte is the sum of two vectors of uniform random numbers. One is drawn for the
// byte, the other for the prefix of its word up to and including that byte. A word is a run of
// letters, digits and underscores; any other byte is a word of its own. So the last byte of a word
// has the same feature wherever the word stands, and words that begin alike share features up to
// where they part. Bytes equal in other words score about a quarter of equal words, and different
// bytes score 0 on average, with a deviation of about 8 / sqrt(head_dim).
//
//   K  the feature of seed (K, kv head), in two parts: the last dimensions as they are, the first
//      ones turned by rotary angles of the token's position (pair i of R by
//      position / 10000^(i / R)). The parts are scaled so that at the default softmax scale a
//      feature scores 8 against itself by the last ones, at any distance, and by the first ones up
//      to 2 more, which fades with the distance.
//   Q  the same for the query head's kv head, plus a quarter of a feature of the query head's own.
//   V  the feature of seed (V, kv head), without positions, of unit variance.

// Return the number of bytes in `path`. Throw an InputError that names it if it can't be opened, is
// empty, or is a directory or another thing without a length.
Index text_length(const std::string& path);

// Return the first `length` bytes of `path`. Throw InputError as text_length does, and if there are
// fewer bytes or reading fails.
std::string read_text(const std::string& path, Index length);

// Q, K and V of a text, row by row. A rank that holds the text's bytes makes its own rows. dO is 1.
class TextRows : public RowSource {
 public:
  // `text` holds shape.batch windows of shape.seqlen tokens, one after the other. Positions and
  // words start anew in every window.
  TextRows(const AttentionShape& shape, std::string text);

  // It is cheapest in the order of for_each_piece, because the words of one window are cached.
  void get(const RowsOfHead& piece, float* to) override;

 private:
  void turn_to(Index window);
  std::string_view bytes_of_window() const;
  // Set feature_ to the row of `tensor` at `position` of the window.
  void make_feature(Tensor tensor, Index head, Index position);

  AttentionShape shape_;
  std::string text_;
  Index window_ = -1;
  std::vector<std::uint64_t> hashes_;  // of the window's bytes
  std::vector<double> feature_, own_;
};

}  // namespace ringscope
