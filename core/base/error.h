// Two kinds of failure, because they mean two things to whoever called: InputError says that what
// was asked for cannot be (exit status 2), RunError that something broke while doing it (exit
// status 3). Both carry one line for people.
#pragma once

#include <stdexcept>
#include <string>

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

}  // namespace ringscope
