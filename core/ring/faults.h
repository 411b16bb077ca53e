// Hangs and wrong numbers on purpose: the mistakes that ring programs are made with, each put into
// one rank's hops as a decorator around the communicator, for lessons and for the tests of how a run
// ends. `--inject KIND[@RANK[:STEP]]`.
#pragma once

#include <string>
#include <string_view>

namespace ringscope {

enum class Fault {
  unposted_recv,  // the rank sends but never posts its receive
  send_first,   // every rank waits for its send before it posts its receive: no group, so a circle
  wrong_count,  // the rank sends one row less than its peer expects
  early_reuse,  // the block sent is overwritten before it has left
  slow_rank,    // the rank sleeps before every hop
  killed_rank   // the rank's process ends by SIGKILL (a thread: throws, as if its thread had died)
};

inline constexpr Fault kAllFaults[] = {Fault::unposted_recv, Fault::send_first, Fault::wrong_count,
                                       Fault::early_reuse,   Fault::slow_rank,  Fault::killed_rank};

constexpr std::string_view name_of(Fault fault) {
  constexpr std::string_view names[] = {"unposted-recv", "send-first", "wrong-count",
                                        "early-reuse",   "slow-rank",  "killed-rank"};
  return names[static_cast<int>(fault)];
}

struct Injection {
  Fault fault = Fault::slow_rank;
  int rank = -1;  // -1: the last one
  int step = 0;   // of the forward pass; slow_rank: from this one on

  bool operator==(const Injection&) const = default;
};

// "wrong-count@2:1". Throws InputError that lists the kinds.
Injection parse_injection(std::string_view text);
std::string to_string(const Injection& injection);

// Throws InputError when there is no such rank or hop.
void check_injection(const Injection& injection, int world_size);

}  // namespace ringscope
