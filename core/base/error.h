// The two kinds of failure. InputError means that the request cannot be fulfilled (exit status 2);
// RunError means that something broke while fulfilling it (exit status 3). The message of both is
// one line for people.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "core/base/math.h"

namespace ringscope {

// What a request lacks, for those who decide by it. Nobody reads a message for that.
enum class InputFault { bad_input, too_large };

// The error of bad usage or bad input. Its message names the flag or file, the value, and what
// would be accepted.
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& message, InputFault fault = InputFault::bad_input)
      : std::runtime_error(message), fault_(fault) {}

  InputFault fault() const { return fault_; }

 private:
  InputFault fault_;
};

// The error of a run that fails: a peer was lost, memory ran out, a disk is full. `rank` and `step`
// say where it happened; -1 means unknown.
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

// The first failure of ranks that wait for each other.
class SharedFailure {
 public:
  virtual ~SharedFailure() = default;
  // End every wait of every rank with `error`. Only the first call counts. Thread-safe.
  virtual void fail(const RunError& error) = 0;
  // Throw the RunError that fail() was called with, if it was.
  virtual void throw_if_failed() = 0;
};

// Return the exception that is being handled as a RunError. It names `rank` and `step` unless it
// already says where it happened.
inline RunError handled_error(int rank, int step = -1) {
  try {
    throw;
  } catch (const RunError& error) {
    return error.rank() >= 0 ? error : RunError(error.what(), rank, step);
  } catch (const std::bad_alloc&) {
    return RunError("out of memory", rank, step);
  } catch (const std::exception& error) {
    return RunError(error.what(), rank, step);
  } catch (...) {  // of a learner's own code
    return RunError("threw what is no std::exception", rank, step);
  }
}

// Call f. Whatever it throws leaves as a RunError that names rank and step.
template <class F>
void with_step_in_errors(int rank, int step, F&& f) {
  try {
    f();
  } catch (...) {
    throw handled_error(rank, step);
  }
}

// Throw a RunError unless a learner's code returned as many values as expected.
inline void require_returned(const std::string& what, std::size_t given, Index expected) {
  if (given != static_cast<std::size_t>(expected))
    throw RunError("returned " + std::to_string(given) + " " + what + ", expected were " +
                   std::to_string(expected));
}

// Throw an InputError that names the setting unless least <= value <= most.
inline void require_between(const std::string& name, Index value, Index least,
                            Index most = INT64_MAX) {
  if (least <= value && value <= most) return;
  throw InputError(name + ": " + std::to_string(value) + " given, " +
                   (most == INT64_MAX ? "at least " + std::to_string(least)
                                      : std::to_string(least) + " to " + std::to_string(most)) +
                   " accepted");
}

// Return a * b for a, b >= 0. Throw an InputError (too_large) naming `what` if it does not fit in 63
// bits.
inline Index checked_product(Index a, Index b, const std::string& what) {
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw InputError(what + ": " + std::to_string(a) + " x " + std::to_string(b) +
                         " does not fit in 64 bits; accepted: smaller sizes",
                     InputFault::too_large);
  return product;
}

// Count the values of a [batch, heads, seqlen, head_dim] tensor. Throw InputError on overflow.
inline Index checked_values(Index batch, Index heads, Index seqlen, Index head_dim) {
  const std::string what = "tensor size";
  return checked_product(checked_product(checked_product(batch, heads, what), seqlen, what),
                         head_dim, what);
}

}  // namespace ringscope
