// Deliberate faults: the mistakes that ring programs are made with, which cause hangs and wrong
// numbers, and delays. Lessons and tests inject one into a rank to see how a run ends, or what a
// ring makes of the delay. The option is `--inject KIND[@RANK[:STEP]]`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/names.h"

namespace ringscope {

enum class Fault {
  unposted_recv,  // the rank sends but never posts its receive
  send_first,   // every rank sends before it posts its receive (no group), so all wait in a circle
  wrong_count,  // the rank sends one row less than its peer expects
  early_reuse,  // the sent block is overwritten before it has left
  slow_rank,    // the rank sleeps before every hop that it starts
  killed_rank,  // the rank's process ends by SIGKILL (a thread throws instead)
  straggler,    // the rank sleeps before every block that it attends
  jitter,       // the rank, or every rank, sleeps a random time before every block
  no_overlap    // every rank waits for a hop to end before it attends the block that it has
};
constexpr auto names_of(Fault) {
  return list_of({"unposted-recv", "send-first", "wrong-count", "early-reuse", "slow-rank",
                  "killed-rank", "straggler", "jitter", "no-overlap"});
}
inline constexpr auto kAllFaults = kAllOf<Fault>;

// Return whether the fault delays computation rather than hops (core/threads/faulty_ring.h).
constexpr bool delays_computing(Fault fault) {
  return fault == Fault::straggler || fault == Fault::jitter;
}

struct Injection {
  Fault fault = Fault::slow_rank;
  int rank = -1;  // -1: the last one; jitter: all ranks
  int step = 0;   // of the forward pass; slow_rank, straggler and jitter act from this one on
  // How long those three sleep. jitter draws its sleeps from the exponential distribution of this
  // mean, using the seed, anew for every rank, pass and step.
  double delay_s = 0.05;
  std::uint64_t seed = 0;

  bool operator==(const Injection&) const = default;
};

// Parse text such as "wrong-count@2:1". Throw an InputError that lists the kinds.
Injection parse_injection(std::string_view text);
std::string to_string(const Injection& injection);

// Throw InputError when there is no such rank or hop.
void check_injection(const Injection& injection, int world_size);

}  // namespace ringscope
