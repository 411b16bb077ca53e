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
#pragma once

#include <string>
#include <string_view>

#include "core/base/shape.h"
#include "core/ring/run.h"

namespace ringscope {

// Bytes in the file `path`. Throws InputError that names it: can't be opened, a directory or
// another thing without a length, empty.
Index text_length(const std::string& path);

// The first `length` bytes of `path`. Throws InputError as text_length, when there are fewer, and
// when reading fails.
std::string read_text(const std::string& path, Index length);

// Q, K, V of `text`, which holds shape.batch windows of shape.seqlen tokens, one after the other.
// Positions and words begin anew with every window.
AttentionInputs embed_text(const AttentionShape& shape, std::string_view text);

}  // namespace ringscope
