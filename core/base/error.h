// Two kinds of failure, because they mean two things to whoever called: InputError says that what
// was asked for cannot be (exit status 2), RunError that something broke while doing it (exit
// status 3). Both carry one line for people.
#pragma once

#include <stdexcept>
#include <string>

#include "core/base/math.h"

namespace ringscope {

// Bad usage or bad input. The message names the flag or file, the value, and what would be
// accepted.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Something failed while running: a peer was lost, memory ran out, a disk is full.
// `rank` and `step` say where, as far as known; -1 means not known.
class RunError : public std::runtime_error {
 public:
  explicit RunError(const std::string& message, int rank = -1, int step = -1)
      : std::runtime_error(message), rank_(rank), step_(step) {}

  int rank() const { return rank_; }
  int step() const { return step_; }

 private:
  int rank_;
  int step_;
};

// a * b; throws InputError naming `what` when the product does not fit in 63 bits. a, b >= 0.
inline Index checked_product(Index a, Index b, const std::string& what) {
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw InputError(what + ": " + std::to_string(a) + " x " + std::to_string(b) +
                     " does not fit in 64 bits; give smaller sizes");
  return product;
}

// Number of values in a [batch, heads, seqlen, head_dim] tensor; throws InputError on overflow.
inline Index checked_values(Index batch, Index heads, Index seqlen, Index head_dim) {
  const std::string what = "tensor size";
  return checked_product(checked_product(checked_product(batch, heads, what), seqlen, what),
                         head_dim, what);
}

}  // namespace ringscope
